"""A failure as a picture: step by step, which tokens a query sees and which lie in the slots, by the law and as shown.

Each strip is an inline SVG of two lines of cells, the law's above the cache's. Over all steps of a failure a token has
a column of its own (where their order is what is wrong: a place in the order), and so has a slot, so that one can look
down the steps. Long runs of columns that behave alike are drawn as one. In the step that breaks the law each cell in
which the two lines differ is marked: ``missing`` where the law wants a token that the cache does not show, ``extra``
where the cache shows one that the law does not allow, ``other`` where a slot holds another token, ``twice`` where a
token is shown more than once; ``told_marks`` says it in words.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

from attrs import field, frozen

from kvlaw.conformance.events import FailureFound, Ids, StepShown, Strip

GOLDEN = 137_508
"""Thousandths of a degree between the hues of two tokens that follow each other: neighbours look different."""
DENSE = 26
"""With more columns than this, those that behave alike are drawn as one."""
MOST_COLUMNS, MOST_KEYS = 72, 5000
HEIGHT, GAP, LABEL = 26, 4, 46


@frozen
class Axis:
    """The columns of strips of one kind, over all steps: which token or place each one stands for.

    ``runs`` are first and last key of each column; ``by_token`` says whether a key is a token or a place. ``more``
    counts the keys that are not drawn.
    """

    runs: tuple[tuple[int, int], ...]
    by_token: bool
    more: int = 0
    widths: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Give each column a width by what is written in it."""
        most = max((len(str(last)) for _, last in self.runs), default=1)
        one = 22 + 7 * most
        object.__setattr__(self, "widths", tuple(one if a == b else 26 + 14 * most for a, b in self.runs))

    @property
    def width(self) -> int:
        """The width of all columns."""
        return sum(self.widths) + GAP * len(self.widths)


@frozen
class Drawn:
    """A strip, its SVG, and what is wrong in it, in words."""

    strip: Strip
    svg: str
    wrong: tuple[str, ...]


@frozen
class Cell:
    """What is drawn in one column of one line: a token, a run of tokens, or nothing."""

    text: str = ""
    hue: float | None = None
    mark: str = ""
    may: bool = False
    wanted: str = ""

    @property
    def told(self) -> str:
        """The cell in words, for those who cannot see it."""
        return f"{self.text or self.wanted}{f' ({self.mark})' if self.mark else ''}"


Cells: TypeAlias = tuple[Cell, ...] | None
"""A line of cells, None where nothing is said or shown."""


def draw(failure: FailureFound) -> list[list[Drawn]]:
    """Draw the strips of each step."""
    axes: dict[tuple[str, str], Axis] = {}
    ordered = failure.field in ("order", "fetched")
    for strip in (strip for step in failure.steps for strip in step.strips):
        key = _axis_key(strip)
        if key not in axes:
            axes[key] = _axis([s for step in failure.steps for s in step.strips if _axis_key(s) == key], ordered)
    return [[_drawn(s, axes[_axis_key(s)], step) for s in step.strips if s.law or s.shown] for step in failure.steps]


def _axis_key(strip: Strip) -> tuple[str, str]:
    return ("tokens", strip.of) if strip.what in ("sees", "fetches") else (strip.what, strip.of)


def _drawn(strip: Strip, axis: Axis, step: StepShown) -> Drawn:
    law, shown = _cells(strip, axis, judged=step.diverges and _concerns(strip, step))
    return Drawn(strip, _svg(law, shown, axis), told_marks(shown or ()))


