"""The page on testees: its smallest testee conforms, its conversation is said again, its words and lines are right."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from kvlaw.conformance.cli import cli
from kvlaw.conformance.subjects.targets import OPTIONS
from kvlaw.spec.calls import CALLS
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.testee_schema import protocol_schema

PAGE = (Path(__file__).parents[1] / "docs" / "testee.md").read_text()
ROOT = Path(__file__).parents[2]


def block(kind: str, holding: str = "") -> str:
    """Give the fenced block of a kind that holds a word."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if holding in text)


def rows(heading: str) -> list[list[str]]:
    """Give the rows of the first table below a heading."""
    below = PAGE.split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(^\|.*\n)+", below, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.group().splitlines()[2:]]


def words(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.fixture
def smallest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the smallest testee of the page, and give its target."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smallest.py").write_text(block("python"))
    return f"cmd:{shlex.quote(sys.executable)} -I -S smallest.py"


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(arguments))
    return done.exit_code, " ".join(done.output.split())


def test_the_smallest_testee_speaks_the_protocol_and_breaks_no_law(smallest: str) -> None:
    code, output = run("testee", "smoke", smallest)
    assert code == 0, output
    code, output = run("check", smallest, "--budget", "quick")
    assert code == 4, output  # the stored traces alone do not reach every clause; the machines of a whole check do
    assert "23 pass, 2 not exercised" in output


def test_a_mistake_in_the_smallest_testee_is_found(smallest: str) -> None:
    script = Path("smallest.py")
    script.write_text(script.read_text().replace('cache["offset"] -= n', 'cache["offset"] -= n - (n > 1)'))
    code, output = run("check", smallest, "--budget", "quick")
    assert code == 1
    assert "TRIM-1" in output


def pattern(line: str) -> str:
    """Make a pattern of a line of the conversation, in which three dots stand for anything."""
    return ".*".join(re.escape(part) for part in line.split("..."))


def test_the_conversation_is_said_again(smallest: str) -> None:
    command = shlex.split(block("console", "log=lines.txt").removeprefix("$ kvlaw "))
    command[command.index("--target") + 1] = smallest
    done = subprocess.run(
        [sys.executable, "-m", "kvlaw.conformance.cli", *command], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said, shown = Path("lines.txt").read_text().splitlines(), block("text").splitlines()
    assert len(said) == len(shown)
    validator = jsonschema.Draft202012Validator(protocol_schema())
    for line, wanted in zip(said, shown, strict=True):
        assert re.fullmatch(pattern(wanted), line), (wanted, line)
        validator.validate(json.loads(line[2:]))


def test_every_word_of_the_tables_is_one_of_the_protocol() -> None:
    schema: Any = protocol_schema()["$defs"]
    assert {words(row[0])[0] for row in rows("### hello")} == set(schema["hello"]["properties"])
    assert {words(row[0])[0] for row in rows("### Outcomes")} == set(schema["line"]["properties"]["outcome"]["enum"])
    assert {words(row[0])[0] for row in rows("## The lines")} == {"hello", "open", "call", "bye"}
    calls = rows("### call")
    assert {words(row[0])[0] for row in calls} < set(CALLS)
    assert {word for row in calls for word in words(row[3])} < set(CAPABILITIES)
    assert {word for row in rows("### open") for word in words(row[0])} < set(schema["config"]["properties"])
    named = re.search(r"For a first cache.*", PAGE)
    assert named is not None
    assert set(words(named.group())) < set(CAPABILITIES)
    for option in ("seconds", "hello", "log"):
        assert f"`--set {option}=" in PAGE
        assert option in OPTIONS["cmd"]


def test_what_is_to_be_shown_are_fields_of_answers() -> None:
    schema: Any = protocol_schema()["$defs"]
    whole = schema["line"]["properties"]
    inside = {"read": schema["read_view"]["properties"], "state": schema["state_view"]["properties"]}
    for row in rows("### What to show"):
        first = words(row[0])[0].partition(".")[0]
        for word in words(row[0]):
            head, _, name = word.partition(".")
            assert name in inside[head or first] if name else word in whole, word


def test_the_clauses_of_the_mistakes_are_there_and_links_lead_somewhere() -> None:
    named = {clause for clause in re.findall(r"\b[A-Z]+-\d+\b", PAGE) if clause != "UTF-8"}
    assert named <= set(load_clauses().by_id)
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "conformance" / "docs" / target).exists(), target
