"""What a cache, or a list of layers, shows after a call: its numbers and its columns, and the clauses that ask.

``States`` is bound to one configuration and profile. In ``core`` only what every design owes is expected: the offset
and bounds on the bytes.
"""

from attrs import evolve, frozen

from kvlaw.reference.citations import offset_clauses, policy_clauses
from kvlaw.reference.expectation import Expected
from kvlaw.reference.index import Full, can_trim
from kvlaw.reference.model import Model
from kvlaw.reference.world import Layers, Profile
from kvlaw.spec.calls import Call
from kvlaw.spec.cite import clause
from kvlaw.spec.config import Config

_KEPT = ("offset", "held", "write_index", "columns", "round")
"""The fields that a refused call is first seen to have changed."""
_POLICY_ACTS = {
    "compiled": ("DEC-8",),
    "clone": ("PREC-14",),
    "look": ("PREC-14",),
    "trim": ("PREC-6",),
    "reset": ("PREC-6",),
}
"""What the storage rests on after calls that must not change it, or make it what it was; a look: where others act."""


@frozen
class States:
    """Expected states, for one configuration and profile."""

    config: Config
    profile: Profile

    @clause("POS-5", "POS-6", "ID-1", "ID-2", "ID-3", "ID-4")
    def after(self, model: Model, call: Call | None, held: tuple[str, ...] = ()) -> tuple[Expected, ...]:
        """Give what a cache shows after ``call`` (None: its opening) was carried out; ``held`` cites its layout."""
        cited = offset_clauses(model, call)
        if call is not None and call.verb == "trim":
            cited = (*held, *cited) if "TRIM-10" in held else (*cited, *held)
        offset = Expected("offset", model.offset, cited)
        if model.lenient:
            return (offset,)
        context = ("OWN-7",) if call is not None and call.verb == "reset" else ()
        state = [offset, *self._bytes(model, context), *self._policy(model, call)]
        if self.profile == "core":
            return tuple(state)
        able = model.round is None
        flags = tuple(able and can_trim(model.state, n) for n in range(model.offset + 2))
        state += [
            Expected("size", model.live, (*context, "POS-6")),
            self._identity(model, call),
            *([] if model.layer.bits else [Expected("storage", "dense", ("ID-4",))]),
            Expected("can_trim", flags, (*(() if able else ("ROUND-9",)), "TRIM-6")),
            Expected("round", "none" if able else "open", ("ROUND-16",)),
        ]
        return tuple(state + self._columns(model, call, held))

    def unchanged(self, model: Model, cited: tuple[str, ...]) -> tuple[Expected, ...]:
        """Give what a cache shows after a call that changed nothing: what it showed before."""
        return tuple(evolve(e, clauses=cited) if e.field in _KEPT else e for e in self.after(model, None))

    @clause("POS-7", "TRIM-14", "PREC-15")
    def of_list(self, layers: Layers, charged: tuple[str, ...] = ()) -> tuple[Expected, ...]:
        """Give what a list of layers shows after a call that was charged with these clauses."""
        acted = tuple(c for c in charged if c in ("ERR-8", "TRIM-13"))
        bounds = [m.max_append for m in layers.models if m.max_append != "unbounded"]
        coded = any(m.layer.bits for m in layers.models)
        return (
            Expected("offset", layers.offset, (*acted, "POS-7")),
            Expected("layers_can_trim", None, ("TRIM-14",)),
            *([Expected("max_append", min(bounds, default="unbounded"), ("PREC-15",))] if coded else []),
        )

    def layout_only(self, *expected: Expected) -> tuple[Expected, ...]:
        """Keep these in the layout profile, none in core."""
        return expected if self.profile == "layout" else ()

    @clause("PREC-9")
    def kept_columns(self, after: Model, columns: int | None) -> tuple[Expected, ...]:
        """Give what a cache shows that converted and had room for the append in the ``columns`` that it showed before.

        A growing one has as many columns as before, and every spare column has become the codes of what stood in it.
        """
        if columns is None or not after.past.converted:
            return ()
        if not isinstance(after.state, Full):
            spare = tuple(c for c, token in enumerate(after.slots) if not token)
            return self.layout_only(Expected("spare", spare, ("PREC-9",))) if columns == len(after.slots) else ()
        if after.offset > columns:
            return ()
        spare = tuple(range(after.offset, columns))
        return self.layout_only(Expected("columns", columns, ("PREC-9",)), Expected("spare", spare, ("PREC-9",)))

    @staticmethod
    def _identity(model: Model, call: Call | None) -> Expected:
        policy = ("PREC-12",) if model.layer.bits else ()
        return Expected(
            "identity", model.layer.identity, (*policy, *(("ID-1", "ID-3") if call is None else ("ID-2", "ID-1")))
        )

    @clause("PREC-1", "PREC-2", "PREC-3", "PREC-5", "PREC-6", "PREC-10", "PREC-11", "PREC-14", "ROUND-11")
    def _policy(self, model: Model, call: Call | None) -> list[Expected]:
        """Give what a cache with a storage policy shows of it."""
        if model.layer.bits is None:
            return []
        acted = _POLICY_ACTS.get(call.verb, ()) if call else ()
        acted = () if acted == ("PREC-14",) and not model.past.related else acted
        acted = () if acted == ("DEC-8",) and model.layer.policy != "bf16_first" else acted
        acted = (*acted, "PERS-2") if model.past.loaded else acted
        waits = ("ROUND-11",) if model.round is not None and model.layer.policy == "bf16_first" else ()
        cited = (*acted, *waits, *policy_clauses(model))
        return [
            Expected("storage", model.storage, cited),
            Expected("floor", model.floor, (*acted, "PREC-5")),
            Expected("max_append", model.max_append, ("PREC-10",)),
        ]

    @clause("GROW-5", "GROW-9", "GROW-6", "GROW-7", "RING-8")
    def _bytes(self, model: Model, context: tuple[str, ...]) -> list[Expected]:
        token_bytes = self.config.bytes_of(model.storage)
        row_bytes = self.config.batch * token_bytes
        codes = ("GROW-9",) if model.layer.bits else ()
        state = [Expected("nbytes_min", model.needed * row_bytes, (*context, "GROW-6"))]
        if model.layer.window is not None:
            most = 2 * model.layer.window + model.past.longest + 512
            state.append(Expected("nbytes_max", most * row_bytes, ("RING-8",)))
        if self.profile == "layout":
            state.append(Expected("nbytes_per_column", row_bytes, ("GROW-7",)))
            state.append(Expected("bytes_per_token", token_bytes if model.slots else 0, (*codes, "GROW-5")))
        return state

    @clause("GROW-1", "GROW-2", "GROW-3", "RING-9")
    @clause("RING-2", "RING-3", "RING-4", "RING-5", "RING-6", "RING-7", "RING-10", "RING-13", "RING-15", "OWN-9")
    def _columns(self, model: Model, call: Call | None, held: tuple[str, ...]) -> list[Expected]:
        context = {"reset": ("OWN-9",), "clone": ("OWN-2",), "mask": ("MASK-12",)}.get(call.verb, ()) if call else ()
        codes = ("PREC-7",) if model.storage == "affine" else ()
        related = (*(("OWN-3",) if model.past.related and not context else ()), *codes)
        related = (*related, *(("PERS-2",) if model.past.loaded else ()))
        if isinstance(model.state, Full):
            slots = model.slots[: model.offset]
            growth = ("GROW-2",) if model.past.grew else ()
            return [
                Expected("columns_max", model.past.peak + 256, ("GROW-3",)),
                Expected("held", slots, (*context, *held, *growth, *related, "GROW-1")),
            ]
        grown = tuple(c for c in held if c in ("PREC-9", "RING-7", "ROUND-15"))
        cited = (*context, *held, *related) or ("RING-2",)
        return [
            Expected("columns", model.state.columns, (*context, *grown, "RING-9")),
            Expected("held", model.slots, cited),
            Expected("write_index", model.state.write_index, cited),
        ]
