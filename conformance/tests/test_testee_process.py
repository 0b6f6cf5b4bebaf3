"""Processes as subjects: what one does instead of answering is the outcome of its trace, and nothing is left behind."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.check import Plan, check
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.opening import open_any
from kvlaw.conformance.session import TargetGoneError
from kvlaw.conformance.store import Stored
from kvlaw.conformance.subjects.targets import TargetError, known_targets, open_target
from kvlaw.conformance.testee import channel as channels
from kvlaw.conformance.testee.launch import Launch
from kvlaw.conformance.testee.subject import ProcessSubject
from kvlaw.spec.calls import (
    AppendDecode,
    Attend,
    Clone,
    Extract,
    Load,
    MakeCache,
    Merge,
    OpenList,
    Save,
    Trim,
)
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse

HOSTILE = Path(__file__).parent / "testees" / "hostile.py"
PYTHON = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(HOSTILE))}"
COUNTS = frozenset(load_clauses().of_profile("core").by_id)
Make = Callable[..., ProcessSubject]


@pytest.fixture
def start() -> Generator[Make]:
    """Make testees in a mode of ``hostile.py``, and end them after the test."""
    made: list[ProcessSubject] = []

    def make(mode: str, seconds: float = 5.0, hello: float = 20.0) -> ProcessSubject:
        made.append(ProcessSubject(Launch.of(f"{PYTHON} {mode}", hello), seconds))
        return made[-1]

    yield make
    for subject in made:
        subject.close()


def walk(subject: Subject, text: str) -> tuple[Step, ...]:
    return Lockstep(subject, "core", COUNTS).run(parse(text).trace)


def fine(subject: Subject) -> bool:
    """Say whether a trace that meets no trouble is walked to its end without a divergence."""
    steps = walk(subject, "full ; window 2 ; decode ; trim 1 ; decode")
    return [s.record.outcome for s in steps] == ["ok"] * 5 and not any(s.divergences for s in steps)


TROUBLE = {
    "exit": ["exited with code 0"],
    "exit-3": ["exited with code 3", "stderr ends: out of cheese"],
    "kill": ["was ended by signal 9 (SIGKILL)"],
    "abort": ["was ended by signal 6 (SIGABRT)"],
    "heir": ["was ended by signal 9 (SIGKILL)"],
    "half-exit": ["exited with code 0 in the middle of a line", '{"id": 2, "outcome": "o'],
    "half-hang": ["closed its stdout in the middle of a line"],
    "two-answers": ["behind its answer the testee wrote", '{"id": 2'],
    "noise": ["'DEBUG'", "no valid JSON"],
    "garbage": ["'DEBUG: window of three'", "no valid JSON"],
    "bytes": ["no text in UTF-8"],
    "blank": ["no valid JSON"],
    "nan": ["NaN is no JSON number"],
    "twice-named": ["'id' stands twice"],
    "deep": ["nested too deeply"],
    "digits": ["no valid JSON"],
    "wrong-id": ["id: 9 came as the answer to message 2"],
    "text-id": ["id: '2' is no id"],
    "no-id": ["id: is missing"],
    "a-list": ["an object is wanted, not a list"],
    "no-outcome": ["outcome: is missing"],
    "odd-outcome": ["outcome: 'fine' is not one of ok, refused, unsupported, error"],
    "text-offset": ["state.offset: '3' is not an integer"],
    "real-offset": ["state.offset: 3.0 is not an integer"],
    "vast-offset": ["state.offset: 1000000000000000000000000000000 is not an integer of 64 bits"],
    "flag-offset": ["state.offset: true is not an integer"],
    "list-state": ["state: an object is wanted, not a list"],
    "text-flags": ["state.can_trim[1]: 'no' is not true or false"],
    "odd-mask": ["read.mask: 'diagonal' is no mask"],
    "real-mask": ["read.mask: a mask is of bool, not of 'f32'"],
    "byte-mask": ["read.mask: a byte of a bool is 0 or 1, and one is 7"],
    "odd-dtype": ["read.keys.dtype: 'bf17' is none"],
    "other-dtype": ["read.keys: f16 instead of bf16"],
    "short-tensor": ["read.keys.base64: bf16 [1, 2, 3, 64] takes 768 bytes", "1024 characters, not 16"],
    "huge-shape": ["read.keys.base64", "more than 10^15 bytes"],
    "vast-shape": ["read.keys.shape", "is no length of an axis"],
    "empty-huge": ["read.keys.shape: no tensor, not even an empty one"],
    "minus-shape": ["read.keys.shape: -1 is no length"],
    "many-axes": ["read.keys.shape: 40 axes"],
    "no-base64": ["read.keys.base64: no base64"],
    "deep-rows": ["rows and layers stand in each other"],
}
"""What ``hostile.py`` does at a window of three, and what is said of it."""
SLOW = {
    "hang": ["no answer within 0.4 s", "stderr ends: thinking"],
    "deaf": ["no answer within 0.4 s"],
    "late": ["no answer within 0.4 s"],
}


@pytest.mark.parametrize(("mode", "words"), [*TROUBLE.items(), *SLOW.items()])
def test_trouble_is_the_outcome_of_its_trace_and_the_next_one_is_fine(start: Make, mode: str, words: list[str]) -> None:
    subject = start(mode, seconds=0.4 if mode in SLOW else 5.0)
    steps = walk(subject, "full ; window 3 ; decode")
    assert [s.record.outcome for s in steps] == ["ok", "error"]
    for word in words:
        assert word in steps[1].message
    assert "\n" not in steps[1].message
    assert fine(subject)


@pytest.mark.parametrize("mode", ["good", "flood", "zombies"])
def test_what_is_no_trouble_disturbs_nothing(start: Make, mode: str) -> None:
    subject = start(mode)
    steps = walk(subject, "full ; window 3 ; decode")
    assert [s.record.outcome for s in steps] == ["ok"] * 3
    assert not any(s.divergences for s in steps)
    assert fine(subject)


def test_a_flood_on_stderr_is_drained_and_only_its_end_is_kept(start: Make) -> None:
    subject = start("flood")
    walk(subject, "full ; window 3")
    assert subject.channel is not None
    assert 0 < len(subject.channel.stderr) < 2000


def test_an_endless_line_is_capped(start: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = start("endless")
    assert subject.channel is not None
    subject.channel.most_bytes = 1 << 20
    steps = walk(subject, "full ; window 3")
    assert "a line of more than 1,048,576 bytes: 'xxxx" in steps[1].message
    assert len(steps[1].message) < 400
    assert fine(subject)


def test_a_closed_stdin_is_found_when_nothing_comes(start: Make) -> None:
    subject = start("close-stdin", seconds=0.4)
    steps = walk(subject, "full ; window 3 ; decode")
    assert [s.record.outcome for s in steps] == ["ok", "ok", "error"]
    assert "closed its stdin" in steps[2].message
    assert fine(subject)


def test_what_a_lost_testee_is_asked_in_the_same_trace_is_an_error(start: Make) -> None:
    subject = start("kill")
    run = Lockstep(subject, "core", COUNTS)
    run.open(Config("full"))
    for call in parse("full ; window 3 ; decode").trace.calls:
        assert run.step(call).record.outcome == "error"
    assert "SIGKILL" in run.steps[-1].message


def test_after_a_hang_calls_get_less_time(start: Make) -> None:
    subject = start("hang", seconds=1.0)
    assert "within 1 s" in walk(subject, "full ; window 3")[-1].message
    assert subject.patience.limit < 1.0
    again = walk(subject, "full ; window 3")[-1].message
    assert "within" in again
    assert "within 1 s" not in again


def test_a_whole_check_survives_a_testee_that_dies(start: Make) -> None:
    subject = start("kill")
    result = check(Plan("cmd:kill", ("full",), budget="quick"), subject)
    assert result.verdict == "violations"
    assert result.whole
    assert {r.clause.id for r in result.failed} == {"POS-2", "ERR-1"}
    assert sum(r.outcome == "pass" for r in result.clauses) > 20
    assert set(result.errors) == {"the testee was ended by signal 9 (SIGKILL)"}


# Starting.


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("start-exit", ["did not answer the hello: the testee exited with code 1", "no such model", "testee smoke"]),
        ("start-mute", ["no answer within 0.3 s", "flush", "--set hello="]),
        ("start-unflushed", ["no answer within 0.3 s", "flush"]),
        ("start-noise", ["'loading ...'"]),
        ("start-old", ["hello.protocol: it speaks 2, this kvlaw 1"]),
        ("start-odd-kind", ["hello.kinds[0]: 'ful' is not one of full, ring"]),
        ("start-odd-word", ["capabilities has 'trimm'; did you mean 'trim'?"]),
        ("start-bare", ["hello: kinds, capabilities is missing"]),
    ],
)
def test_a_testee_that_cannot_be_talked_to_is_no_target(mode: str, words: list[str]) -> None:
    slow = {"hello": "0.3"} if mode in ("start-mute", "start-unflushed") else {}
    with pytest.raises(TargetError) as caught:
        open_target(f"cmd:{PYTHON} {mode}", slow)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./no-such-testee", ["there is no file ./no-such-testee"]),
        ("no-such-testee", ["no-such-testee is no command on the PATH"]),
        ("here.py", ["no command on the PATH; for the file in this folder write ./here.py"]),
        ("./here.py", ["./here.py is not executable; try chmod +x ./here.py"]),
        ("./folder", ["./folder is a folder"]),
        ("./bare", ["no program: a script begins with #!"]),
        ("./astray", ["the interpreter that the first line of ./astray names is not there"]),
        ("'half", ["cannot be read as a command line: No closing quotation"]),
        ("''", ["names no command"]),
        ("./a\0b", ["no zero bytes"]),
    ],
)
def test_a_command_that_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "here.py").write_text("print()\n")
    for name, text in (("bare", "print()\n"), ("astray", "#!/no/such/python\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    with pytest.raises(TargetError) as caught:
        open_target(f"cmd:{command}")
    for word in words:
        assert word in str(caught.value)


def test_one_that_cannot_be_started_again_stops_a_check(tmp_path: Path) -> None:
    subject = open_target(f"cmd:{PYTHON} start-once {shlex.quote(str(tmp_path / 'started'))}")
    assert fine(subject)
    assert walk(subject, "full ; window 3")[1].record.outcome == "error"
    for _ in range(2):
        assert "started before" in walk(subject, "full ; decode")[0].message
    with pytest.raises(TargetGoneError, match=r"3 times one after the other .* started before"):
        walk(subject, "full ; decode")
    assert "cannot be started any more" in walk(subject, "full ; decode")[0].message
    subject.close()


def test_a_check_tells_what_it_found_before_the_testee_was_lost(tmp_path: Path) -> None:
    subject = open_target(f"cmd:{PYTHON} start-once {shlex.quote(str(tmp_path / 'started'))}")
    result = check(Plan("cmd:once", ("full",), budget="quick"), subject)
    assert "3 times one after the other" in result.stopped
    assert not result.whole
    subject.close()


# Names.


def test_the_name_is_one_word_of_a_command_line() -> None:
    opened = open_any(f"cmd:{PYTHON} good", {"seconds": "3", "kind": "full"})
    assert (opened.kinds, opened.target) == (("full",), f"cmd:{PYTHON} good")
    assert Stored("id", opened.name, "POS-1", parse("full").trace).words[0] == f"cmd:{PYTHON} good"
    assert opened.name.endswith(" --set seconds=3")
    opened.subject.close()
    assert not any(target.startswith("cmd:") for target in known_targets())


def test_it_is_opened_again_after_it_was_closed(start: Make) -> None:
    subject = start("good")
    assert fine(subject)
    subject.close()
    assert fine(subject)


# What is made good.


def test_a_fetch_without_masks_is_judged_and_a_refused_call_is_looked_at(start: Make) -> None:
    subject = start("good")
    steps = walk(subject, "full ; window 4 ; trim 5 ; decode")
    assert [s.record.outcome for s in steps] == ["ok", "ok", "refused", "ok"]
    read, after = steps[1].record.read, steps[2].record.after
    assert read is not None
    assert read.visible == (((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),)
    assert after is not None
    assert after.offset == 4


@pytest.mark.parametrize(("word", "seen"), [("phases", True), ("mask", False), ("attend", False)])
def test_who_has_masks_shows_them_or_they_are_not_observed(start: Make, word: str, seen: bool) -> None:
    read = walk(start(f"start-says-{word}"), "full ; window 2")[1].record.read
    assert read is not None
    assert read.visible == ((((1,), (1, 2)),) if seen else None)


def test_reads_of_other_layers_and_of_lists_are_not_masked(start: Make) -> None:
    subject = start("good")
    subject.open(Config("full"))
    ring, full = LayerSpec("ring", 4), LayerSpec("full")
    made = {
        "r1": (AppendDecode(as_="r1"), "read"),
        "c1": (Clone(as_="c1"), "cache"),
        "l1": (OpenList(layers=(ring,), as_="l1"), "list"),
        "l2": (Clone(on="l1", as_="l2"), "list"),
        "r2": (AppendDecode(on="l1", as_="r2"), "other"),
        "s1": (MakeCache(as_="s1"), "cache"),
        "s2": (MakeCache(layer=full, as_="s2"), "cache"),
        "s3": (MakeCache(layer=ring, as_="s3"), "foreign"),
        "r3": (AppendDecode(on="s3", as_="r3"), "other"),
        "f1": (Save(as_="f1"), "other"),
        "c2": (Load(on="f1", as_="c2"), "cache"),
        "g1": (Merge(sources=("c1",), as_="g1"), "group"),
        "e1": (Extract(on="g1", row=0, as_="e1"), "cache"),
    }
    for call, _ in made.values():
        subject._note(call)
    assert {name: subject._things[name] for name in made} == {name: kind for name, (_, kind) in made.items()}


def test_what_json_cannot_tell_apart_is_not_asked(start: Make) -> None:
    subject = start("good")
    assert subject.open(Config("ring", 4)).message == "the testee builds full only"
    subject.open(Config("full"))
    assert subject.apply(Trim(n=1.0), None, look=True).outcome == "unsupported"
    assert subject.apply(Trim(n=1.5), None, look=True).refused
    assert subject.apply(Attend(on="r1", malformed="heads"), None, look=True).outcome == "unsupported"


# Nothing is left behind.


def children() -> set[int]:
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], check=False, capture_output=True, text=True)
    return {int(word) for word in text.stdout.split()}


def files_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_restarts_leak_neither_files_nor_threads_nor_zombies(start: Make) -> None:
    subject = start("kill")
    walk(subject, "full ; window 3")
    fine(subject)
    before, processes = (files_open(), threading.active_count()), children()
    for _ in range(5):
        assert walk(subject, "full ; window 3")[1].record.outcome == "error"
        assert fine(subject)
    assert (files_open(), threading.active_count()) == before
    assert len(children()) <= len(processes) + 1  # the shell of subprocess.run itself may be seen
    subject.close()


HARNESS = """
import sys, time
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.text_form import parse
from kvlaw.conformance.lockstep import Lockstep
subject = open_target(sys.argv[1], {"seconds": "60"})
print(subject.channel._popen.pid, flush=True)
if sys.argv[2] == "asked":
    Lockstep(subject, "core", frozenset()).run(parse("full ; window 3").trace)
