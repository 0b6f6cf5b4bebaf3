"""A run as GitHub Markdown: for each target the verdict and a short table, each failure folded away in ``details``.

It fits a step summary, which may have 1 MiB: failures that would not fit are counted instead. Foreign texts stand in
code spans and fenced blocks whose fences are longer than any run of backticks in them, so that nothing in them is
markup.
"""

import re
from collections import Counter
from collections.abc import Iterator

from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.expected import as_listed, but_for, unreached
from kvlaw.conformance.reports.failure_text import text_block, title
from kvlaw.conformance.reports.fit import fit
from kvlaw.conformance.reports.matrix import Matrix, matrix_of
from kvlaw.conformance.reports.outcomes import LOOKS, VERDICTS, look_of
from kvlaw.conformance.reports.run import RunReport, TargetReport
from kvlaw.conformance.reports.terminal import next_steps
from kvlaw.conformance.reports.unasked import arithmetic, families, not_offered
from kvlaw.conformance.reports.words import clean

MOST_BYTES = 1_000_000
"""GitHub refuses a step summary above 1 MiB."""
MOST_FAILURE = 40_000
_SIGNS = {"conformant": "✅", "violations": "❌", "stale expectations": "❌", "incomplete": "⚠️", "unusable": "❌"}


def markdown_report(run: RunReport) -> str:
    """Write a run as Markdown."""
    run = fit(run)
    left = MOST_BYTES - 2000 - len(_footer(run).encode())
    parts: list[str] = []
    table = "\n".join(_matrix(matrix_of(run))) + "\n" if len(run.targets) > 1 else ""
    left -= len(table.encode())
    for target in run.targets:
        head = "\n".join(_head(target)) + "\n"
        parts.append(head if len(head.encode()) < left else f"## {code(target.title)}\n\n{target.end.verdict}\n")
        left -= len(parts[-1].encode())
    for number, target in enumerate(run.targets):
        told = _failures(target, left)
        left -= len(told.encode())
        parts[number] += told
    return "\n".join([*([table] if table else []), *parts, _footer(run)])


def _matrix(table: Matrix) -> Iterator[str]:
    """Write the table of several targets: the outcomes of each clause that is not kept by all that it applies to."""
    letters = [f"T{number}" for number in range(1, len(table.names) + 1)]
    yield "## All targets"
    yield ""
    for letter, name, verdict in zip(letters, table.titles, table.verdicts, strict=True):
        yield f"* **{letter}** {_SIGNS[verdict]} {verdict}: {code(name)}"
    yield ""
    yield f"| clause | {' | '.join(letters)} | what it says |"
    yield f"| --- |{' :-: |' * len(letters)} --- |"
    quiet = 0
    for row in table.rows:
        if all(look_of(cell).word in ("pass", "none") or not cell for cell in row.cells):
            quiet += 1
            continue
        marks = " | ".join(look_of(cell).mark if cell else "" for cell in row.cells)
        yield f"| {plain(row.clause)} | {marks} | {plain(row.title)} |"
    yield ""
    marks = ", ".join(f"{look.mark} {outcome}" for outcome, look in LOOKS.items() if outcome in table.outcomes)
    yield f"{marks}. {quiet} clauses more are kept by all that they apply to."
    yield ""


def _head(report: TargetReport) -> Iterator[str]:
    started, ended = report.started, report.end
    yield f"## {_SIGNS[ended.verdict]} {code(report.title)}: {ended.verdict}{but_for(report)}"
    yield ""
    yield f"{VERDICTS[ended.verdict][1].capitalize()}."
    yield (
        f"Kinds {code(', '.join(started.kinds))}, profile {code(started.profile)}, budget {code(started.budget)}, "
        f"seed {started.seed}: {report.played}."
    )
    if line := not_offered(report):
        yield f"Not offered by this target: {plain(line)})."
    if line := arithmetic(report):
        yield f"Arithmetic {plain(line)}."
    if not report.whole:
        yield f"**Not the whole run**: {code(report.why_not_whole)}."
    for note in report.notes:
        yield f"**Note**: {plain(note)}."
    yield ""
    yield from _table(report)
    yield ""
    if open_ones := report.open_musts():
        yield f"Never judged, although they apply: {plain(', '.join(open_ones))}."
        yield ""
    yield from _listed(report)
    for message, count in list(ended.errors.items())[:5]:
        yield f"* trouble, {count} times: {code(message)}"


