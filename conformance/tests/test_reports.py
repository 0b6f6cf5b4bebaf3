"""Every form of a report, made of a small run that was written by hand, and of hostile texts."""

import json
import os
import re
from collections import Counter
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve
from markdown_it import MarkdownIt
from rich.console import Console

from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.events import (
    OUTCOMES,
    ClauseJudged,
    Event,
    FailureFound,
    RunEnded,
    RunStarted,
    StepShown,
    Strip,
    TargetEnded,
    TargetStarted,
    WitnessReplayed,
)
from kvlaw.conformance.reports.forms import FORMS, form_named
from kvlaw.conformance.reports.markdown import MOST_BYTES
from kvlaw.conformance.reports.matrix import matrix_of
from kvlaw.conformance.reports.outcomes import LOOKS, look_of
from kvlaw.conformance.reports.picture import draw
from kvlaw.conformance.reports.run import RunReport, TargetReport, gather
from kvlaw.conformance.reports.terminal import print_run
from kvlaw.spec.text_form import parse

SAMPLES = Path(__file__).parent / "report_samples"
FILES = {"terminal": "run.txt", "junit": "run.xml", "json": "run.json", "markdown": "run.md", "html": "run.html"}
EVENTS = read_events(SAMPLES / "run.ndjson")
RUN = gather(EVENTS)
RING, BATCH = RUN.targets


def snapshot(name: str, text: str) -> None:
    """Compare with a file that was read by a human; KVLAW_UPDATE_SNAPSHOTS=1 writes it anew, to be read again."""
    path = SAMPLES / name
    if os.environ.get("KVLAW_UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        f"{path} differs: KVLAW_UPDATE_SNAPSHOTS=1 writes it, git diff shows it"
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_as_it_was_read(form: str):
    text = FORMS[form](RUN)
    if form == "html":  # the style and the script are files of their own
        text = re.sub(r"(<style>).*?(</style>)|(<script>).*?(</script>)", "", text, flags=re.DOTALL)
        text = re.sub(r"sha256-[A-Za-z0-9+/=]+", "sha256-", text)
    snapshot(FILES[form], text)


def test_forms_are_told_from_each_other_by_name():
    assert form_named("md") == "markdown"
    assert form_named("xml") == "junit"
    with pytest.raises(ValueError, match="did you mean 'html'"):
        form_named("htlm")


def test_the_last_failure_of_a_clause_counts():
    assert [failure.id for failure in RING.failures] == ["VIS-1-00000003"]
    assert (RING.whole, BATCH.whole) == (True, False)
    assert RING.open_musts() == ("RING-1", "TRIM-3", "OWN-8")


def test_every_outcome_has_a_look_and_only_a_pass_is_passed():
    assert tuple(LOOKS) == OUTCOMES or set(LOOKS) == set(OUTCOMES)
    assert [outcome for outcome in LOOKS if look_of(outcome).case == "passed"] == ["pass"]
    assert look_of("something new").case == "skipped"
    assert look_of("something new").open


# JUnit.


def junit(run: RunReport) -> ET.Element:
    return ET.fromstring(FORMS["junit"](run))


def test_junit_has_one_case_for_each_clause_and_no_skip_is_a_pass():
    top = junit(RUN)
    suite = top.find("testsuite")
    assert suite is not None
    cases = {case.get("name", "").split()[0]: case for case in suite.findall("testcase")}
    assert list(cases) == [clause.clause for clause in RING.clauses]
    kinds = {name: [child.tag for child in case] for name, case in cases.items()}
    assert kinds == {
        "RING-1": ["skipped"],
        "VIS-1": ["failure"],
        "VIS-5": [],
        "TRIM-3": ["skipped"],
        "TRIM-4": ["skipped"],
        "OWN-4": ["skipped"],
        "OWN-8": ["skipped"],
    }
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped"), suite.get("errors")) == (
        "7",
        "1",
        "5",
        "0",
    )
    reason = cases["TRIM-4"].find("skipped")
    assert reason is not None
    assert reason.get("message") == "not applicable: the target lacks can_trim: it says beforehand what it can trim"
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert (properties["seed"], properties["version of kvlaw"], properties["fixed window"]) == ("7", "0.1.0", "4")


def verdict_case(events: tuple[Event, ...]) -> ET.Element:
    suite = next(s for s in junit(gather(events)) if s.get("name") == "kvlaw verdicts")
    return suite[0]


