"""What a group shows after a call: what its rows share, and each row like a cache of its own.

``GroupStates`` is bound to one configuration and profile. In ``core`` only what every design owes is expected: the
number of rows, and each row's offset.
"""

from attrs import evolve, field, frozen

from kvlaw.reference import index_group
from kvlaw.reference.citations import offset_clauses, policy_clauses
from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.group import Group
from kvlaw.reference.model import Model
from kvlaw.reference.world import Profile
from kvlaw.spec.calls import Call
from kvlaw.spec.cite import clause
from kvlaw.spec.config import Config

_STORAGE_ACTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("extract", "filter", "prepare", "finalize", "clone"), ("PREC-24",)),
    "hand_back": ("PREC-21", "PREC-24"),
    "trim": ("PREC-17", "PREC-6"),
    "begin_prefill": ("PREC-18",),
    "commit_prefill": ("PREC-19",),
    "end_prefill": ("PREC-20",),
    "merge": ("PREC-22",),
    "reset": ("PREC-6",),
    **dict.fromkeys(("begin_round", "commit_round", "roll_back"), ("ROUND-11",)),
}
"""What a row's storage rests on after a call that is no append."""
_OFFSET_ACTS: dict[str, tuple[str, ...]] = {
    "merge": ("ROWS-3", "ROWS-9"),
    "filter": ("ROWS-16", "PAD-10"),
    "finalize": ("PAD-7", "PAD-3"),
    "prepare": ("PAD-1", "PAD-3", "PAD-14"),
    "reset": ("ROWS-23", "OWN-7", "PAD-13"),
    "clone": ("ROWS-24", "OWN-2"),
    "trim": ("ROWS-19", "POS-4", "TRIM-3"),
    "extract": ("ROWS-15",),
    "hand_back": ("ROWS-15",),
    "commit_round": ("ROUND-1",),
    "roll_back": ("ROUND-13", "ROUND-2"),
}
_HELD_ACTS: dict[str, tuple[str, ...]] = {
    "merge": ("ROWS-6",),
    "filter": ("ROWS-21", "ROWS-16"),
    "finalize": ("PAD-16",),
    "clone": ("ROWS-24",),
    "extract": ("ROWS-15",),
    "hand_back": ("ROWS-15",),
    "commit_round": ("ROUND-1",),
    "roll_back": ("ROUND-14",),
    "reset": ("ROWS-23", "OWN-9"),
}


@frozen
class Context:
    """What the clauses of a state depend on: the call, what cites it besides, and whether padding pended before it."""

    call: Call | None = None
    first: tuple[str, ...] = ()
    pended: bool = False
    lone: bool = False
    """A merge of one row, which stays as it lies."""
    real: tuple[tuple[int, ...], ...] = field(default=())
    bracket: bool = False
    """The call was made while the prefill bracket was open."""

    @property
    def verb(self) -> str:
        """The verb of the call, empty for an opening."""
        return self.call.verb if self.call else ""


