"""Calls on groups of rows, carried out through an adapter: one observation per call, with one of each row."""

from typing import Any

from attrs import evolve, frozen

from kvlaw.conformance.adapter_world import Giver, HeldArrays, HeldGroup, HeldList, HeldRead, phase_of, take_round
from kvlaw.conformance.interface import Adapter, NonsenseError, UnsupportedError
from kvlaw.conformance.views import Views, count, pair, row_of_mask
from kvlaw.spec.calls import (
    Advance,
    Append,
    BeginPrefill,
    BeginRound,
    Call,
    Clone,
    CommitPrefill,
    CommitRound,
    EndPrefill,
    Extract,
    FetchDense,
    Filter,
    Finalize,
    HandBack,
    LookAt,
    MakeMask,
    Merge,
    Prepare,
    Reset,
    RollBack,
    TakeState,
    Trim,
)
from kvlaw.spec.observations import Observation, Payload, ReadView


@frozen(eq=False)
class GroupCalls:
    """Carries out calls on groups; what they make goes into the adapter's world."""

    adapter: Adapter
    views: Views
    giver: Giver
    world: dict[str, Any]

    def shown(self, group: Any, look: bool) -> Observation:
        """Show a group, if it is to be looked at."""
        return self.views.group(group, ()) if look else Observation()

    def merged(self, call: Merge, look: bool) -> Observation:
        """Make a group of caches and groups."""
        sources: list[Any] = []
        for name in call.sources:
            source = self.world.get(name)
            if source is None or isinstance(source, HeldRead | HeldArrays | HeldList):
                raise NonsenseError(f"{name!r} is no cache and no group in the target's world")
            sources.append(source.group if isinstance(source, HeldGroup) else source)
        self.world[call.as_] = held = HeldGroup(self.adapter.merge(sources))
        return self.shown(held.group, look)

    def call(self, group: Any, call: Call, payload: Payload, look: bool) -> Observation:
        """Carry out one call on a group."""
        match call:
            case Append():
                return self._append_rows(group, call, payload, look)
            case Advance():
                return self._advance_rows(group, call, payload, look)
            case FetchDense():
                return self._dense_rows(group, call, payload, look)
            case MakeMask():
                return self._mask_rows(group, call, look)
            case Trim():
                answer = self.adapter.trim(group, call.n, call.bypass)
                return evolve(self.shown(group, look), answer=count(answer)) if type(call.n) is int else Observation()
            case Extract() | HandBack():
                make = self.adapter.extract if isinstance(call, Extract) else self.adapter.hand_back
                self.world[call.as_] = cache = make(group, call.row)
                return Observation(state=self.views.state(cache) if look else None)
            case Clone():
                self.world[call.as_] = twin = HeldGroup(self.adapter.clone(group))
                return self.shown(twin.group, look)
            case TakeState():
                self.world[call.as_] = held = HeldArrays(dict(self.adapter.state(group)))
                arrays = self.views.arrays(held.arrays) if look else None
                return evolve(self.shown(group, look), arrays=arrays)
            case _:
                self._change_group(group, call)
                return self.shown(group, look)

    def _change_group(self, group: Any, call: Call) -> None:
        match call:
            case Filter():
                self.adapter.filter(group, call.rows)
            case Prepare():
                self.adapter.prepare(group, call.left, call.lengths, call.right)
            case Finalize():
                self.adapter.finalize(group)
            case BeginPrefill():
                self.adapter.begin_prefill(group)
            case CommitPrefill():
                self.adapter.commit_prefill(group, call.rows)
            case EndPrefill():
                self.adapter.end_prefill(group)
            case Reset():
                self.adapter.reset(group)
            case BeginRound() | CommitRound() | RollBack():
                take_round(call, group, self.adapter.begin_round, self.adapter.commit_round, self.adapter.roll_back)
            case LookAt():
                pass
            case _:
                raise UnsupportedError(f"a group cannot be asked to {call.verb}")

    def _append_rows(self, group: Any, call: Append, payload: Payload, look: bool) -> Observation:
        keys, values = self.giver.tensors(payload)
        read = self.adapter.append(group, keys, values, phase_of(call), call.window, call.array)
        self.giver.spend(keys, values)
        known = call.verb == "known"
        if call.as_:
            self.world[call.as_] = HeldRead((read,), payload, known=known, grouped=True)
        if not look:
            return Observation()
        if call.malformed is not None:
            return self.shown(group, look)
        reads = () if call.unread else self.views.row_reads(read, payload, known)
        return self.views.group(group, reads)

    def _advance_rows(self, group: Any, call: Advance, payload: Payload, look: bool) -> Observation:
        step = self.giver.step(payload)
        outputs = self.adapter.advance(group, step)
        self.giver.spend_step(step)
        if not look or call.malformed is not None:
            return self.shown(group, look)
        whole = self.views.outputs(outputs).outputs
        rows = payload.step["values"].shape[0]
        if whole is None or whole.shape[0] != rows:
            raise NonsenseError(f"the outputs have not {rows} rows")
        return self.views.group(group, [ReadView(outputs=whole[b : b + 1]) for b in range(rows)])

    def _dense_rows(self, group: Any, call: FetchDense, payload: Payload, look: bool) -> Observation:
        keys, values = self.giver.tensors(payload)
        handed = pair(self.adapter.fetch_dense(group, keys, values))
        self.giver.spend(keys, values)
        arrays: dict[str, Any] = {"keys": handed[0], "values": handed[1]}
        if call.as_:
            self.world[call.as_] = HeldArrays(arrays)
        if not look:
            return Observation()
        if call.malformed is not None:
            return self.shown(group, look)
        copies = {name: self.views.tensor(f"the fetched {name}", array) for name, array in arrays.items()}
        rows = payload.keys.shape[0]
        if any(copy.ndim != 4 or copy.shape[0] != rows for copy in copies.values()):  # [B, H, S, D]
            raise NonsenseError(f"the dense fetch has not {rows} rows")
        reads = [ReadView(copies["keys"][b : b + 1], copies["values"][b : b + 1]) for b in range(rows)]
        return evolve(self.views.group(group, reads), arrays=copies)

    def _mask_rows(self, group: Any, call: MakeMask, look: bool) -> Observation:
        mask = self.adapter.mask(group, call.length, call.phase, call.window, call.array)
        if call.as_:
            arrays = {} if mask is None or isinstance(mask, str) else {"mask": mask}
            self.world[call.as_] = HeldArrays(arrays, masks=True)
        if not look:
            return Observation()
        view, shown = self.views.mask(mask), self.shown(group, look)
        masks = (row_of_mask(view, b, len(shown.rows)) for b in range(len(shown.rows)))
        rows = tuple(evolve(row, mask=part) for row, part in zip(shown.rows, masks, strict=True))
        return evolve(shown, rows=rows, mask=view)