def small(*clauses: ClauseJudged, ended: TargetEnded, witnesses: tuple[WitnessReplayed, ...] = ()) -> tuple[Event, ...]:
    started = TargetStarted("t", ("full",), "core", "ci", 0)
    events: list[Event] = [RunStarted(1, {}), started, *witnesses, *clauses, ended]
    return (*events, RunEnded(ended.exit_code, len(events)))


def judged(outcome: Any, clause: str = "VIS-1") -> ClauseJudged:
    return ClauseJudged("t", clause, "a title", "MUST", outcome, 1)


@pytest.mark.parametrize(
    ("clauses", "ended", "kind", "said"),
    [
        ((judged("pass"),), TargetEnded("t", "conformant", 0), None, ""),
        ((judged("not exercised"),), TargetEnded("t", "incomplete", 4), "error", "never judged: VIS-1"),
        ((judged("not exercised"),), TargetEnded("t", "incomplete", 0), "skipped", "never judged: VIS-1"),
        ((judged("pass"),), TargetEnded("t", "incomplete", 4, interrupted=True), "error", "interrupted"),
        ((), TargetEnded("t", "unusable", 3, stopped="no module"), "error", "no module"),
        ((judged("fail"),), TargetEnded("t", "violations", 1), "failure", "breaks VIS-1"),
    ],
)
def test_a_verdict_that_is_not_conformant_is_no_passed_case(
    clauses: tuple[ClauseJudged, ...], ended: TargetEnded, kind: str | None, said: str
):
    case = verdict_case(small(*clauses, ended=ended))
    assert [child.tag for child in case] == ([kind] if kind else [])
    assert said in (case[0].get("message", "") if kind else "")


@pytest.mark.parametrize("state", ["stale", "changed", "unknown", "twice", "misplaced"])
def test_an_expected_failure_that_is_not_what_it_was_fails_its_clause(state: Any):
    witness = WitnessReplayed("t", "VIS-1", "VIS-1-1", state, message="take it out")
    run = gather(small(judged("pass"), ended=TargetEnded("t", "violations", 1), witnesses=(witness,)))
    failure = next(junit(run).iter("failure"))
    assert "take it out" in failure.get("message", "")
    for form in ("terminal", "markdown", "html"):
        assert "take it out" in FORMS[form](run)
        assert state in FORMS[form](run)


def test_a_pass_of_what_was_never_exercised_is_none():
    run = gather(small(evolve(judged("pass"), exercised=0), ended=TargetEnded("t", "conformant", 0)))
    assert [case.get("message") for case in junit(run).iter("skipped")] == ["not exercised: its situation never arose"]
    assert [case.get("assertions") for case in junit(RUN).iter("testcase")][:3] == ["0", "31", "40"]


def test_what_stands_behind_an_expected_failure_is_told_and_is_no_gap():
    behind = evolve(judged("not exercised", "TRIM-1"), behind=("VIS-1",), why="not reached behind VIS-1")
    listed = evolve(judged("expected fail"), expected=("VIS-1-1",))
    witness = WitnessReplayed("t", "VIS-1", "VIS-1-1", "holds", "known", "https://example.org/1", met=4)
    run = gather(small(listed, behind, ended=TargetEnded("t", "conformant", 0, detours=4), witnesses=(witness,)))
    assert run.targets[0].open_musts() == ()
    for form in ("terminal", "markdown", "html"):
        text = re.sub(r"<[^>]+>", "", FORMS[form](run))
        assert "conformant but for 1 expected failure" in text.replace("CONFORMANT", "conformant")
        assert "TRIM-1 not reached behind VIS-1" in text
        assert "https://example.org/1" in text
    told = json.loads(FORMS["json"](run))
    assert told["clauses"]["TRIM-1"]["behind"] == ["VIS-1"]
    assert (told["expected_failures"][0]["met"], told["detours"]) == (4, 4)
    skipped = [case.get("message") for case in junit(run).iter("skipped")]
    assert skipped == ["expected fail: broken, as the expectations say", "not exercised: not reached behind VIS-1"]


# What a failure must show, in every form.


@pytest.mark.parametrize("form", ["terminal", "junit", "markdown", "html"])
def test_every_form_says_all_that_is_needed(form: str):
    text = FORMS[form](RUN)
    text = re.sub(r"<[^>]+>", "", text) if form == "html" else text
    for needed in (
        "VIS-1",
        "a decode sees exactly its newest min(offset + 1, W) positions",
        "MUST",
        "kvlaw spec show VIS-1",
        "kvlaw replay VIS-1-00000003",
        "ring window=4 ; window 5 ; decode",
        "sees t3..t6",
        "sees t2,t4..t6",
        "A decode at offset o sees the newest",
        "VIS-5, RING-1",
        "PAD-1",
    ):
        assert needed in text, needed
    assert ("call.is_decode and result.ok" in text) == (form == "html")  # folded away there; elsewhere words are told
    if form != "terminal":  # there the id is enough: it is where the failure was found
        assert "kvlaw try" in text