elif sys.argv[2] == "idle":
    time.sleep(60)
"""


def is_gone(pid: int, seconds: float = 8.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state = Path(f"/proc/{pid}/stat")
        try:
            if state.parent.parent.is_dir() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True  # nobody here waits for orphans
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("number", "mode", "doing"),
    [
        (signal.SIGKILL, "deaf", "asked"),
        (signal.SIGTERM, "hang", "asked"),
        (signal.SIGINT, "deaf", "asked"),
        (None, "good", "leaving"),
    ],
)
def test_no_orphan_is_left_however_the_run_ends(number: signal.Signals | None, mode: str, doing: str) -> None:
    command = [sys.executable, "-c", HARNESS, f"cmd:{PYTHON} {mode}", doing]
    run, pid = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), 0
    try:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        if number is not None:
            time.sleep(0.3)  # until the testee hangs
            assert run.poll() is None
            run.send_signal(number)
        run.communicate(timeout=20)
        assert is_gone(pid)
    finally:
        run.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid or run.pid, signal.SIGKILL)


def test_a_grandchild_goes_with_its_testee(tmp_path: Path) -> None:
    script = tmp_path / "testee.sh"
    script.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {shlex.quote(str(tmp_path / 'pid'))}\nexec {PYTHON} good\n")
    script.chmod(0o755)
    subject = open_target(f"cmd:{script}")
    assert fine(subject)
    subject.close()
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_the_transcript_is_written_down(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    subject = open_target(f"cmd:{PYTHON} kill", {"log": str(log)})
    walk(subject, "full ; window 3")
    subject.close()
    marks = [line[:1] for line in log.read_text().splitlines()]
    assert "".join(marks) == "><><>!"
    with pytest.raises(TargetError, match="log=/no/such"):
        open_target(f"cmd:{PYTHON} good", {"log": "/no/such/log.txt"})


def test_an_interrupt_ends_the_testee_and_the_next_trace_gets_another(start: Make) -> None:
    subject = start("hang", seconds=30.0)
    subject.open(Config("full"))
    first = subject.channel
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        walk(subject, "full ; window 3")
    assert first is not None
    assert first.lost == "it was interrupted" or "interrupted" in first.lost
    assert fine(subject)


def test_signals_are_named() -> None:
    told: dict[int, Any] = {0: "exited with code 0", -15: "was ended by signal 15 (SIGTERM)", -77: "signal 77"}
    for code, words in told.items():
        assert words in channels.died(code)
