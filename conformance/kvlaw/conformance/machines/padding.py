"""How a prefill of prompts of very different length is padded and cut into chunks."""

from itertools import pairwise

from attrs import evolve, frozen
from hypothesis import strategies as st

Counts = tuple[int, ...]
_ADDITIONS = (0, 0, 0, 1, 2)
"""Columns that are padding for every row, behind or before all prompts."""


@frozen
class Padded:
    """Prompts as one block of columns: their lengths, what is padded before and behind each, and the chunks."""

    prompts: Counts
    left: Counts
    right: Counts
    chunks: Counts

    @property
    def lengths(self) -> Counts:
        """Columns before the right padding of each row."""
        return tuple(b + p for b, p in zip(self.left, self.prompts, strict=True))

    def done(self, columns: int) -> Counts:
        """List the rows whose prompt ends within so many columns."""
        return tuple(b for b, end in enumerate(self.lengths) if end <= columns)

    def kept(self, rows: Counts) -> "Padded":
        """Keep some of the rows."""
        prompts, left, right = (tuple(c[b] for b in rows) for c in (self.prompts, self.left, self.right))
        return evolve(self, prompts=prompts, left=left, right=right)


def prompt_lengths(window: int | None) -> list[int]:
    """List the lengths of prompts that matter: none, tiny ones, around the window and past it."""
    return [0, 1, 2, 3, 7] if window is None else sorted({0, 1, 2, window - 1, window, window + 1, 2 * window + 1})


@st.composite
def padded(draw: st.DrawFn, count: int, window: int | None, *, left: bool) -> Padded:
    """Draw one padded prefill for ``count`` rows; ``left`` says whether padding may stand before the prompts."""
    prompts = tuple(draw(st.sampled_from(prompt_lengths(window))) for _ in range(count))
    side = draw(st.sampled_from(("right", "right", "right", "left", "both") if left else ("right",)))
    total = max((*prompts, 1)) + draw(st.sampled_from(_ADDITIONS))
    gaps = tuple(total - p for p in prompts)
    before = {
        "right": (0,) * count,
        "left": gaps,
        "both": tuple(draw(st.integers(0, gap)) for gap in gaps),
    }[side]
    behind = tuple(gap - b for gap, b in zip(gaps, before, strict=True))
    return Padded(prompts, before, behind, draw(chunked(total)))


@st.composite
def chunked(draw: st.DrawFn, total: int) -> Counts:
    """Cut so many columns into chunks: one, chunks of a length and a rest, single columns, or at random."""
    style = draw(st.sampled_from(("whole", "even", "single", "random")))
    if style == "single" and total <= 6:
        return (1,) * total
    if style == "even":
        size = draw(st.integers(1, max(1, total // 2)))
        size = max(size, -(-total // 6))  # six chunks at most
        return (*(size,) * (total // size), *((total % size,) if total % size else ()))
    if style == "random":
        cuts = sorted({0, total, *draw(st.lists(st.integers(0, total), max_size=3))})
        return tuple(b - a for a, b in pairwise(cuts))
    return (total,)
