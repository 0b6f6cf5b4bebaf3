"""A run as JUnit XML: a suite for each target with one case for each clause, and a suite of verdicts.

A clause that is broken is a failure, with all that is needed to see it again. One that was not judged is *skipped*,
with its reason: it is never a passed case; ``assertions`` says how often each was tried. A target whose verdict is
incomplete, or that could not be run, would be green if clauses were all there is; so the suite ``kvlaw verdicts`` has
one case for each target.
"""

import re
from xml.etree import ElementTree as ET

from kvlaw.conformance.events import ClauseJudged
from kvlaw.conformance.reports.failure_text import headline, sentence, text_block
from kvlaw.conformance.reports.fit import fit
from kvlaw.conformance.reports.outcomes import Case, look_of
from kvlaw.conformance.reports.run import RunReport, TargetReport
from kvlaw.conformance.reports.words import clean

VERDICTS = "kvlaw verdicts"
MOST_TEXT = 60_000
"""How many characters of a failure are told."""
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, in whatever spelling."""


def junit_report(run: RunReport) -> str:
    """Write a run as JUnit XML."""
    run = fit(run)
    suites = [_suite(run, target) for target in run.targets]
    suites.append(_verdicts(run))
    top = ET.Element("testsuites", {"name": "kvlaw", **_totals(suites)})
    top.extend(suites)
    ET.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _suite(run: RunReport, report: TargetReport) -> ET.Element:
    cases = [_case(report, clause) for clause in report.clauses]
    suite = ET.Element("testsuite", {"name": _text(report.title), **_counts(cases)})
    if report.end.counted:
        suite.set("time", f"{report.end.seconds:.2f}")
    if run.started.started:
        suite.set("timestamp", _text(run.started.started.split("+")[0]))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(run, report).items():
        ET.SubElement(properties, "property", name=_text(name), value=_text(value))
    suite.extend(cases)
    return suite


def _properties(run: RunReport, report: TargetReport) -> dict[str, str]:
    started, ended = report.started, report.end
    facts = {
        "target": report.name,
        "verdict": ended.verdict,
        "profile": started.profile,
        "kinds": " ".join(started.kinds),
        "budget": started.budget,
        "seed": str(started.seed),
        "shard": started.shard,
        "arithmetic": ended.arithmetic,
        "calls": str(ended.calls) if ended.counted else f"at least {ended.calls}",
        "traces": str(ended.traces) if ended.counted else "",
        "platform": run.started.platform,
        "command": " ".join(run.started.command),
        "notes": "; ".join(report.notes),
        **{f"version of {name}": version for name, version in run.started.versions.items()},
        **{f"fixed {name}": str(value) for name, value in started.fixed.items()},
    }
    return {name: value for name, value in facts.items() if value}


def _case(report: TargetReport, judged: ClauseJudged) -> ET.Element:
    case = ET.Element("testcase", name=f"{judged.clause} {_text(judged.title)}", classname=_text(report.name))
    case.set("assertions", str(judged.exercised))
    wrong = [w for w in report.wrong_witnesses() if w.clause == judged.clause]
    look = look_of(judged.outcome)
    if look.case == "failed" or wrong:
        case.append(_failure(judged, report, [f"{w.state}: {w.message}" for w in wrong]))
    elif look.case == "skipped":
        why = judged.why or look.about
        told = why if why.startswith(judged.outcome) else f"{judged.outcome}: {why}"
        ET.SubElement(case, "skipped", message=_text(told))
    return case


def _failure(judged: ClauseJudged, report: TargetReport, wrong: list[str]) -> ET.Element:
    failures, fixed = report.failures_of(judged.clause), report.fixed
    told = [*(f"the expected failure is {line}" for line in wrong), *(text_block(f, fixed=fixed) for f in failures)]
    first = failures[0] if failures and not wrong else None
    message = f"{headline(first)}. {sentence(first)}" if first is not None else told[0] if told else judged.why
    found = ET.Element("failure", type=judged.clause, message=_text(message or judged.outcome))
    found.text = _text("\n\n".join(told), MOST_TEXT, lines=True)
    return found


def _verdicts(run: RunReport) -> ET.Element:
    cases = [_verdict(target) for target in run.targets]
    suite = ET.Element("testsuite", {"name": VERDICTS, **_counts(cases), "time": "0.00"})
    suite.extend(cases)
    return suite


def _verdict(report: TargetReport) -> ET.Element:
    ended = report.end
    case = ET.Element("testcase", name=f"verdict of {_text(report.title)}", classname=VERDICTS)
    open_ones = report.open_musts()
    why = report.why_not_whole or (f"never judged: {' '.join(open_ones)}" if open_ones else "")
    if ended.verdict in ("violations", "stale expectations"):
        broken = " ".join(c.clause for c in report.clauses if look_of(c.outcome).case == "failed")
        wrong = " ".join(f"{w.clause} ({w.state})" for w in report.wrong_witnesses())
        told = [f"breaks {broken}" if broken else "", f"expectations: {wrong}" if wrong else "", why]
        message = _text(f"{ended.verdict}: {'; '.join(part for part in told if part)}")
        ET.SubElement(case, "failure", type=ended.verdict, message=message)
    elif ended.verdict == "unusable":
        ET.SubElement(case, "error", type="unusable", message=_text(why or "the target could not be run"))
    elif ended.verdict != "conformant":
        kind = "skipped" if ended.exit_code == 0 else "error"
        found = ET.SubElement(case, kind, message=_text(f"{ended.verdict}: {why or 'not everything was checked'}"))
        if kind == "error":
            found.set("type", ended.verdict)
    return case


def _counts(cases: list[ET.Element]) -> dict[str, str]:
    count = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    return {
        "tests": str(len(cases)),
        "failures": str(count["failure"]),
        "errors": str(count["error"]),
        "skipped": str(count["skipped"]),
    }


def _totals(suites: list[ET.Element]) -> dict[str, str]:
    names = ("tests", "failures", "errors", "skipped")
    return {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in names}


def _text(text: str, most: int = 2000, *, lines: bool = False) -> str:
    """Make a foreign text fit for XML: cut, and what XML cannot hold spelt out."""
    told = text[:most] if lines else clean(text, most)
    return _FORBIDDEN.sub(lambda found: repr(found[0])[1:-1], told)


__all__ = ["VERDICTS", "Case", "junit_report"]
