"""What the pages say is true: sessions, the first tutorial, choices, versions; and links are checked.  No Sphinx."""

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kvlaw.spec.clauses import FAMILIES, load_clauses
from kvlaw.spec.markdown import Fence, sections
from kvlaw_site import links
from kvlaw_site.sessions import Session, matches, problem, sessions
from kvlaw_site.texts import relinked

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder in ("docs", "docs/howto", "conformance/docs")
    for path in (ROOT / folder).glob("*.md")
)  # fmt: skip
FIRST_CHECK = ROOT / "conformance/docs/first-check.md"
CHOICES = ROOT / "docs/implementation-defined.md"
KVLAW = "from kvlaw.conformance.cli import main; main()"
_IDS = re.compile(rf"\b({'|'.join(FAMILIES)})-([1-9]\d*)\b(?: to \1-([1-9]\d*))?")


def told(path: Path) -> list[Session]:
    return list(sessions(path.read_text(encoding="utf-8"), path.name))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_sessions_of_a_page_are_real(path: Path) -> None:
    wrong = {session.command: found for session in told(path) if (found := problem(session)) is not None}
    assert wrong == {}


def test_pages_show_sessions_that_are_run() -> None:
    commands = [session.words[:2] for path in PAGES for session in told(path) if session.shown]
    assert commands.count(["kvlaw", "try"]) >= 2
    assert len([command for command in commands if command == ["kvlaw", "check"]]) >= 2


def session(command: str, *shown: str) -> Session:
    return Session(command, shown, 1)


DECODE = ("    call    the law says  builtin:oracle shows", "    full    ok            ok")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (session("kvlaw try 'full ; decode'", *DECODE, " 1  decode  sees t1       sees t2"), "it prints\n    call"),
        (session("kvlaw try 'full ; decode'", *DECODE), " 1  decode  sees t1       sees t1"),
        (session("kvlaw try 'full ; decode -> sees t2'", "nothing"), "t2"),
        (session("kvlaw try 'full ; dekode'", "..", "nothing"), "dekode"),
        (session("kvlaw chekc builtin:oracle"), "there is no command 'chekc'"),
        (session("kvlaw spec shwo TRIM-4"), "there is no command 'spec shwo'"),
        (session("kvlaw check builtin:oracle --bugdet quick"), "No such option"),
    ],
    ids=["another line", "a line too few", "false claim", "bad trace", "command", "inner command", "option"],
)
def test_a_wrong_session_is_noticed(wrong: Session, expected: str) -> None:
    found = problem(wrong)
    assert found is not None
    assert expected in found


@pytest.mark.parametrize(
    "right",
    [
        session("kvlaw try 'full ; decode'", *DECODE, " 1  decode  sees t1       sees t1"),
        session("kvlaw try 'full ; decode'", "...", " 1  decode  sees t1       sees t1"),
        session("kvlaw check py:not.there:Cache --budget quick   # what is asked for is not looked at"),
        session("kvlaw check builtin:oracle | tee report.txt"),
        session("pip install kvlaw"),
    ],
)
def test_a_right_session_is_not(right: Session) -> None:
    assert problem(right) is None


def test_sessions_are_read_with_their_lines() -> None:
    text = "# A\n\n```console\n$ kvlaw try \\\n    'full'\nfirst\n...\n$ ls\n```\n\n```text\n$ kvlaw no\n```\n"
    assert list(sessions(text, "a.md")) == [
        Session("kvlaw try 'full'", ("first", "..."), 4),
        Session("ls", (), 8),
    ]


def test_the_first_tutorial_as_it_is_written(tmp_path: Path) -> None:
    cache = tmp_path / "ring_cache.py"
    done: list[str] = []
    for part in (part for section in sections(FIRST_CHECK.read_text("utf-8"), "first-check") for part in section.body):
        if not isinstance(part, Fence):
            continue
        text = "".join(f"{line.text}\n" for line in part.lines)
        if part.info == "python":
            cache.write_text(text, encoding="utf-8")
        elif part.info == "diff":
            cache.write_text(patched(cache.read_text("utf-8"), text.splitlines()), encoding="utf-8")
        elif part.info == "console":
            done += [run(step, tmp_path) for step in sessions(f"```console\n{text}```\n", "first-check") if step.shown]
    assert done == ["check", "try", "check", "replay"]


def patched(source: str, diff: list[str]) -> str:
    old, new = ("".join(f"{line[1:]}\n" for line in diff if line[0] in kept) for kept in (" -", " +"))
    assert source.count(old) == 1, old
    return source.replace(old, new)


