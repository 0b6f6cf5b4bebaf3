"""A run as one self-contained HTML file: verdict, clauses, and each failure with its law, its text and its picture.

Nothing is loaded from elsewhere, and a policy in the page forbids it: the style and the script (a filter of the table,
without which everything can still be read) stand in it.  It follows the reader's choice of a light or a dark page.
``html_failure`` writes a failure, ``matrix`` the table of several targets; every text goes through ``text`` or
``code``.
"""

import base64
from collections import Counter
from collections.abc import Collection, Iterator
from hashlib import sha256
from importlib.resources import files

from kvlaw.conformance.events import ClauseJudged, WitnessReplayed
from kvlaw.conformance.reports.expected import as_listed, but_for, unreached
from kvlaw.conformance.reports.failure_text import title
from kvlaw.conformance.reports.fit import fit
from kvlaw.conformance.reports.html_failure import failure_article
from kvlaw.conformance.reports.html_text import Anchors, code, element, inline, text
from kvlaw.conformance.reports.matrix import Matrix, matrix_of
from kvlaw.conformance.reports.outcomes import LOOKS, VERDICTS, look_of
from kvlaw.conformance.reports.run import RunReport, TargetReport
from kvlaw.conformance.reports.terminal import next_steps
from kvlaw.conformance.reports.unasked import arithmetic, not_offered

MOST_FAILURES = 200
"""More failures of one target than this are listed, but not drawn."""