def _axis(strips: Sequence[Strip], ordered: bool) -> Axis:
    """Lay out the columns of all strips that share them."""
    by_token = strips[0].what in ("sees", "fetches") and not ordered
    lines = [ids for strip in strips for ids in (strip.law, strip.must, strip.shown) if ids is not None]
    if by_token:
        keys = sorted({token for ids in lines for token in ids if token > 0})
        keys += [0] if any(token <= 0 for ids in lines for token in ids) else []
    else:
        keys = list(range(max((len(ids) for ids in lines), default=0)))
    keys = keys[:MOST_KEYS]
    runs = _merged(keys, lines, by_token) if len(keys) > DENSE else [(key, key) for key in keys]
    more = sum(last - first + 1 for first, last in runs[MOST_COLUMNS:]) + max((s.more for s in strips), default=0)
    return Axis(tuple(runs[:MOST_COLUMNS]), by_token, more)


def _merged(keys: Sequence[int], lines: Sequence[Ids], by_token: bool) -> list[tuple[int, int]]:
    """Put neighbouring columns together that behave alike in every line."""
    sets = [frozenset(ids) for ids in lines]
    runs: list[tuple[int, int]] = []
    for key in keys:
        if runs and key == runs[-1][1] + 1 and _alike(runs[-1][1], key, lines, sets, by_token):
            runs[-1] = (runs[-1][0], key)
        else:
            runs.append((key, key))
    return runs


def _alike(a: int, b: int, lines: Sequence[Ids], sets: Sequence[frozenset[int]], by_token: bool) -> bool:
    if by_token:
        return all((a in ids) == (b in ids) for ids in sets)
    return all(_next(ids[a], ids[b]) if b < len(ids) else a >= len(ids) for ids in lines)


def _next(one: int, other: int) -> bool:
    return other == one + 1 if one > 0 else other == one


def _svg(law: Cells, shown: Cells, axis: Axis) -> str:
    """Draw one strip: the law's line, if the law says something, above the cache's."""
    lines = [("law", law)] if law is not None else []
    lines += [("cache", shown)] if shown is not None or law is not None else []
    width = LABEL + max(axis.width + (56 if axis.more else 8), 60 if shown is None else 0)
    height = len(lines) * (HEIGHT + GAP) + 2 + (0 if axis.by_token else 13)
    told = "; ".join(f"{name}: {_in_words(cells)}" for name, cells in lines)
    parts = [
        f'<svg class="strip" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(told)}</title>",
    ]
    top = 2
    if not axis.by_token:
        parts += _indices(axis)
        top += 13
    for name, cells in lines:
        parts.append(f'<text class="line" x="0" y="{top + 17}">{name}</text>')
        parts += [f'<text class="quiet" x="{LABEL}" y="{top + 17}">not shown</text>'] if cells is None else []
        parts += _line(cells or (), axis, top)
        if axis.more and cells is not None:
            parts.append(f'<text class="quiet" x="{LABEL + axis.width + 2}" y="{top + 17}">+{axis.more}</text>')
        top += HEIGHT + GAP
    return "".join([*parts, "</svg>"])


def _concerns(strip: Strip, step: StepShown) -> bool:
    """Say whether a strip is of the row or layer in which the step breaks the law."""
    word, _, rest = step.field.partition(" ")
    named = f"{word} {rest.partition(' ')[0]}" if word in ("row", "layer") else ""
    return not named or strip.of in ("", named)


def _cells(strip: Strip, axis: Axis, *, judged: bool) -> tuple[Cells, Cells]:
    law = None if strip.law is None else tuple(_cell(strip.law, run, axis) for run in axis.runs)
    shown = None if strip.shown is None else tuple(_cell(strip.shown, run, axis) for run in axis.runs)
    if law is not None and strip.must is not None:
        must = tuple(_cell(strip.must, run, axis) for run in axis.runs)
        law = tuple(_may(cell) if cell.text and not due.text else cell for cell, due in zip(law, must, strict=True))
    if judged and law is not None and shown is not None:
        marks = tuple(_mark(one, other) for one, other in zip(law, shown, strict=True))
        marks = _twice(strip.shown or (), marks, axis)
        pairs = zip(law, shown, marks, strict=True)
        shown = tuple(Cell(c.text, c.hue, mark, wanted=due.text) if mark else c for due, c, mark in pairs)
    return law, shown