def run(step: Session, folder: Path) -> str:
    """Run a command as a reader does; compare all but the time it took."""
    found = subprocess.run(
        [sys.executable, "-c", KVLAW, *step.words[1:]],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    printed = [line.rstrip() for line in found.stdout.splitlines()]
    assert matches(step.shown, printed), f"{shlex.join(step.words)}\n{found.stdout}{found.stderr}"
    return step.words[1]


def mentioned(text: str) -> list[str]:
    """List the clause ids of a text, with those that ``RING-2 to RING-6`` spans."""
    return [
        f"{family}-{number}"
        for family, first, last in _IDS.findall(text)
        for number in range(int(first), int(last or first) + 1)
    ]


def test_every_choice_of_a_layout_clause_is_said_once() -> None:
    text = CHOICES.read_text(encoding="utf-8")
    at_core = text[text.index("## Open at core") : text.index("## What the suite observes")]
    times = Counter(mentioned(at_core))
    layout = [clause.id for clause in load_clauses().values() if clause.level == "LAYOUT"]
    assert [clause_id for clause_id in layout if times[clause_id] != 1] == []


def test_pages_mention_no_clause_that_there_is_not() -> None:
    texts = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "README.md"]
    named = {clause_id for path in texts for clause_id in mentioned(path.read_text(encoding="utf-8"))}
    assert named - set(load_clauses()) == set()


def test_the_changelog_names_what_came_with_each_version() -> None:
    parts = sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "CHANGELOG.md")
    texts = {part.title.removeprefix("Specification "): part.prose for part in parts if "Specification" in part.title}
    since = Counter(clause.since for clause in load_clauses().values())
    assert set(texts) == set(since)
    for version, count in since.items():
        opening = texts[version].split("\n")[0]
        assert opening.startswith(f"{count} clauses"), version
        ids = {clause.id for clause in load_clauses().values() if clause.since == version}
        assert version == "1.0" or set(mentioned(opening)) == ids


@pytest.mark.parametrize(
    ("target", "page", "anchor"),
    [
        ("../../CONTRIBUTING.md", "../project/contributing.md", ""),
        ("../../spec/kvlaw/spec/text/08-trim.md#model", "../spec/08-trim.md", "#model"),
        ("first-check.md", "first-check.md", ""),
        ("../../docs/howto/which-version.md", "../howto/which-version.md", ""),
        ("../../README.md", "../index.md", ""),
        ("nowhere.md", "nowhere.md", ""),
        ("https://example.org/x.md", "https://example.org/x.md", ""),
    ],
)
def test_links_of_a_text_lead_to_pages(target: str, page: str, anchor: str) -> None:
    assert relinked(f"See [it]({target}).", "conformance/docs/ci.md", "guides/ci") == f"See [it]({page}{anchor})."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](../kvlaw/conformance/interface.py)", '<a href="../source/conformance/interface.html">a</a>'),
        ("[the file](../../Makefile) says", "the file says"),
        ("![a](a.png)", "![a](/../conformance/docs/a.png)"),
        ("`[a](../../Makefile)` and [b](../../Makefile)", "`[a](../../Makefile)` and b"),
        ("```text\n[a](../../Makefile)\n```\n[a](../../Makefile)", "```text\n[a](../../Makefile)\n```\na"),
    ],
)
def test_links_that_lead_to_no_page(text: str, expected: str) -> None:
    assert relinked(text, "conformance/docs/ci.md", "guides/ci") == expected


SITE = {
    "index.html": '<a href="a/b.html#x">b</a><a href="a/b.html">b</a><img src="data:image/png;base64,">',
    "a/b.html": '<p id="x"></p><a href="../index.html">i</a><a href="c.html#y">c</a><a href="https://example.org/x">e</a>',
    "a/c.html": '<p id="y"></p><script src="../s.js"></script>',
    "s.js": "",
}


def site(folder: Path, **changed: str) -> Path:
    for name, text in {**SITE, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_whole_site_has_no_problem(tmp_path: Path) -> None:
    assert links.problems(site(tmp_path)) == []


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="a/b.html#z">b</a>', "a/b.html has no anchor 'z'"),
        ('<a href="b.html">b</a>', "there is no b.html"),
        ('<a href="#z">here</a>', "index.html has no anchor 'z'"),
        ('<script src="https://example.org/x.js"></script>', "it fetches 'https://example.org/x.js' from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "it fetches '//example.org/x.css' from elsewhere"),
        ('<a href="http://example.org">x</a>', "is no address that a reader can open"),
        ('<a href="file:///tmp/x.html">x</a>', "is no address that a reader can open"),
        ('<p id="x"></p><p id="x"></p>', "the id 'x' stands there twice"),
    ],
)
def test_what_is_broken_is_found(tmp_path: Path, page: str, expected: str) -> None:
    (found,) = links.problems(site(tmp_path, **{"index.html": page}))
    assert expected in found


def test_what_some_clicks_reach(tmp_path: Path) -> None:
    pages = links.read_site(site(tmp_path))
    assert links.reached(pages, "index.html", 1) == {("index.html", ""), ("a/b.html", "x"), ("a/b.html", "")}
    assert ("a/c.html", "y") in links.reached(pages, "index.html", 2)