def html_report(run: RunReport) -> str:
    """Write a run as one HTML file."""
    run = fit(run)
    anchors = Anchors(tuple(target.name for target in run.targets))
    body = "".join(_body(run, anchors))
    script = _part("report.js")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    sources = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    policy = f"{sources}; base-uri 'none'; form-action 'none'"
    title = ", ".join(f"{t.end.verdict}: {t.title}" for t in run.targets[:3])
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title or 'kvlaw', 200)}</title>\n<style>\n{_part('report.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return (files("kvlaw.conformance.reports") / "page" / name).read_text(encoding="utf-8")


def _body(run: RunReport, anchors: Anchors) -> Iterator[str]:
    yield "<h1>kvlaw: does this cache obey the laws of KV caches?</h1>\n"
    if len(run.targets) > 1:
        drawn = {(target.name, f.clause) for target in run.targets for f in target.failures[:MOST_FAILURES]}
        yield from _matrix(matrix_of(run), anchors, drawn)
    first = next((target.name for target in run.targets if target.failures), "")
    for target in run.targets:
        yield from _target(target, anchors, explain=target.name == first)
    yield from _footer(run)


def _target(report: TargetReport, anchors: Anchors, *, explain: bool) -> Iterator[str]:
    yield f'<section id="{anchors.target(report.name)}">\n<h2>{code(report.title)}</h2>\n'
    yield from _verdict(report)
    if report.failures:
        yield from _broken(report, anchors)
    if report.failures:
        yield "<h2>What is broken</h2>\n"
        yield _part("legend.html") if explain else ""
        for failure in report.failures[:MOST_FAILURES]:
            yield failure_article(failure, anchors, report)
        if len(report.failures) > MOST_FAILURES:
            yield f'<p class="note">{len(report.failures) - MOST_FAILURES} more failures are not drawn.</p>\n'
    if report.clauses:
        yield from _clauses(report, anchors)
    yield "</section>\n"


def _verdict(report: TargetReport) -> Iterator[str]:
    started, ended = report.started, report.end
    yield f'<div class="verdict {ended.verdict}">\n<div class="word">{ended.verdict}{but_for(report)}</div>\n'
    yield f"<p>{text(_in_words(report))}</p>\n"
    if not report.whole:
        yield f'<p class="note">This is not the whole run: {text(report.why_not_whole)}.</p>\n'
    yield from (f'<p class="note">{text(note)}</p>\n' for note in report.notes)
    counts = Counter(c.outcome for c in report.clauses)
    chips = [f'<li class="chip"><b>{counts[o]}</b> {o}</li>' for o in LOOKS if counts[o]]
    yield f'<ul class="chips">{"".join(chips)}</ul>\n'
    facts = {
        "kinds of cache": code(", ".join(started.kinds) or "unknown"),
        "profile": f"{code(started.profile)} {_PROFILES.get(started.profile, '')}",
        "played": f"{report.played}; "
        f"budget {code(started.budget)}, seed {started.seed}"
        + (f", shard {code(started.shard)}" if started.shard else ""),
        "fixed": " ".join(code(f"{name}={value}") for name, value in started.fixed.items()),
        "not offered": text(line + ")" if (line := not_offered(report)) else ""),
        "arithmetic": text(arithmetic(report)),
        "trouble": "<br>".join(f"{count} × {code(message)}" for message, count in list(ended.errors.items())[:10]),
        "expected failures": "<br>".join(_witness(witness) for witness in report.witnesses),
        "as listed": text(as_listed(report)),
        "not reached": "<br>".join(text(line) for line in unreached(report)),
        "what next": "<br>".join(text(line) for line in next_steps(report)),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{told}</dd>" for name, told in facts.items() if told)
    yield f'<dl class="facts">{rows}</dl>\n</div>\n'


def _witness(witness: WitnessReplayed) -> str:
    state = "as it was" if witness.state == "holds" else f"<b>{witness.state}</b>"
    codes = [code(one) if one else "" for one in (witness.text, witness.link)]
    told = [state, text(witness.reason), text(witness.message), *codes]
    return f"{text(witness.clause)}: {'; '.join(part for part in told if part)}"


_PROFILES = {
    "core": "(what loses data or gives a wrong answer)",
    "layout": "(also the order of storage, and other choices that are fixed for interchange)",
}


def _in_words(report: TargetReport) -> str:
    """Say the verdict to someone who does not know kvlaw."""
    broken = sum(look_of(c.outcome).case == "failed" for c in report.clauses)
    apply = sum(c.outcome != "not applicable" for c in report.clauses)
    told = VERDICTS[report.end.verdict][1].capitalize()
    if report.end.verdict == "violations" and broken:
        rules = "rule" if broken == 1 else "rules"
        told = (
            f"This cache breaks {broken} {rules} of the {apply} that apply to it. Each is shown below on the shortest"
        )
        return told + " sequence of calls that was found, with what the rule asks for and what the cache did."
    open_ones = report.open_musts()
    return f"{told}. Never judged, although they apply: {' '.join(open_ones)}." if open_ones else f"{told}."


def _broken(report: TargetReport, anchors: Anchors) -> Iterator[str]:
    yield '<ul class="index">\n'
    for failure in report.failures:
        also = f' <span class="soft">({text(failure.kind)})</span>' if len(report.started.kinds) > 1 else ""
        link = f'<a href="#{anchors.failure(failure, report.name)}">{text(failure.clause)}</a>'
        yield f"<li>{link} {inline(title(failure))}{also}</li>\n"
    yield f'</ul>\n<p><a href="#clauses-{anchors.target(report.name)}">Every rule, and what came out</a></p>\n'


def _clauses(report: TargetReport, anchors: Anchors) -> Iterator[str]:
    table = f"clauses-{anchors.target(report.name)}"
    came = list(dict.fromkeys(look_of(o).word for o in LOOKS if any(c.outcome == o for c in report.clauses)))
    yield "<h2>Every rule</h2>\n"
    yield _filter(table, came)
    yield f'<div class="scroll"><table id="{table}">\n<thead><tr><th>rule</th><th>level</th><th>outcome</th>'
    yield "<th>times tried</th><th>what it says</th></tr></thead>\n<tbody>\n"
    for clause in report.clauses:
        yield _clause_row(report, clause, anchors)
    yield "</tbody></table></div>\n"


_WORDS = {
    "pass": "kept",
    "fail": "broken",
    "expected": "expected failure",
    "open": "not judged",
    "none": "does not apply",
}


def _filter(table: str, came: list[str]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" value="{word}" checked> {_WORDS.get(word, word)}</label>' for word in came
    )
    search = '<input type="search" placeholder="Filter: TRIM, offset, mask..." aria-label="Filter the rules">'
    return f'<div class="filter" data-table="{table}" hidden>{search}{boxes}<span class="left soft"></span></div>\n'


def _clause_row(report: TargetReport, clause: ClauseJudged, anchors: Anchors) -> str:
    look, failures = look_of(clause.outcome), report.failures_of(clause.clause)
    name = (
        f'<a href="#{anchors.failure(failures[0], report.name)}">{text(clause.clause)}</a>'
        if failures
        else text(clause.clause)
    )
    why = f'<br><span class="soft">{text(clause.why or look.about)}</span>' if look.case == "skipped" else ""
    cells = (
        f'<td class="id">{name}</td><td>{text(clause.level)}</td><td class="o {look.word}">{text(clause.outcome)}</td>'
        f'<td class="n">{clause.exercised or ""}</td><td>{text(clause.title)}{why}</td>'
    )
    return f'<tr data-kind="{look.word}">{cells}</tr>\n'


def _matrix(table: Matrix, anchors: Anchors, drawn: Collection[tuple[str, str]]) -> Iterator[str]:
    yield "<h2>All targets</h2>\n"
    for common in (table.common,) if table.common else ():
        yield f'<p class="soft">All names begin with {code(common)}</p>\n'
    words = list(dict.fromkeys(look_of(cell).word for row in table.rows for cell in row.cells))
    yield _filter("matrix", [word for word in dict.fromkeys(look.word for look in LOOKS.values()) if word in words])
    yield '<div class="scroll"><table id="matrix" class="matrix"><thead><tr><th>rule</th>'
    for name, short in zip(table.names, table.short, strict=True):
        yield f'<th class="t"><a href="#{anchors.target(name)}">{text(short)}</a></th>'
    yield "<th>what it says</th></tr></thead>\n<tbody>\n"
    verdicts = "".join(_verdict_mark(verdict) for verdict in table.verdicts)
    yield f'<tr data-kind="{" ".join(words)}"><td class="id">verdict</td>{verdicts}<td></td></tr>\n'
    for row in table.rows:
        kinds = " ".join(dict.fromkeys(look_of(cell).word for cell in row.cells))
        cells = "".join(
            _mark(cell, name, row.clause, anchors, drawn) for cell, name in zip(row.cells, table.names, strict=True)
        )
        yield f'<tr data-kind="{kinds}"><td class="id">{text(row.clause)}</td>{cells}<td>{text(row.title)}</td></tr>\n'
    yield "</tbody></table></div>\n"
    marks = ", ".join(f"{look.mark} {outcome}" for outcome, look in LOOKS.items() if outcome in table.outcomes)
    yield f'<p class="soft">{text(marks)}</p>\n'


def _verdict_mark(verdict: str) -> str:
    mark, word = {"conformant": ("✓", "pass"), "incomplete": ("?", "open")}.get(verdict, ("✗", "fail"))
    return f'<td class="o {word}" title="{text(verdict)}">{mark}</td>'


def _mark(outcome: str, name: str, clause: str, anchors: Anchors, drawn: Collection[tuple[str, str]]) -> str:
    look = look_of(outcome)
    link = anchors.of_clause(name, clause) if (name, clause) in drawn else ""
    mark = f'<a href="#{link}">{look.mark}</a>' if link else look.mark
    return f'<td class="o {look.word}" title="{text(outcome)}">{mark if outcome else ""}</td>'


def _footer(run: RunReport) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in run.started.versions.items())
    lines = [text(versions), text(run.started.platform), text(run.started.started)]
    lines += [code(" ".join(run.started.command))] if run.started.command else []
    lines += [element("code", "kvlaw spec show RULE") + " shows a rule with its reason and its examples."]
    yield f"<footer>{'<br>'.join(line for line in lines if line)}</footer>\n"


__all__ = ["html_report"]
