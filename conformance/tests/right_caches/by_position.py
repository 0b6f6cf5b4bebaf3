# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""Right rings with mlx-lm's duck type that keep a book of positions; each chooses another layout, mask or trim.

A column is fetched by its position, so every layout is a list of positions, and a mask is the law asked of that list.
"""

import copy

import numpy as np


def sees(query, key, window, sinks):
    """The law of visibility, in the words of whoever wrote these caches."""
    near = (query - key < window - sinks) | (query < window) | (key < sinks)
    return (key <= query) & near & (key >= 0)


class Book:
    """Keeps the sinks and the newest others; temporal order; compact masks; a trim past the window raises."""

    spare = 0

    def __init__(self, window, sinks=0):
        if not (window >= 1 and 0 <= sinks < window):
            raise ValueError("no such ring")
        self.window, self.sinks = window, sinks
        self.reset()

    def reset(self):
        self.offset, self.book = 0, {}

    def clone(self):
        return copy.deepcopy(self)

    @property
    def nbytes(self):
        return sum(k.nbytes + v.nbytes for k, v in self.book.values())

    # What is fetched.

    def order(self, new):
        return [*sorted(self.book), *range(self.offset, self.offset + new)]

    def forget(self):
        if self.offset > self.window:
            first = self.offset - (self.window - self.sinks) - self.spare
            self.book = {p: kv for p, kv in self.book.items() if p < self.sinks or p >= first}

    def check(self, keys, values):
        if keys.ndim != 4 or values.ndim != 4 or keys.shape[:3] != values.shape[:3] or keys.shape[2] < 1:
            raise ValueError("no keys and values")
        if self.book:
            key, value = next(iter(self.book.values()))
            same = (keys.shape[0], keys.shape[1], keys.shape[3]) == key.shape and values.shape[3] == value.shape[2]
            if not same or keys.dtype != key.dtype or values.dtype != value.dtype:
                raise ValueError("another shape or dtype")

    def update_and_fetch(self, keys, values):
        self.check(keys, values)
        new = keys.shape[2]
        order = self.order(new)
        for i in range(new):
            self.book[self.offset + i] = (keys[:, :, i].copy(), values[:, :, i].copy())
        self.offset += new
        fetched = tuple(np.stack([self.book[p][side] for p in order], 2) for side in (0, 1))
        self.forget()
        return fetched

    # What is seen of it.

    def make_mask(self, N, window_size=None, return_array=False):
        window = self.window if window_size is None else min(window_size, self.window)
        if N < 1 or window < 1 or (self.sinks and window < self.window):
            raise ValueError("no such mask")
        order = np.array(self.order(N))
        seen = sees(self.offset + np.arange(N)[:, None], order[None], window, self.sinks)
        return self.form(seen, N, return_array)

    def form(self, seen, new, array):
        width = seen.shape[1]
        if not array and seen.all():
            return None
        causal = np.arange(width) <= np.arange(width - new, width)[:, None]
        return "causal" if not array and (seen == causal).all() else seen

    # What can be taken back.

    def most(self):
        """How many positions can be dropped."""
        return self.offset if self.offset < self.window else 0

    def can_trim(self, n):
        return 0 <= n <= self.most()

    def drop(self, n):
        self.offset -= n
        self.book = {p: kv for p, kv in self.book.items() if p < self.offset}
        return n

    def trim(self, n):
        if not self.can_trim(n):
            raise ValueError("cannot trim so many")
        return self.drop(n)


class Rolling(Book):
    """Temporal order always; every mask is ``[1, 1, L, S]``."""

    def form(self, seen, new, array):
        return seen[None, None]


class Wide(Book):
    """Keeps W columns more than it needs, in the fetch of decodes as well, and hides them; cuts what it can exactly."""

    def forget(self):
        self.spare = self.window
        super().forget()

    def most(self):
        return self.offset if self.offset < self.window else min(self.offset, self.window)


class Compacting(Book):
    """Stores all up to W + 256 columns, then keeps W; fetches all of them; masks are ``[L, S]`` arrays always."""

    def forget(self):
        if len(self.book) > self.window + 256:
            super().forget()

    def form(self, seen, new, array):
        return seen


class Cutting(Book):
    """Keeps just W; a trim past the window cuts exactly, as far as positions are held, and says so beforehand."""

    def most(self):
        held = [p for p in self.book if p >= self.sinks]
        return self.offset if self.offset < self.window else len(held)


class Clamping(Cutting):
    """Answers what it dropped, never raises."""

    def trim(self, n):
        return self.drop(max(0, min(n, self.most())))


class AllOrWindow(Book):
    """Answers 0 where it cannot, says no to every trim past the window, and never raises in a trim."""

    def trim(self, n):
        return self.drop(n) if self.can_trim(n) else 0


class Promising(Wide):
    """Past the window it trims 2 positions at most, though it could do more, and answers 0 otherwise."""

    def most(self):
        return self.offset if self.offset < self.window else min(2, super().most())

    def trim(self, n):
        return self.drop(n) if self.can_trim(n) else 0


class FullMasks(Book):
    """Every mask is a whole ``[B, H, L, S]``; rows and heads are those of the last append, one before the first."""

    def form(self, seen, new, array):
        rows = next(iter(self.book.values()))[0].shape[0] if self.book else 1
        return np.broadcast_to(seen, (rows, 1, *seen.shape)).copy()


class NeverCausal(Book):
    """Knows no compact form but None for decodes."""

    def form(self, seen, new, array):
        return None if new == 1 and seen.all() and not array else seen[None]


class Additive(Book):
    """Gives float masks: 0 and minus infinity."""

    def form(self, seen, new, array):
        return np.where(seen, 0.0, -np.inf).astype(np.float32)


class NewestFirst(Book):
    """Lists its columns newest first, with the masks for that."""

    def order(self, new):
        return super().order(new)[::-1]


class Shuffled(Book):
    """Lists its columns in no useful order."""

    def order(self, new):
        return sorted(super().order(new), key=lambda p: (p * 7919) % 101)


class SinksLast(Book):
    """Lists the sinks behind everything else."""

    def order(self, new):
        line = super().order(new)
        return [*(p for p in line if p >= self.sinks), *(p for p in line if p < self.sinks)]


class Tight(Book):
    """Fetches nothing that no query sees: a decode past the window has W columns and no mask."""

    def order(self, new):
        queries = self.offset + np.arange(new)
        return [p for p in super().order(new) if sees(queries, p, self.window, self.sinks).any()]


class Casting(Book):
    """Casts a foreign dtype to its own, and takes the heads that it has of too many."""

    def check(self, keys, values):
        if self.book:
            key, value = next(iter(self.book.values()))
            keys, values = keys[:, : key.shape[1]], values[:, : value.shape[1]]
            keys, values = keys.astype(key.dtype), values.astype(value.dtype)
        super().check(keys, values)
        return keys, values

    def update_and_fetch(self, keys, values):
        return super().update_and_fetch(*self.check(keys, values))


class Pinning(Book):
    """Builds a ring whose sinks fill the window: there every query sees the sinks and itself."""

    def __init__(self, window, sinks=0):
        self.window, self.sinks = max(window, sinks + 1), sinks
        self.reset()


RINGS = (
    Book,
    Rolling,
    Wide,
    Compacting,
    Cutting,
    Clamping,
    AllOrWindow,
    Promising,
    FullMasks,
    NeverCausal,
    Additive,
    NewestFirst,
    Shuffled,
    SinksLast,
    Tight,
    Casting,
    Pinning,
)
