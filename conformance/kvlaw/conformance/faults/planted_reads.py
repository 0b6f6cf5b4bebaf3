"""Faults of reads and dense fetches (READ)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.planted_ring import AnyPlan
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.observations import Bits


@fault("one-token-window-decodes", breaks="READ-1", profile="layout", trace="ring window=2 ; window 2 ; window 1")
class OneTokenWindowDecodes(Cache):
    """A window of one token is written in place, as the length decides and not the name."""

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        return super().plan("decode" if length == 1 else phase, length)


@fault("forgets-its-mask", breaks="READ-2", trace="full ; window 2 as r ; attend r")
class ForgetsItsMask(Read):
    """A read lets its mask go once it was attended."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        output = super().attend(queries, scale)
        object.__setattr__(self, "mask", None)
        return output


@fault("drops-the-last-block", breaks="READ-3", trace="full ; window 4 ; decode")
class DropsTheLastBlock(Read):
    """Attention goes over blocks of four columns and drops the last one when it is not whole."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        width = self.keys.shape[2]
        whole = width - width % 4
        if self.mask is not None or whole in (0, width):
            return super().attend(queries, scale)
        kept = Read(self.keys[:, :, :whole], self.values[:, :, :whole], None, self.length, self.dtype)
        return kept.attend(queries, scale)


@fault("interleaves-heads", breaks="READ-4", trace="full ; decode")
class InterleavesHeads(Read):
    """Query head h reads KV head h mod Hkv instead of h divided by the group size."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        heads, kv = queries.shape[1], self.keys.shape[1]
        order = [head for turn in range(kv) for head in range(turn, heads, kv)]
        return super().attend(queries[:, order], scale)[:, [order.index(head) for head in range(heads)]]


@fault("writes-when-read", breaks="READ-5", trace="full ; window 2 unread ; decode")
class WritesWhenRead(ReferenceAdapter):
    """The columns of an append are written when its read is first shown; an unread append leaves zeros."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        written, held = cache.planes, cache.planes.each(np.copy)
        start = cache.write_index - read.length
        held.keys[:, :, start : start + read.length] = 0
        held.values[:, :, start : start + read.length] = 0
        cache.planes = held
        self.late = (read, cache, held, written)
        return read

    def fetched(self, read: Read) -> tuple[Any, Any] | None:
        late, cache, held, written = self.late
        if read is late and cache.planes is held:
            cache.planes = written
        return super().fetched(read)


@fault("dense-newest-w", breaks="READ-6", trace="ring window=2 ; window 2 ; dense 2")
class DenseNewestW(Cache):
    """A dense fetch of several positions is cut to the newest W, too few for its first query."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        fetch = super().fetch_dense(keys, values, dtype)
        return fetch.each(lambda plane: plane[:, :, -(self.layer.window or self.offset) :])


@fault("dense-in-temporal-order", breaks="READ-7", profile="layout", trace="ring window=2 ; window 2 ; dense 1")
class DenseInTemporalOrder(Cache):
    """A dense fetch of a rotated ring comes oldest first, the read of it in physical order."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        fetch = super().fetch_dense(keys, values, dtype)
        rotated = isinstance(self.state, index.Ring) and self.state.rotated
        return (
            fetch.kept(index.temporal_columns(self.state)) if rotated and isinstance(self.state, index.Ring) else fetch
        )


@fault("dense-always-a-window", breaks="READ-8", profile="layout", trace="ring window=2 ; window 2 ; dense 1")
class DenseAlwaysAWindow(Cache):
    """A dense fetch of one position concatenates, as a window does."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        read = self.append_window(keys, values, dtype)
        return Planes(read.keys, read.values)


@fault("takes-any-query", breaks="READ-9", profile="layout", trace="full ; decode as r ; attend r malformed=dtype")
class TakesAnyQuery(Read):
    """Queries of another dtype are cast without a word."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        return super().attend(queries.astype(self.keys.dtype), scale)


@fault(
    "unread-decode-does-not-turn",
    breaks="READ-5",
    trace="ring window=2 ; window 2 ; decode unread ; decode",
)
class UnreadDecodeDoesNotTurn(ReferenceAdapter):
    """The write index of a ring moves on when the read is shown, so an unread decode is written over."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        before = cache.state
        read = super().append(cache, keys, values, phase, window, array)
        self.late = (read, cache, cache.state)
        if phase == "decode" and isinstance(before, index.Ring) and index.active(before) >= before.window:
            cache.state = evolve(cache.state, write_index=before.write_index, rotated=before.rotated)
        return read

    def fetched(self, read: Read) -> tuple[Any, Any] | None:
        late, cache, state = self.late
        if read is late:
            cache.state = state
        return super().fetched(read)


@fault("fetches-when-asked", breaks="OWN-1", trace="ring window=2 look=last ; window 2 ; decode", report="B67")
class FetchesWhenAsked(ReferenceAdapter):
    """A read fetches from its cache when it is first asked, not when it was made."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        self.owners = {**getattr(self, "owners", {}), id(read): (read, cache)}
        return read

    def fetched(self, read: Read) -> tuple[Any, Any] | None:
        _, cache = self.owners.pop(id(read), (read, None))
        if cache is not None and cache.planes.keys.shape[2] >= read.keys.shape[2]:
            width = read.keys.shape[2]
            object.__setattr__(read, "keys", cache.planes.keys[:, :, :width].copy())
            object.__setattr__(read, "values", cache.planes.values[:, :, :width].copy())
        return super().fetched(read)


@fault("attends-for-row-0", breaks="READ-3", trace="full batch=2 ; decode", report="B58")
class AttendsForRow0(Read):
    """Attention is worked out for the first row and handed to all."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        output = super().attend(queries, scale)
        return np.repeat(output[:1], len(output), 0)
