# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""The right caches with one subtle fault each; ``FAULTS`` names the clauses of which the suite must charge one."""

import copy

import numpy as np
from by_array import Doubling, Exact, InPlace, Paged
from by_position import (
    AllOrWindow,
    Casting,
    Clamping,
    Compacting,
    Cutting,
    FullMasks,
    NewestFirst,
    Rolling,
    SinksLast,
    Tight,
    Wide,
)
from with_reads import FetchesOnly, Holey, Named, NoMask, OutputsOnly, Read


class ReversedMaskIsOneLate(NewestFirst):
    """Past the window the mask of a reversed fetch shows one column too many."""

    def form(self, seen, new, array):
        late = np.concatenate([seen[:, :1], seen[:, :-1]], 1) | seen
        return super().form(late if self.offset > self.window else seen, new, array)


class ForgetsOneWithSinks(Rolling):
    """Counts the sinks twice when it forgets: one position too few is held."""

    def forget(self):
        self.spare = -2 if self.sinks else 0
        super().forget()


class KeepsWhatWasTrimmed(Wide):
    """A trim past the window lowers the offset and leaves the columns."""

    def drop(self, n):
        if self.offset >= self.window:
            self.offset -= n
            return n
        return super().drop(n)


class LosesWhatItWroteAnew(Wide):
    """Loses the position that was written first after a cut, if that is position 6 of a ring of 4."""

    def forget(self):
        super().forget()
        if self.offset == 7 and self.window == 4:
            del self.book[6]


class CompactsOneTooFew(Compacting):
    """Keeps one position too few when 256 columns have gathered."""

    spare = -2


class DropsOneLess(Cutting):
    """Past the window it answers n and drops one less."""

    def drop(self, n):
        super().drop(max(0, n - 1) if self.offset > self.window else n)
        return n


class AnswersWhatWasAsked(Clamping):
    """Clamps a trim, and answers what was asked for."""

    def trim(self, n):
        super().trim(n)
        return n


class SaysZeroAndDrops(AllOrWindow):
    """Past the window a trim answers 0, and the offset goes down all the same."""

    def trim(self, n):
        answer = super().trim(n)
        if not answer and 0 < n <= self.offset and self.offset >= self.window:
            self.offset -= n
            self.book = {p: kv for p, kv in self.book.items() if p < self.offset}
        return answer


class LastRowSeesLess(FullMasks):
    """The mask of the last row is one column short once the ring is full."""

    def form(self, seen, new, array):
        mask = super().form(seen, new, array)
        if len(mask) > 1 and self.offset >= self.window > 1:
            mask[-1, :, :, np.flatnonzero(seen.any(0))[0]] = False
        return mask


class SinksCountTwice(SinksLast):
    """A decode past the window sees one position too few, since a sink counts as near."""

    def form(self, seen, new, array):
        if self.sinks and self.offset > self.window and seen[-1, : -self.sinks].sum() > 1:
            seen[-1, np.flatnonzero(seen[-1])[0]] = False
        return super().form(seen, new, array)


class SharesItsMask(Tight):
    """Builds array masks in one buffer, which the next mask overwrites."""

    buffer = np.zeros((600, 900), bool)

    def form(self, seen, new, array):
        mask = super().form(seen, new, array)
        if mask is None or isinstance(mask, str):
            return mask
        view = self.buffer[: mask.shape[0], : mask.shape[1]]
        view[...] = mask
        return view


class RefusesTooLate(Casting):
    """Refuses tensors of other lengths after it has moved the offset."""

    def check(self, keys, values):
        try:
            return super().check(keys, values)
        except ValueError:
            self.offset += 1
            raise


class LeavesTrimmedColumns(InPlace):
    """A trim of a full ring leaves the trimmed columns visible."""

    def trim(self, n):
        full, positions = self.offset == self.window, self.positions.copy()
        answer = super().trim(n)
        if full and n:
            self.positions = np.where(positions >= self.offset, 0, positions)
        return answer


class GrowsOneShort(Doubling):
    """Loses the newest position when it grows."""

    def update_and_fetch(self, keys, values):
        size = self.buffers[0].shape[2] if self.buffers else 0
        if self.buffers and self.offset + keys.shape[2] > size:
            self.buffers[1][:, :, self.offset - 1] = 0
        return super().update_and_fetch(keys, values)


class ClonesShareAPage(Paged):
    """Does not copy a page that a clone shares."""

    def update_and_fetch(self, keys, values):
        shared = list(self.pages)
        fetched = super().update_and_fetch(keys, values)
        for old, new in zip(shared, self.pages, strict=False):
            for plane, written in zip(old, new, strict=True):
                plane[...] = written
        return fetched


class TrimsAllForNone(Exact):
    """Slices by ``[:-n]``, so that a trim of 0 leaves nothing."""

    def trim(self, n):
        if n == 0:
            self.planes = None
        return super().trim(n)