def test_a_verbose_report_shows_the_law_as_it_is_executed():
    out = StringIO()
    print_run(Console(file=out, width=100, color_system=None), RUN, verbose=True)
    assert "when call.is_decode and result.ok" in out.getvalue()


# The picture.


def marks(svg: str) -> list[str]:
    return re.findall(r'class="cell[^"]*(missing|extra|other|twice)', svg)


def test_the_picture_marks_what_differs_in_the_step_that_breaks_the_law():
    steps = draw(RING.failures[0])
    assert [[(d.strip.what, marks(d.svg)) for d in step] for step in steps] == [
        [],
        [("sees", []), ("slots", [])],
        [("sees", ["extra", "missing"]), ("slots", [])],
    ]
    assert steps[2][0].wrong == (
        "the cache does not show t3, which the law wants",
        "the cache shows t2, which the law does not allow",
    )
    assert "<title>law: t3, t4, t5, t6; cache: t2 (extra), t3 (missing), t4, t5, t6</title>" in steps[2][0].svg
    assert "<title>cache: t5, t2, t6, t4</title>" in steps[2][1].svg


def test_of_a_group_only_the_row_that_is_wrong_is_marked():
    step = draw(BATCH.failures[0])[2]
    assert [(d.strip.of, d.strip.what, marks(d.svg)) for d in step] == [
        ("row 0", "sees", []),
        ("row 0", "slots", []),
        ("row 1", "sees", ["extra"]),
        ("row 1", "slots", []),
    ]


def failure_with(*strips: Strip, field: str = "sights", expected: str = "a", observed: str = "b") -> FailureFound:
    step = StepShown("decode", "ok", "ok", field, expected, observed, strips)
    return evolve(RING.failures[0], field=field, steps=(step,))


def test_a_long_picture_draws_columns_that_behave_alike_as_one():
    law, shown = tuple(range(1, 501)), (*range(1, 300), *range(301, 501))
    (drawn,) = draw(failure_with(Strip("sees", law=law, shown=shown)))[0]
    assert re.findall(r'class="token"[^>]*>([^<]+)<', drawn.svg) == ["t1–299", "t300", "t301–500", "t1–299", "t301–500"]
    assert drawn.wrong == ("the cache does not show t300, which the law wants",)


def test_a_wide_picture_is_cut_and_says_so():
    shown = tuple(range(1, 400, 2))
    (drawn,) = draw(failure_with(Strip("sees", law=shown, shown=shown, more=5)))[0]
    assert f">+{200 - 72 + 5}<" in drawn.svg
    assert len(drawn.svg) < 50_000


def test_tokens_shown_twice_allowed_only_or_no_tokens_are_told_apart():
    (drawn,) = draw(failure_with(Strip("sees", law=(1, 2, 3), must=(3,), shown=(2, 3, 3, 0))))[0]
    assert marks(drawn.svg) == ["twice", "extra"]
    assert drawn.wrong == ("the cache shows ?, which the law does not allow", "the cache shows t3 more than once")
    assert drawn.svg.count("cell may") == 2


def test_where_the_order_is_wrong_the_columns_are_places():
    (drawn,) = draw(failure_with(Strip("sees", law=(3, 1, 2), shown=(1, 2, 3)), field="order"))[0]
    assert marks(drawn.svg) == ["other"] * 3
    assert re.findall(r'class="index"[^>]*>(\d+)<', drawn.svg) == ["0", "1", "2"]


def test_slots_are_compared_only_where_the_law_fixes_them():
    (free,) = draw(failure_with(Strip("slots", shown=(5, 2, 6, 4))))[0]
    (fixed,) = draw(failure_with(Strip("slots", law=(5, 6, 3, 4), shown=(5, 2, 6, 0)), field="held"))[0]
    assert marks(free.svg) == []
    assert marks(fixed.svg) == ["other", "other", "missing"]


# Hostile texts: names and messages come from foreign caches.

EVIL = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>",
    "]]>&amp;<!-- \x00\x07 -->\"'",
    "\x1b[31mred\x1b]0;title\x07 \u202eright to left \ud800",
    "```\n| a | b |\n``` `code` **bold** [link](http://evil) <details> @someone $x$ ~~~~",
    "[bold red]rich[/] [/] \\",
    "x" * 500_000,
)


