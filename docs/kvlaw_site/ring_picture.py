"""A ring before, at and after the wrap: an SVG of what the reference model holds after each call of a trace.

Nothing is drawn by hand: the trace is played on the oracle, and every cell, index and offset is what it showed.
"""

import re
from collections.abc import Iterator
from typing import ClassVar
from xml.sax.saxutils import escape

from attrs import frozen
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.spec_tools.gather import play
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse

_LEFT, _CELL, _ROW, _TOP, _NOTE = 104, 46, 62, 34, 300


@frozen
class Frame:
    """What a ring shows after one call: the ids in its columns (0: none), its indices, what the newest query sees."""

    told: str
    offset: int
    held: tuple[int, ...]
    write_index: int
    seen: frozenset[int]


def frames(trace: str) -> list[Frame]:
    """Play a trace on the oracle; one frame for each of its calls, and for ``decode x3`` the last of three."""
    written = parse(trace)
    steps = [s for s in play(load_clauses(), open_target("builtin:oracle"), written.trace).steps if s.call is not None]
    found: list[Frame] = []
    for told in (part.strip() for part in trace.split(";")[1:]):
        times = re.search(r" x(\d+)$", told)
        count = int(times[1]) if times else 1
        if len(steps) < count:
            raise ValueError(f"{trace}: the oracle stops before {told!r}")
        found.append(_frame(told, steps[count - 1]))
        steps = steps[count:]
    return found


def _frame(told: str, step: Step) -> Frame:
    after, read = step.record.after, step.record.read
    shown = after and (after.offset, after.held, after.write_index)
    match shown, read and read.visible:
        case (int(offset), tuple(held), int(index)), tuple(visible) if visible and not step.divergences:
            return Frame(told, offset, held, index, frozenset(visible[0][-1]))
        case _:
            raise ValueError(f"{told}: the oracle shows no ring after it")


def draw(shown: list[Frame], window: int, notes: list[str]) -> str:
    """Draw frames below each other: a cell for each column, the write index under them, offset and note beside them."""
    columns = max(len(frame.held) for frame in shown) + 1
    width, height = _LEFT + columns * _CELL + _NOTE, _TOP + _ROW * len(shown)
    edge = _LEFT + window * _CELL
    parts = [
        f'<svg class="kv-ring" viewBox="0 0 {width} {height}" role="img" aria-label="{_alternative(shown)}">',
        f'<text class="kv-head" x="{_LEFT}" y="16">columns of the ring, W = {window}</text>',
        f'<text class="kv-head" x="{_LEFT + columns * _CELL}" y="16">offset</text>',
        f'<line class="kv-edge" x1="{edge}" x2="{edge}" y1="24" y2="{height - 14}"/>',
    ]
    for number, (frame, note) in enumerate(zip(shown, notes, strict=True)):
        parts += _drawn(frame, _TOP + number * _ROW, columns, note)
    return "\n".join((*parts, "</svg>"))


def _drawn(frame: Frame, top: int, columns: int, note: str) -> Iterator[str]:
    middle = top + 21
    yield f'<text class="kv-call" x="{_LEFT - 14}" y="{middle}" text-anchor="end">{escape(frame.told)}</text>'
    for column, token in enumerate(frame.held):
        kind = "spare" if not token else "seen" if token in frame.seen else "hidden"
        x = _LEFT + column * _CELL
        yield f'<rect class="kv-cell kv-{kind}" x="{x + 2}" y="{top}" width="{_CELL - 4}" height="32" rx="4"/>'
        name = f"t{token}" if token else "–"
        yield f'<text class="kv-token" x="{x + _CELL / 2:.0f}" y="{middle}" text-anchor="middle">{name}</text>'
    at = _LEFT + frame.write_index * _CELL + _CELL // 2
    yield f'<path class="kv-index" d="M{at - 6} {top + 45} L{at} {top + 36} L{at + 6} {top + 45} Z"/>'
    right = _LEFT + columns * _CELL
    yield f'<text class="kv-offset" x="{right}" y="{middle}">{frame.offset}</text>'
    yield f'<text class="kv-note" x="{right + 30}" y="{middle}">{escape(note)}</text>'


def _alternative(shown: list[Frame]) -> str:
    told = "; ".join(f"after {f.told} it holds {', '.join(f't{t}' if t else 'nothing' for t in f.held)}" for f in shown)
    return escape(f"A ring, call by call: {told}.")


class RingPicture(SphinxDirective):
    """Draw the trace in the first line; a note for each of its calls follows, one a line."""

    has_content = True
    option_spec: ClassVar = {"window": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        """Play and draw."""
        trace, *notes = [line for line in self.content if line.strip()]
        try:
            picture = draw(frames(trace), self.options["window"], notes)
        except ValueError as error:
            raise self.error(str(error)) from error
        return [nodes.raw("", f'<div class="kv-picture">{picture}</div>', format="html")]


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("ring-picture", RingPicture)
