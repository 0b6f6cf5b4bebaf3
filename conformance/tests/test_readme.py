"""The sessions of the README and of the pages are real: every command that is shown gives the output that is shown."""

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
PAGES = (Path(__file__).parents[1] / "docs" / "read-a-failure.md",)
"""The pages whose sessions are whole; those of the others are tested with what they are about."""
CALL = "from kvlaw.conformance.cli import main; main()"
MLX_LM = "0.32.2"


@frozen
class Session:
    """One command of the README with the lines shown below it; a line ``...`` stands for any lines."""

    command: str
    shown: tuple[str, ...]


def all_sessions(page: Path) -> list[Session]:
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    parts = [part.splitlines() for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [Session(lines[0], tuple(line.rstrip() for line in lines[1:])) for lines in parts]


def sessions() -> list[Session]:
    return [session for session in all_sessions(README) if session.shown]


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
    result = run(session.command, tmp_path)
    assert matches(session.shown, result.stdout.splitlines()), result.stdout + result.stderr


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command of kvlaw's, or a script; ``> FILE`` behind it keeps what it prints."""
    command, _, file = command.partition(" > ")
    name, *words = shlex.split(command)
    python = {"kvlaw": [sys.executable, "-P", "-c", CALL], "python": [sys.executable]}[name]
    result = subprocess.run(
        [*python, *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    if file:
        (folder / file).write_text(result.stdout, encoding="utf-8")
    return result


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_sessions_of_a_page_print_what_it_shows_one_after_the_other(page: Path, tmp_path: Path) -> None:
    told = all_sessions(page)
    if any("mlx_lm" in session.command for session in told) and mlx_lm_version() != MLX_LM:
        pytest.skip(f"the page shows what mlx-lm {MLX_LM} does")
    for session in told:
        result = run(session.command, tmp_path)
        assert re.sub(r"^ *\d+ s  .*\n", "", result.stderr, flags=re.MULTILINE) == ""  # but for lines of progress
        printed = [] if ">" in session.command.replace("->", "") else result.stdout.splitlines()
        assert matches(session.shown, printed), f"{session.command}\n{result.stdout}"