def _twice(shown: Ids, marks: tuple[str, ...], axis: Axis) -> tuple[str, ...]:
    """Mark the tokens that are shown more than once."""
    if not axis.by_token:
        return marks
    more = {token for token, count in Counter(shown).items() if count > 1 and token > 0}
    runs = zip(axis.runs, marks, strict=True)
    return tuple("twice" if any(first <= token <= last for token in more) else mark for (first, last), mark in runs)


def told_marks(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say in words what is wrong in a line of cells."""
    found = {
        mark: ", ".join(c.wanted if mark == "missing" else c.text for c in cells if c.mark == mark) for mark in _WRONG
    }
    return tuple(_WRONG[mark].format(tokens) for mark, tokens in found.items() if tokens)


_WRONG = {
    "missing": "the cache does not show {}, which the law wants",
    "extra": "the cache shows {}, which the law does not allow",
    "other": "the cache shows {} where the law wants another token",
    "twice": "the cache shows {} more than once",
}


def _may(cell: Cell) -> Cell:
    return Cell(cell.text, cell.hue, may=True)


def _mark(law: Cell, shown: Cell) -> str:
    if law.text == shown.text or (law.may and not shown.text):
        return ""
    return "missing" if not shown.text else "extra" if not law.text else "other"


def _cell(ids: Ids, run: tuple[int, int], axis: Axis) -> Cell:
    first, last = run
    if axis.by_token:
        foreign = first == 0 and any(token <= 0 for token in ids)
        there = foreign or (first > 0 and first in ids)
        return _token(0 if foreign else first, 0 if foreign else last) if there else Cell()
    if first >= len(ids):
        return Cell()
    return _token(ids[first], ids[min(last, len(ids) - 1)], slot=True)


def _token(first: int, last: int, *, slot: bool = False) -> Cell:
    if first <= 0:
        return Cell() if slot and first == 0 else Cell("?", None)
    text = f"t{first}" if first == last else f"t{first}–{last}"
    return Cell(text, first * GOLDEN % 360_000 / 1000)


def _indices(axis: Axis) -> list[str]:
    """Write the number of each place above it."""
    parts: list[str] = []
    left = LABEL
    for (first, last), width in zip(axis.runs, axis.widths, strict=True):
        name = str(first) if first == last else f"{first}–{last}"
        parts.append(f'<text class="index" x="{left + width / 2:g}" y="10">{name}</text>')
        left += width + GAP
    return parts


def _line(cells: Sequence[Cell], axis: Axis, top: int) -> list[str]:
    parts: list[str] = []
    left = LABEL
    for cell, width in zip(cells, axis.widths, strict=False):
        parts.append(_drawn_cell(cell, left, top, width))
        left += width + GAP
    return parts


def _drawn_cell(cell: Cell, left: int, top: int, width: int) -> str:
    shape = f'x="{left + 1}" y="{top + 1}" width="{width - 2}" height="{HEIGHT - 2}" rx="4"'
    kinds = ["cell", "may" if cell.may else "", "empty" if not cell.text else "", cell.mark]
    hue = f' style="--h:{cell.hue:.0f}"' if cell.hue is not None else ""
    parts = [f'<rect class="{" ".join(k for k in kinds if k)}"{hue} {shape}/>']
    if cell.text:
        parts.append(f'<text class="token" x="{left + width / 2:g}" y="{top + 17}">{cell.text}</text>')
    elif cell.mark:
        parts.append(f'<text class="wrong" x="{left + width / 2:g}" y="{top + 17}">✗</text>')
    return "".join(parts)


def _in_words(cells: Sequence[Cell] | None) -> str:
    if cells is None:
        return "not looked at yet"
    return ", ".join(cell.told for cell in cells if cell.text or cell.mark) or "nothing"


__all__ = ["Drawn", "draw"]