def _listed(report: TargetReport) -> Iterator[str]:
    """Tell what became of expected failures."""
    for witness in report.expected():
        link = code(witness.link) if witness.link else ""
        yield f"* expected failure {plain(witness.clause)}, as it was: {plain(witness.reason)} {link}".rstrip()
    for witness in report.wrong_witnesses():
        yield f"* expected failure {plain(witness.clause)} is **{witness.state}**: {code(witness.message)}"
    if line := as_listed(report):
        yield f"* as listed: {plain(line)}"
    for line in unreached(report):
        yield f"* {plain(line)}"


def _table(report: TargetReport) -> Iterator[str]:
    counted = Counter(c.outcome for c in report.clauses)
    unasked = counted.pop("not applicable", 0)  # families of which none applies have no line: it would not add up
    came = [outcome for outcome in LOOKS if counted[outcome]]
    if not came:
        return
    yield "| family | " + " | ".join(came) + " | which |"
    yield "| --- |" + " ---: |" * len(came) + " --- |"
    for family, members in families(report.clauses):
        counts = Counter(c.outcome for c in members)
        named = " ".join(c.clause for c in members if look_of(c.outcome).case == "failed" or look_of(c.outcome).open)
        yield f"| {plain(family)} | " + " | ".join(str(counts[o] or "") for o in came) + f" | {plain(named)} |"
    if unasked:
        yield ""
        yield f"Not applicable, and not in the table: {unasked}."


def _failures(report: TargetReport, left: int) -> str:
    """Write the failures that fit, and count the others."""
    parts: list[str] = []
    for number, failure in enumerate(report.failures):
        part = _failure(failure, report.fixed)
        left -= len(part.encode())
        if left < 0:
            missing = len(report.failures) - number
            parts.append(f"\n{missing} more failures do not fit into a step summary: see the HTML report.\n")
            break
        parts.append(part)
    return "".join(parts)


def _failure(failure: FailureFound, fixed: str) -> str:
    told = text_block(failure, titled=False, fixed=fixed)
    told = told if len(told) <= MOST_FAILURE else f"{told[:MOST_FAILURE]}\n..."
    summary = f"<b>{escaped(failure.clause)}</b> {escaped(title(failure))} ({escaped(failure.level)})"
    return f"\n<details><summary>{summary}</summary>\n\n{fenced(told)}\n\n</details>\n"


def _footer(run: RunReport) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run.started.versions.items())
    lines = [plain(f"{versions}; {run.started.platform}; {run.started.started}")]
    lines += [f"{code(' '.join(run.started.command))}"] if run.started.command else []
    nexts = dict.fromkeys(line for target in run.targets for line in next_steps(target))
    lines += [plain(line) for line in nexts]
    return "\n".join(f"{line}  " for line in lines) + "\n"


def code(text: str, most: int = 2000) -> str:
    """Write a foreign text as a code span, outside of tables."""
    told = clean(text, most) or " "
    fence = "`" * (_longest_run(told) + 1)
    pad = " " if told.startswith("`") or told.endswith("`") else ""
    return f"{fence}{pad}{told}{pad}{fence}"


def fenced(text: str) -> str:
    """Write lines of a foreign text as a block of code."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def plain(text: str) -> str:
    """Write a text so that nothing in it is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$@&])", r"\\\1", clean(text)).replace("://", ":\\//")


def escaped(text: str) -> str:
    """Write a text within HTML."""
    return clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


__all__ = ["MOST_BYTES", "code", "escaped", "fenced", "markdown_report", "plain"]
