"""The meaning of a cache: which token stands at which position, and what a query may see.

This is the definition of the core profile. A row is the list of its tokens by position; there is no ring, no column, no
buffer and no neighbour. Visible = retained, causal, within the window (or a pinned sink). Padding is a count of columns
that bring no token.
"""

from attrs import evolve, field, frozen

from kvlaw.spec.cite import clause


@frozen
class Row:
    """One sequence: the token ids at positions 0, 1, 2, ..., and the position below which tokens may be gone.

    ``floor`` is 0 unless a cache of another design cut positions off a full ring (TRIM-3): then older positions than
    the ring still held may be missing, and may not.
    """

    tokens: tuple[int, ...] = field(default=(), converter=tuple)
    floor: int = 0

    @property
    def offset(self) -> int:
        """The next position."""
        return len(self.tokens)

    @clause("POS-2")
    def appended(self, tokens: tuple[int, ...]) -> "Row":
        """Append tokens at the next positions."""
        return evolve(self, tokens=self.tokens + tokens)

    @clause("TRIM-1", "TRIM-2", "POS-4", "RING-1")
    def trimmed(self, count: int, window: int | None = None) -> "Row":
        """Drop the newest ``count`` positions; what a ring had evicted by then stays gone.

        ``window`` is how many of the newest positions a ring surely holds, without the pinned ones (None: all). What
        takes the place of the dropped ones is new, and so never gone.
        """
        left = self.offset - count
        evicted = 0 if window is None or count == 0 else max(0, self.offset - window)
        return Row(self.tokens[:left], min(max(self.floor, evicted), left))


@frozen
class Padding:
    """The padding of a prefill that is still to come in one row.

    The next ``before`` columns are left padding; ``until`` counts the columns that come before the right padding, those
    included, None if no right padding was announced.
    """

    before: int = 0
    until: int | None = None

    @property
    def pends(self) -> bool:
        """Padding is still to come, or right padding to be taken off."""
        return self.before > 0 or self.until is not None

    @clause("PAD-1", "PAD-2", "PAD-6")
    def real(self, length: int) -> tuple[int, ...]:
        """List which of the next ``length`` columns hold real tokens."""
        end = length if self.until is None else min(length, self.until)
        return tuple(range(min(self.before, end), end))

    def after(self, length: int) -> "Padding":
        """Give what is still to come after ``length`` columns."""
        return Padding(max(0, self.before - length), None if self.until is None else max(0, self.until - length))


@frozen
class Sight:
    """What one query may see: the ids that it must see, and those that it may see, each by position."""

    required: tuple[int, ...]
    allowed: tuple[int, ...]

    def admits(self, seen: tuple[int, ...]) -> bool:
        """Tell whether a query that sees ``seen`` (in any order, each id once) keeps the law."""
        ids = set(seen)
        return len(ids) == len(seen) and set(self.required) <= ids <= set(self.allowed)


@clause("VIS-1", "VIS-2", "VIS-9", "MASK-4", "MASK-8", "MASK-9")
def sees(query: int, key: int, window: int | None, sinks: int = 0) -> bool:
    """Say whether the query at position ``query`` sees the key at position ``key``: the law of visibility."""
    if key < 0 or key > query:
        return False
    if window is None or query < window:
        return True
    return key < sinks or query - key < window - sinks


def sight(row: Row, query: int, window: int | None, sinks: int = 0) -> Sight:
    """List what the query at position ``query`` of ``row`` sees."""
    seen = [p for p in _candidates(query, window, sinks) if sees(query, p, window, sinks)]
    allowed = tuple(row.tokens[p] for p in seen)
    if row.floor == 0:
        return Sight(allowed, allowed)
    required = tuple(row.tokens[p] for p in seen if p >= row.floor or p < sinks)
    return Sight(required, allowed)


def _candidates(query: int, window: int | None, sinks: int) -> list[int]:
    """List the positions worth asking about, in order: the pinned ones and those nearer than the window."""
    nearest = 0 if window is None else max(0, query - window + 1)
    return [*range(min(sinks, nearest)), *range(nearest, query + 1)]