def hostile(text: str) -> RunReport:
    trace = parse("ring window=4 ; window 5 ; decode").trace
    step = StepShown(text, text, text, text or "f", text, text, (Strip("sees", text, law=(1,), shown=(2,)),))
    found = FailureFound(
        text, text, text, trace, text, text, text, text, text, text, text, steps=(step,), seen=(text,), others=(text,)
    )
    started = TargetStarted(text, (text,), text, text, 0, fixed={text: text}, capabilities=(text,), shard=text)
    clauses = [ClauseJudged(text, text, text, text, outcome, 1, text) for outcome in OUTCOMES]
    ended = TargetEnded(text, "violations", 1, arithmetic=text, errors={text: 1}, stopped=text)
    witness = WitnessReplayed(text, text, text, "stale", text, text, text)
    return gather(
        (RunStarted(1, {text: text}, text, (text,), text), started, found, witness, *clauses, ended, RunEnded(1, 9))
    )


class Tags(HTMLParser):
    """The elements of a page that can do something, and the attributes that can."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.count = Counter[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        self.found += [tag] if tag in ("script", "img", "iframe", "link", "object") else []
        self.found += [name for name, _ in attrs if name.startswith("on") or name == "src"]
        self.found += [value or "" for name, value in attrs if name == "href" and not (value or "").startswith("#")]


@pytest.mark.parametrize("text", EVIL)
def test_hostile_texts_do_nothing_in_html(text: str):
    page = FORMS["html"](hostile(text))
    page.encode()
    tags = Tags()
    tags.feed(page)
    assert tags.found == ["script"]  # ours
    assert "\x1b" not in page
    assert len(page) < 1 << 20


@pytest.mark.parametrize("text", EVIL)
def test_hostile_texts_do_nothing_in_xml(text: str):
    told = FORMS["junit"](hostile(text))
    top = ET.fromstring(told.encode())
    assert len(list(top.iter("testcase"))) == len(OUTCOMES) + 1
    assert len(list(top.iter("failure"))) >= 1
    assert len(told) < 1 << 20


@pytest.mark.parametrize("text", EVIL)
def test_hostile_texts_do_nothing_in_markdown(text: str):
    told = FORMS["markdown"](hostile(text))
    assert len(told.encode()) < 1 << 20
    tags = Tags()
    tags.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(told))
    assert tags.found == []
    assert tags.count["details"] == tags.count["summary"] == 1
    assert tags.count["table"] == 1
    assert tags.count["td"] == tags.count["tr"] * (1 + len(OUTCOMES)) - tags.count["th"]  # none for "not applicable"
    assert "\x1b" not in told


@pytest.mark.parametrize("text", EVIL)
def test_hostile_texts_do_nothing_on_a_terminal(text: str):
    out = StringIO()
    print_run(Console(file=out, width=100, color_system=None), hostile(text), verbose=True)
    print_run(Console(file=out, width=100, color_system=None), hostile(text))
    assert all(c == "\n" or c.isprintable() for c in out.getvalue())


@pytest.mark.parametrize("text", EVIL)
def test_hostile_texts_are_told_whole_in_json(text: str):
    told = json.loads(FORMS["json"](hostile(text)))
    assert told["target"] == text


def test_markdown_fits_a_step_summary_whatever_there_is():
    many = [
        evolve(RING.failures[0], clause=f"VIS-{n}", id=f"VIS-{n}-1", rationale="", prose="y" * 9000) for n in range(300)
    ]
    run = evolve(RUN, targets=(evolve(RING, failures=tuple(many)),))
    told = FORMS["markdown"](run)
    assert MOST_BYTES // 2 < len(told.encode()) < MOST_BYTES
    assert "more failures do not fit" in told
    assert "not listed: VIS-1; repair it" in told.splitlines()[-1]


def test_html_is_of_itself_alone():
    page = FORMS["html"](RUN)
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert "http://" not in page.replace("https://example.org/issues/4", "")
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (("release:mlx-lm==0.28.0:KVCache", "release:mlx-lm==0.30.2:KVCache"), "release:mlx-lm=="),
        (("builtin:mlx_lm.KVCache", "builtin:mlx_lm.RotatingKVCache"), "builtin:mlx_lm."),
        (("py:a:Ring", "cmd:./testee"), ""),
    ],
)
def test_what_names_have_in_common_ends_where_a_part_of_them_ends(names: tuple[str, str], common: str):
    targets = [TargetReport(TargetStarted(name, ("full",), "core", "ci", 0)) for name in names]
    assert matrix_of(evolve(gather(EVENTS), targets=tuple(targets))).common == common