@frozen
class GroupStates:
    """Expected states of groups, for one configuration and profile."""

    config: Config
    profile: Profile

    def after(self, group: Group, context: Context) -> Expectation:
        """Give what a group and its rows show after a call that was carried out."""
        rows = tuple(Expectation(expected=self.row(group, b, context)) for b in range(len(group.rows)))
        return Expectation(expected=self.whole(group, context), rows=rows)

    @clause("ROWS-10", "ROWS-17", "ROWS-20", "ROWS-22", "ROWS-25", "ROWS-26", "ROWS-27", "PREC-25", "PREC-28")
    def whole(self, group: Group, context: Context) -> tuple[Expected, ...]:
        """Give what the rows share."""
        first, verb, state = context.first, context.verb, group.state
        emptied = ("ROWS-17", "ROWS-10") if verb == "filter" else ("ROWS-10",)
        emptied = () if group.rows else emptied
        acts = {"merge": ("ROWS-3",), "filter": ("ROWS-16",), "reset": ("ROWS-23",), "clone": ("ROWS-24",)}
        acts |= {"prepare": ("PAD-14",)}
        lent = ("ROWS-15",) if verb == "look" and any(row.past.lent for row in group.rows) else ()
        count = (*first, *emptied, *lent, *acts.get(verb, ()), "ROWS-25")
        shows = [Expected("rows", len(group.rows), count)]
        if self.profile == "core":
            return tuple(shows)
        flags = tuple(index_group.can_trim(state, n) for n in range(self._most(group) + 2))
        held = (*first, *self._held(context))
        row_bytes = sum(self.config.bytes_of(row.storage) for row in group.rows)
        padded = ("ROUND-9",) if group.in_round else ("PAD-9",) if group.pends else ()
        shows += [
            Expected("round", "open" if group.in_round else "none", (*first, "ROUND-16")),
            Expected("identity", group.layer.identity, ("ROWS-27",)),
            Expected("can_trim", flags, (*padded, "ROWS-20")),
            Expected("write_index", state.write_index, (*held, "ROWS-22")),
            Expected("nbytes_per_column", row_bytes, (*emptied, "ROWS-26")),
        ]
        if group.layer.window is None:
            most = max(state.write_index + index_group.STEP, state.columns)  # a trim gives no column back
            shows.append(Expected("columns_max", most, ("ROWS-22", "GROW-3")))
        else:
            shows.append(Expected("columns", state.columns, (*held, *emptied, "ROWS-22")))
        return (*shows, *self._policy(group))

    @staticmethod
    def _most(group: Group) -> int:
        return max((row.offset for row in group.rows), default=0)

    @staticmethod
    def _policy(group: Group) -> list[Expected]:
        storage = Expected("storage", group.storage, ("PREC-25", "ID-4"))
        if group.layer.bits is None:
            return [storage]
        return [storage, Expected("max_append", group.max_append, ("PREC-28",))]

    @staticmethod
    def _held(context: Context) -> tuple[str, ...]:
        if context.verb == "merge":
            return ("ROWS-5",) if context.lone else ("ROWS-6",)
        if context.verb == "compiled":
            return ("DEC-4",)
        if context.verb in ("decode", "window", "known", "dense"):
            return ("PAD-16", "PAD-11") if context.pended else ()
        return _HELD_ACTS.get(context.verb, ())

    @clause("ROWS-1", "ROWS-2", "PAD-7", "POS-2")
    def row(self, group: Group, number: int, context: Context) -> tuple[Expected, ...]:
        """Give what one row shows."""
        model, padding = group.rows[number], group.paddings[number]
        over = group.state.offsets[number] - index_group.valid(group.state, number)
        offset = -padding.before if padding.before else model.offset
        cited = (*context.first, *self._offset(model, number, context))
        shown = [] if over and self.profile == "core" else [Expected("offset", offset, cited)]
        shown += self._row_policy(model, number, context, group.in_round)
        if self.profile == "core":
            return tuple(shown)
        codes = ("PREC-7",) if model.storage == "affine" else ()
        codes += ("ROUND-10",) if codes and context.verb in ("commit_round", "roll_back") else ()
        held = (*context.first, *self._held(context), *codes, "ROWS-22")
        slots = group.held(number)[: index_group.active(group.state) if group.layer.window is None else None]
        shown += [
            Expected("size", model.live, (*context.first, "POS-6", "ROWS-2")),
            Expected("held", slots, held),
        ]
        if not group.layer.bits:
            shown.append(Expected("storage", "dense", ("ID-4", "PREC-25")))
        return tuple(shown)

    @staticmethod
    def _offset(model: Model, number: int, context: Context) -> tuple[str, ...]:
        if context.verb in _OFFSET_ACTS:
            return (*_specific(model, context), *_OFFSET_ACTS[context.verb])
        idle = bool(context.real) and not context.real[number]
        filtered = ("PAD-10",) if context.pended and model.past.filtered else ()
        padded = (*filtered, *(("PAD-6", "ROWS-2") if idle else ()), *(("PAD-2", "PAD-1") if context.pended else ()))
        if context.call is None or not context.call.appends:
            return (*padded, *offset_clauses(model, context.call), "ROWS-2")
        told = (*(("PAD-3",) if model.past.told else ()), *(("PAD-13",) if model.past.reset else ()))
        after = ("PAD-8",) if model.past.finalized else ()
        return (*padded, *told, *offset_clauses(model, context.call), *after, "ROWS-2")

    @clause("PREC-16", "PREC-17", "PREC-18", "PREC-19", "PREC-20", "PREC-21", "PREC-22", "PREC-23", "PREC-24")
    @clause("ROUND-11")
    def _row_policy(self, model: Model, number: int, context: Context, in_round: bool) -> list[Expected]:
        """Give what a row with a storage policy shows of it."""
        if model.layer.bits is None:
            return []
        acts = _STORAGE_ACTS.get(context.verb, ())
        acts = ("PREC-18",) if context.verb == "trim" and context.bracket else acts
        if context.verb in ("decode", "compiled", "window", "known", "dense"):
            idle = bool(context.real) and not context.real[number]
            acts = ("PREC-18",) if context.bracket else ("PREC-26",) if idle else ("PREC-16", "PREC-26")
            acts = ("DEC-8", *acts) if context.verb == "compiled" else acts
        never = tuple(c for c in acts if c in ("PREC-6", "PREC-24"))  # of codes from the first append on
        first = (*context.first, *(acts if model.layer.policy == "bf16_first" else never))
        waits = ("ROUND-11",) if in_round and model.layer.policy == "bf16_first" else ()
        cited = (*context.first, *waits, *first[len(context.first) :], *policy_clauses(model))
        return [
            Expected("storage", model.storage, cited),
            Expected("floor", model.floor, ("PREC-27", *first)),
            Expected("max_append", model.max_append, ("PREC-28",)),
        ]

    def unchanged(self, group: Group, cited: tuple[str, ...]) -> Expectation:
        """Give what a group shows after a call that changed nothing."""
        shows = self.after(group, Context(first=cited))
        rows = tuple(evolve(row, outcomes=("refused",)) for row in shows.rows)
        return evolve(shows, rows=rows)


def _specific(model: Model, context: Context) -> tuple[str, ...]:
    """Cite what an offset rests on first, where the situation says more than the call."""
    if context.verb == "merge" and not model.offset:
        return ("ROWS-9",)
    if context.verb == "finalize" and context.pended and model.past.filtered:
        return ("PAD-10",)
    if context.verb == "prepare" and not any(getattr(context.call, "left", None) or ()):
        return ("PAD-3",)
    return ("PAD-13",) if context.verb == "reset" and context.pended else ()
