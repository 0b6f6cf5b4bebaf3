"""The README's sessions are real: every command that is shown with output gives that output."""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from attrs import frozen

README = Path(__file__).parents[2] / "README.md"
CALL = "from kvlaw.conformance.cli import main; main()"
MLX_LM = "0.32.2"


@frozen
class Session:
    """One command of the README with the lines shown below it; a line ``...`` stands for any lines."""

    command: str
    shown: tuple[str, ...]


def sessions() -> list[Session]:
    blocks = re.findall(r"^```console\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    parts = [part.splitlines() for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [Session(lines[0], tuple(lines[1:])) for lines in parts if lines[1:]]


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    lines = ["(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown]
    return re.fullmatch("".join(lines), "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def mlx_lm_version() -> str:
    try:
        return version("mlx-lm")
    except PackageNotFoundError:
        return ""


def test_the_readme_shows_four_sessions() -> None:
    assert [session.command.split()[:2] for session in sessions()] == [
        ["kvlaw", "try"],
        ["kvlaw", "try"],
        ["kvlaw", "try"],
        ["kvlaw", "check"],
    ]


def test_a_wrong_line_is_noticed() -> None:
    assert matches(("a", "...", "c"), ["a", "b", "b", "c"])
    assert not matches(("a", "...", "c"), ["a", "b", "b", "d"])
    assert not matches(("a", "c"), ["a", "b", "c"])


@pytest.mark.parametrize("session", sessions(), ids=lambda session: session.command[:40])
def test_a_session_prints_what_the_readme_shows(session: Session, tmp_path: Path) -> None:
    if "mlx_lm" in session.command and mlx_lm_version() != MLX_LM:
        pytest.skip(f"the README shows what mlx-lm {MLX_LM} does")
    result = subprocess.run(
        [sys.executable, "-P", "-c", CALL, *shlex.split(session.command)[1:]],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert matches(session.shown, result.stdout.splitlines()), result.stdout + result.stderr
