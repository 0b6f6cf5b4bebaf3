"""A run as a step table: what the law says, what the target shows, and where they part, in tokens."""

from attrs import evolve
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.checks_read import sight_words
from kvlaw.conformance.checks_state import named_ids
from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.events import StepShown, Strip
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.reports.strips import strips
from kvlaw.conformance.reports.wording import aside, demanded, shown
from kvlaw.conformance.reports.words import cut
from kvlaw.reference.expectation import Expectation
from kvlaw.spec.calls import Call, Reuse
from kvlaw.spec.clauses import Profile
from kvlaw.spec.records import ReadRecord, Record
from kvlaw.spec.text_form import format_tokens, write_call, write_config
from kvlaw.spec.trace import Trace


def told(trace: Trace, steps: tuple[Step, ...], profile: Profile | None = None) -> tuple[StepShown, ...]:
    """Tell a run step by step, in words; with a profile also in strips of cells, for a picture."""
    drawn = len(steps) - MOST_DRAWN if profile else len(steps)
    return tuple(
        _told(trace, step, strips(step, profile) if profile and number >= drawn else ())
        for number, step in enumerate(steps)
    )


MOST_DRAWN = 60
"""The last steps of a long trace are drawn, the others only told."""


def _told(trace: Trace, step: Step, drawn: tuple[Strip, ...]) -> StepShown:
    call = write_call(step.call) if step.call is not None else write_config(trace.config)
    first = step.divergences[0] if step.divergences else None
    query = first.query if first else None
    law, came = law_says(step.expectation, query, step.call), target_shows(step.record, step, query)
    if first is None:
        return StepShown(call, law, cut(came), strips=drawn)
    field = _field(first, step.expectation)
    return StepShown(call, law, cut(came), field, cut(first.expected), cut(first.observed), drawn)


def _field(divergence: Divergence, expectation: Expectation) -> str:
    """Name what differs, and of which row of a group, layer of a list, and query but the last one."""
    where, parts = "", ()
    if divergence.layer is not None:
        where, parts = f"layer {divergence.layer} ", expectation.layers[divergence.layer :]
    elif divergence.row is not None:
        where, parts = f"row {divergence.row} ", expectation.rows[divergence.row :]
    queries = len((parts[0] if parts else expectation).sights)
    query = "" if divergence.query is None else _which(divergence.query, queries)
    return f"{where}{query}{divergence.field}"


def law_says(expectation: Expectation, query: int | None = None, call: Call | None = None) -> str:
    """Tell what a call must answer."""
    words = [] if expectation.outcomes == ("ok",) else [" or ".join(expectation.outcomes)]
    if expectation.answer is not None:
        words.append(_answers(call, expectation.answer))
    if (answers := expectation.value("answers")) is not None:
        words.append(f"reads {named_ids(answers)}")
    if expectation.sights:
        index = len(expectation.sights) - 1 if query is None else query
        sight = expectation.sights[index]
        order = expectation.order[index] if expectation.order and sight.required == sight.allowed else None
        ids = sight_words(sight) if order is None else format_tokens(order)
        words.append(f"{_which(index, len(expectation.sights))}{'fetches' if expectation.is_dense else 'sees'} {ids}")
    for number, inner in enumerate(expectation.layers):
        words.append(f"layer {number}: {law_says(inner)}")
    for number, inner in enumerate(expectation.rows):
        words += [f"row {number} {told}" for told in [_row_law(inner)] if told]
    return ", ".join(words) or "ok"


def _answers(call: Call | None, count: int) -> str:
    """Tell what a number answers: how much a prompt finds, or how much a trim drops."""
    return f"{'finds' if isinstance(call, Reuse) else 'drops'} {count}"


def _row_law(expectation: Expectation) -> str:
    """Tell what a row of a group must show: what it sees, or else where it stands."""
    if expectation.sights or expectation.value("answers"):
        return law_says(evolve(expectation, outcomes=("ok",)))
    offset = expectation.value("offset")
    return "" if offset is None else f"stands at {offset}"


def _row_shows(record: Record) -> str:
    if record.read is not None and (told := _sees(record.read, None)):
        return told
    if record.read is not None and record.read.answers is not None:
        return f"reads {named_ids(record.read.answers)}"
    return "" if record.after is None or record.after.offset is None else f"stands at {record.after.offset}"


def target_shows(record: Record, step: Step | None = None, query: int | None = None) -> str:
    """Tell what a target showed."""
    words = [] if record.outcome == "ok" else [record.outcome]
    if record.answer is not None:
        words.append(_answers(record.call, record.answer))
    words += [_sees(record.read, query)] if record.read is not None else []
    words += [f"reads {named_ids(record.read.answers)}"] if record.read and record.read.answers is not None else []
    for number, inner in enumerate(step.layers if step else ()):
        words.append(f"layer {number}: {target_shows(inner)}")
    words += [f"row {number} {told}" for number, inner in enumerate(record.rows) if (told := _row_shows(inner))]
    return ", ".join(w for w in words if w) or "ok"


def _sees(read: ReadRecord, query: int | None) -> str:
    if read.visible is None or not read.visible[0]:
        return "" if read.fetched is None else f"fetches {format_tokens(read.fetched[0])}"
    index = len(read.visible[0]) - 1 if query is None else min(query, len(read.visible[0]) - 1)
    return f"{_which(index, len(read.visible[0]))}sees {format_tokens(read.visible[0][index])}"


def _which(index: int, count: int) -> str:
    return "" if index == count - 1 else f"query {index} "


def step_table(steps: tuple[StepShown, ...], *, target: str = "the target shows") -> Table:
    """Draw a step table.

    At a step that parts from the law stand the demand that was not met and what came instead, and below it what else
    the target showed.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("", "call", "the law says", target):
        table.add_column(head, overflow="fold")
    for number, step in enumerate(steps):
        mark, style = (">", "bold red") if step.diverges else (" ", "")
        cells = (mark + (str(number) if number else ""), step.call, demanded(step))
        table.add_row(*map(Text, cells), Text(shown(step), style))
        if more := aside(step):
            table.add_row("", "", "", Text(f"({more})", "dim"))
    return table


def first_divergence(steps: tuple[Step, ...]) -> Divergence | None:
    """Give the first divergence of a run."""
    return next((step.divergences[0] for step in steps if step.divergences), None)
