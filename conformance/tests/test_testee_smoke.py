"""The smoke test of a testee's glue: what is right passes, and each mistake is named with what to do."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvlaw.conformance.cli import cli
from kvlaw.conformance.testee.launch import Launch
from kvlaw.conformance.testee.smoke import Smoke
from kvlaw.conformance.testee.smoke_steps import Tried

FOLDER = Path(__file__).parent / "testees"
PYTHON = f"{shlex.quote(sys.executable)} -I -S"


def tried(script: str, words: str, seconds: float = 20.0, hello: float = 20.0, leaving: float = 20.0) -> list[Tried]:
    launch = Launch.of(f"{PYTHON} {shlex.quote(str(FOLDER / script))} {words}", hello)
    return Smoke(launch, seconds, leaving).run()


def wrong(steps: list[Tried]) -> dict[str, str]:
    return {step.what: f"{step.came} -> {step.remedy}" for step in steps if step.word == "wrong"}


def test_right_glue_passes_every_step() -> None:
    steps = tried("hostile.py", "good")
    assert wrong(steps) == {}
    assert {step.what for step in steps} == {
        "the answer to the hello", "nothing else on stdout", "words that kvlaw knows", "open full",
        "tensors of bf16, full", "tensors of f16, full", "tensors of f32, full", "a line of many bytes, full",
        "without a look, full", "what it cannot do", "fields that it does not know", "spoilt tensors", "ids",
        "opened again", "the end", "a closed stdin",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "step", "words"),
    [
        ("start-unflushed", "the answer to the hello", ["came when stdin was closed", "flush stdout"]),
        ("start-mute", "the answer to the hello", ["no answer within", "read stdin line by line"]),
        ("start-exit", "the answer to the hello", ["exited with code 1", "no such model"]),
        ("start-noise", "the answer to the hello", ["'loading ...'"]),
        ("start-old", "the answer to the hello", ["it speaks 2, this kvlaw 1"]),
        ("start-odd-word", "words that kvlaw knows", ["'trimm'", "did you mean 'trim'?"]),
    ],
)
def test_a_testee_that_starts_wrongly_is_told_why(mode: str, step: str, words: list[str]) -> None:
    waits = {"hello": 0.5, "leaving": 1.0 if mode == "start-mute" else 20.0}
    found = wrong(tried("hostile.py", mode, **(waits if mode in ("start-mute", "start-unflushed") else {})))
    for word in words:
        assert word in found[step]


@pytest.mark.parametrize(
    ("mode", "step", "words"),
    [
        ("dies-of-unknown", "what it cannot do", ["exited with code 1", "answers error where it cannot go on"]),
        ("accepts-unknown", "what it cannot do", ["a call that there is not: ok", "unsupported"]),
        ("strict", "fields that it does not know", ["ignore fields that you do not know"]),
        ("swaps-bytes", "tensors of bf16, full", ["sent 0x", "came back 0x", "little endian"]),
        ("through-floats", "tensors of bf16, full", ["differ", "never through numbers"]),
        ("by-heads", "tensors of bf16, full", ["shape [1, 2, 3, 64] came back as [1, 3, 2, 64]"]),
        ("short-lines", "a line of many bytes, full", []),
        ("chatty", "nothing else on stdout", ["'ready'", "stderr"]),
        ("answers-twice", "open full", ["behind the first", "answer each message once"]),
        ("small-ids", "ids", ["id: "]),
        ("remembers", "opened again", ["offset"]),
        ("stays", "a closed stdin", ["still ran", "leave when stdin has ended"]),
        ("leaves-badly", "the end", ["exited with code 4", "leave with exit code 0"]),
    ],
)
def test_a_mistake_of_the_glue_is_found_at_its_step(mode: str, step: str, words: list[str]) -> None:
    steps = tried("clumsy.py", mode, **{"stays": {"leaving": 0.5}, "short-lines": {"seconds": 2.0}}.get(mode, {}))
    found = wrong(steps)
    assert step in found, steps
    for word in words:
        assert word in found[step]


def test_the_command_prints_a_table_and_says_what_comes_next() -> None:
    runner = CliRunner()
    good = runner.invoke(cli, ["testee", "smoke", f"cmd:{PYTHON} {FOLDER / 'hostile.py'} good"])
    assert good.exit_code == 0, good.output
    assert "speaks the testee protocol" in " ".join(good.output.split())
    bad = runner.invoke(cli, ["testee", "smoke", f"cmd:{PYTHON} {FOLDER / 'clumsy.py'} swaps-bytes"])
    assert bad.exit_code == 1
    assert "steps went wrong" in " ".join(bad.output.split())
    assert runner.invoke(cli, ["testee", "smoke", "cmd:./no-such-testee"]).exit_code == 3
    assert runner.invoke(cli, ["testee", "smoke", "builtin:oracle"]).exit_code == 2
    assert runner.invoke(cli, ["testee", "serve", "cmd:./testee"]).exit_code == 2


def test_the_command_that_comes_next_is_one_line_that_can_be_pasted() -> None:
    target = f"cmd:{PYTHON} {FOLDER / 'hostile.py'} good '{'x' * 90}'"
    for columns in ("40", "80"):
        command = [sys.executable, "-c", "from kvlaw.conformance.cli import main; main()", "testee", "smoke", target]
        environment = {**os.environ, "COLUMNS": columns}
        told = subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout
        last = told.splitlines()[-1]
        assert shlex.split(last.partition("now: ")[2]) == ["kvlaw", "check", target]


STACK = """echo loader:1228; echo '  throw err;'; echo "Error: Cannot find module '/x/nope.mjs'" """
MORE = "; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo \"    at place $i\"; done; echo 'Node.js v20'"


def test_a_start_that_fails_is_told_by_its_first_error_and_not_as_a_call_that_fails() -> None:
    (step, *_) = Smoke(Launch.of(f"sh -c {shlex.quote(f'({STACK}{MORE}) >&2; exit 1')}"), 5.0).run()
    assert "exited with code 1" in step.came
    assert "stderr ends: Error: Cannot find module '/x/nope.mjs' | ... | at place 12 | " in step.came
    assert step.came.endswith("Node.js v20")
    assert "before it answers the hello" in step.remedy
    assert "and stays" not in step.remedy


def test_an_error_at_the_end_of_stderr_is_told_once() -> None:
    (step, *_) = Smoke(Launch.of("sh -c 'echo one >&2; echo ValueError: two >&2; exit 1'"), 5.0).run()
    assert step.came.endswith("stderr ends: one | ValueError: two")


@pytest.mark.parametrize("script", ["exit 1", "cat no/such/file.js >&2; exit 2", "echo hello"])
def test_one_cause_is_one_row(script: str) -> None:
    """What does not even answer the hello is told once: that it does not end well either says nothing more."""
    steps = Smoke(Launch.of(f"sh -c {shlex.quote(script)}"), 5.0).run()
    assert [(step.what, step.word) for step in steps] == [
        ("the answer to the hello", "wrong"),
        ("the end", "not tried"),
        ("a closed stdin", "not tried"),
    ]
    assert {step.came for step in steps[1:]} == {"it never said hello"}
    shown = CliRunner().invoke(cli, ["testee", "smoke", f"cmd:sh -c {shlex.quote(script)}"])
    assert shown.exit_code == 1
    assert "1 of 1 step went wrong, 2 could not be tried" in " ".join(shown.output.split())


def test_what_does_not_start_again_is_told_once(tmp_path: Path) -> None:
    seen = shlex.quote(str(tmp_path / "seen"))
    clumsy = f"{PYTHON} {shlex.quote(str(FOLDER / 'clumsy.py'))} dies-of-unknown"
    script = f"if test -e {seen}; then exit 3; fi; touch {seen}; exec {clumsy}"
    steps = Smoke(Launch.of(f"sh -c {shlex.quote(script)}"), 5.0).run()
    words = [(step.what, step.word) for step in steps]
    at = words.index(("what it cannot do", "wrong"))
    assert words[at + 1] == ("fields that it does not know", "wrong")
    assert {word for _, word in words[at + 2 :]} == {"not tried"}
    assert {step.came for step in steps[at + 2 :]} == {"it does not start again"}