class ReadsTooWide(OutputsOnly):
    """Attends one position too many past the window; only outputs tell."""

    def append(self, cache, keys, values, phase, window, array):
        past = sorted(cache.book)
        read = super().append(cache, keys, values, phase, window, array)
        if len(past) > 1 and cache.offset > cache.window and phase == "decode" and not cache.sinks and window is None:
            mask = np.ones((1, read.keys.shape[2]), bool)
            return Read(read.keys, read.values, mask)
        return read


class SwapsTwoValues(OutputsOnly):
    """Past the window the oldest two values change places; only outputs tell."""

    def append(self, cache, keys, values, phase, window, array):
        read = super().append(cache, keys, values, phase, window, array)
        if cache.offset > cache.window and read.values.shape[2] > 2:
            read.values = read.values[:, :, [1, 0, *range(2, read.values.shape[2])]]
        return read


class ReadsAnotherHead(OutputsOnly):
    """Query head h reads KV head h % Hkv; only outputs tell."""

    def attend(self, read, queries, scale):
        heads, own = queries.shape[1], read.keys.shape[1]
        order = [h for g in range(own) for h in range(g, heads, own)]
        out = read.attend(queries[:, order], scale=scale)
        return out[:, np.argsort(order)]


class ReadsLater(OutputsOnly):
    """A read attends what the cache holds when it is asked; only outputs tell."""

    def append(self, cache, keys, values, phase, window, array):
        read = super().append(cache, keys, values, phase, window, array)
        read.cache, read.at = cache, cache.offset
        return read

    def attend(self, read, queries, scale):
        late = copy.copy(read)
        newest = sorted(read.cache.book)[-1:]
        if read.cache.offset > read.at and newest:
            late.values = read.values.copy()
            late.values[:, :, -1] = read.cache.book[newest[0]][1]
        return late.attend(queries, scale=scale)


class SeesTheFuture(NoMask):
    """The first query of a window append sees the second; its mask is not shown."""

    def append(self, cache, keys, values, phase, window, array):
        read = super().append(cache, keys, values, phase, window, array)
        if isinstance(read.mask, np.ndarray) and len(read.mask) > 1:
            read.mask[0] |= read.mask[1]
        return read


class FetchesTooMuch(FetchesOnly):
    """Past the window a decode fetches one column too many."""

    class cache(FetchesOnly.cache):  # noqa: N801  # stands for the attribute
        spare = 1

        def order(self, new):
            line = super(FetchesOnly.cache, self).order(new)
            return line if new == 1 else super().order(new)


class ShowsADeadColumn(Holey):
    """After a trim the mask of a decode shows one dead column."""

    def append_decode(self, keys, values, *, window=None, as_array=False):
        read = super().append_decode(keys, values, window=window, as_array=as_array)
        if self.gone:
            read.mask[0, 3 if read.mask.shape[1] > 5 else 0] = True
        return read


class WindowOfOneSeesMore(Named):
    """A window append of one position does not narrow what a decode narrows."""

    def append_window(self, keys, values, *, window=None, as_array=False):
        read = super().append_window(keys, values, window=window, as_array=as_array)
        if keys.shape[2] == 1:
            read.mask = np.ones_like(read.mask)
        return read


FAULTS = {
    ReversedMaskIsOneLate: {"VIS-1", "VIS-2", "MASK-8", "MASK-9", "MASK-11", "RING-10", "VIS-9"},
    ForgetsOneWithSinks: {"GROW-6", "VIS-9", "RING-1", "RING-12"},
    KeepsWhatWasTrimmed: {"VIS-3", "TRIM-8", "READ-6"},
    CompactsOneTooFew: {"GROW-6", "RING-1", "VIS-1", "VIS-2", "READ-6", "RING-11", "VIS-9"},
    DropsOneLess: {"TRIM-3", "TRIM-4", "TRIM-5", "POS-4"},
    AnswersWhatWasAsked: {"TRIM-3", "TRIM-9"},
    SaysZeroAndDrops: {"TRIM-3", "TRIM-4"},
    LastRowSeesLess: {"VIS-10", "VIS-1", "VIS-2", "RING-1"},
    SinksCountTwice: {"VIS-9", "RING-1", "RING-12"},
    SharesItsMask: {"OWN-6"},
    RefusesTooLate: {"ERR-1"},
    LeavesTrimmedColumns: {"TRIM-8", "TRIM-2", "VIS-3", "READ-6"},
    GrowsOneShort: {"GROW-2", "VIS-6", "READ-6"},
    ClonesShareAPage: {"OWN-3"},
    TrimsAllForNone: {"TRIM-10"},
    ReadsTooWide: {"READ-3"},
    SwapsTwoValues: {"READ-3"},
    ReadsAnotherHead: {"READ-4"},
    ReadsLater: {"OWN-1"},
    SeesTheFuture: {"READ-3"},
    FetchesTooMuch: {"VIS-1", "RING-10"},
    ShowsADeadColumn: {"VIS-4", "TRIM-8"},
    WindowOfOneSeesMore: {"VIS-8", "VIS-2"},
}
