"""Our own test double: a subject that is served in another process shows the same as in this one, call by call."""

import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest
from attrs import evolve

from kvlaw.conformance.check import counted
from kvlaw.conformance.corpus import entries_for
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.machines.policies import served
from kvlaw.conformance.subjects.targets import open_target, target_kinds
from kvlaw.conformance.testee.serve import Server
from kvlaw.spec import wire
from kvlaw.spec.calls import AppendWindow, Trim
from kvlaw.spec.config import Config, Kind
from kvlaw.spec.contract import Subject
from kvlaw.spec.trace import Trace

SERVE = f"{shlex.quote(sys.executable)} -m kvlaw.conformance.cli testee serve"
SPOILT = AppendWindow(length=3, malformed="heads")
EXTRA = Trace(Config("full", look="last"), (SPOILT, AppendWindow(length=2), Trim(n=1.0)))


def traces(subject: Subject, kind: Kind, every: int) -> list[Trace]:
    """Choose some of the stored traces that a subject can be asked, among them spoilt ones of each way."""
    entries = entries_for(kind, subject.capabilities, "layout", served(subject, subject.capabilities))
    return [*(entry.trace for entry in entries[::every]), *((EXTRA,) if kind == "full" else ())]


def told(step: Step) -> tuple[object, ...]:
    """Give all that a report or a verdict takes from a step."""
    message = step.message if step.record.outcome == "error" else ""
    return step.record, step.divergences, step.exercised, step.ends, message


@pytest.mark.parametrize(
    ("target", "every"),
    [
        ("builtin:oracle", 13),
        ("builtin:mlx_impl.ring", 12),
        ("builtin:mlx_impl.bf16_first_ring_rows", 12),
        ("builtin:mlx_lm.RotatingKVCache", 5),
    ],
)
def test_a_served_subject_shows_the_same_call_by_call(target: str, every: int) -> None:
    if "mlx_lm" in target and find_spec("mlx_lm") is None:
        pytest.skip("mlx-lm is not installed: pip install 'kvlaw[mlx-lm]'")
    here = open_target(target, {"seconds": "60"})
    there = open_target(f"cmd:{SERVE} {target} --set seconds=60", {"seconds": "60"})
    calls = 0
    for kind in target_kinds(target):
        clauses = counted("layout", kind, here.capabilities)
        assert clauses == counted("layout", kind, there.capabilities)
        for stored in traces(here, kind, every):
            trace = evolve(stored, config=evolve(stored.config, stamp="code"))
            wanted, got = (Lockstep(subject, "layout", clauses).run(trace) for subject in (here, there))
            assert [told(step) for step in got] == [told(step) for step in wanted], trace.dumps()
            calls += len(got)
    assert calls > 60
    there.close()


def test_a_fault_is_found_through_the_pipe() -> None:
    there = open_target(f"cmd:{SERVE} fault:trims-one-row", {"seconds": "60"})
    trace = Trace(Config("full_rows"), (AppendWindow(length=2), Trim(n=1)))
    steps = Lockstep(there, "core", counted("core", "full_rows", there.capabilities)).run(trace)
    assert [d.clause for d in steps[-1].divergences[:1]] == ["ROWS-19"]
    there.close()


def test_nothing_but_answers_reaches_stdout(tmp_path: object) -> None:
    code = (
        "import os, sys; from kvlaw.conformance.testee import serve; from kvlaw.conformance.subjects.oracle import "
        "ReferenceAdapter; from kvlaw.conformance.adapter import AdapterSubject\n"
        "class Loud(ReferenceAdapter):\n"
        "    def build(self, layer):\n"
        "        print('building'); os.write(1, b'from C'); return super().build(layer)\n"
        "serve.serve(AdapterSubject(Loud()), 'loud', ('full',))"
    )
    lines = [{"id": 0, **wire.hello("1.4", "x")}, {"id": 1, **wire.opening(Config("full"))}, {"id": 2, "bye": {}}]
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        input=b"".join(wire.write_line(line) for line in lines),
        capture_output=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert [wire.read_line(line)["id"] for line in run.stdout.splitlines()] == [0, 1]
    assert b"building" in run.stderr
    assert b"from C" in run.stderr


def test_the_server_answers_whatever_it_is_told() -> None:
    server = Server(open_target("builtin:oracle"), "oracle", ("full",))
    answers = {
        b"nonsense": (0, "error"),
        b"[]": (0, "error"),
        b'{"id": 3}': (3, "error"),
        b'{"id": 4, "call": {"call": "levitate", "on": "c0"}, "look": true}': (4, "unsupported"),
        b'{"id": 5, "open": {"kind": "rign"}}': (5, "error"),
        b'{"id": 6, "open": {"kind": "ring", "window": 0}}': (6, "refused"),
        b'{"id": 7, "open": {"kind": "full", "novelty": 1}}': (7, "ok"),
        b'{"id": 8, "call": {"call": "look", "on": "nobody"}, "look": true}': (8, "error"),
        b'{"id": 9, "call": {"call": "decode"}, "look": true, "tensors": {"keys": 5}}': (9, "error"),
    }
    for line, (number, outcome) in answers.items():
        answer = server.answer(line)
        assert answer is not None
        body = wire.read_line(answer)
        assert (body["id"], body["outcome"]) == (number, outcome), body
    assert server.answer(b'{"id": 10, "bye": {}}') is None
