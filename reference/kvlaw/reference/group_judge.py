"""What one call on a group must answer, row by row, and the group's model after it.

Every row is judged like a cache of its own: what its real queries see follows from its own history alone. Calls that
our design refuses are followed by what the subject did, as ``judge`` does for one cache.
"""

from attrs import evolve, frozen

from kvlaw.reference import index_group
from kvlaw.reference.citations import form_clauses, probe_clauses
from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.group import Group
from kvlaw.reference.group_citations import group_mask_clauses, row_sight_clauses
from kvlaw.reference.group_refusals import is_at_rest, is_open, keeps_of, refusal
from kvlaw.reference.group_states import Context, GroupStates
from kvlaw.reference.history import Sight
from kvlaw.reference.membership import extracted, handed_back
from kvlaw.reference.model import Model
from kvlaw.reference.states import States
from kvlaw.reference.trims import dropped_by
from kvlaw.reference.world import Profile, Seen, UnknownObjectError
from kvlaw.spec.calls import (
    AppendDecode,
    BeginPrefill,
    BeginRound,
    Call,
    Clone,
    CommitPrefill,
    CommitRound,
    Drop,
    EndPrefill,
    Extract,
    FetchDense,
    Filter,
    Finalize,
    HandBack,
    LookAt,
    MakeMask,
    Phase,
    Prepare,
    Reset,
    RollBack,
    TakeState,
    Trim,
)
from kvlaw.spec.cite import clause
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Form

Judged = tuple[Expectation, Group]
_EITHER = Expectation(("ok", "refused"), ends=True)
_CHARGED = {
    "merge": ("ROWS-3",),
    "filter": ("ROWS-16",),
    "prepare": ("PAD-2", "PAD-1"),
    "finalize": ("PAD-7",),
    "begin_prefill": ("PREC-18",),
    "commit_prefill": ("PREC-19",),
    "end_prefill": ("PREC-20",),
    "clone": ("ROWS-24",),
    "reset": ("ROWS-23",),
    "begin_round": ("ROUND-16",),
    "commit_round": ("ROUND-1",),
    "roll_back": ("ROUND-13", "ROUND-2"),
}
"""What a call is charged with that is not carried out although it could be."""


@frozen
class GroupJudge:
    """Calls on groups, for one configuration and profile."""

    config: Config
    profile: Profile

    @property
    def states(self) -> GroupStates:
        """What groups show."""
        return GroupStates(self.config, self.profile)

    def call(self, group: Group, call: Call, tokens: tuple[int, ...], seen: Seen) -> Judged:
        """Give what ``call`` must answer, and the group after it."""
        if is_open(group, call):
            return _EITHER, group
        if isinstance(call, Trim) and self.profile == "core" and type(call.n) is int and is_at_rest(group):
            return self._judged_trim(group, call, seen)
        if cited := refusal(group, call, self.config):
            return self.refused(group, cited, seen)
        if call.appends:
            return self._append(group, call, tokens)
        if isinstance(call, MakeMask):
            return self._mask(group, call), group
        if isinstance(call, Trim):
            return self._trim(group, call)
        return self._plain(group, call)

    @clause("ERR-1", "ROWS-11", "ROWS-18", "ROWS-20", "ROWS-29", "ROWS-30", "PAD-9", "PAD-12")
    def refused(self, group: Group, cited: tuple[str, ...], seen: Seen) -> Judged:
        """Give what a group shows after a call that our design refuses by the clauses ``cited``: what it showed."""
        after = group.was(refused=True)
        if self.profile == "core" and seen.outcome == "ok":
            return _EITHER, after
        own = tuple(c for c in cited if c == "ROUND-7")
        kept = self.states.unchanged(after, ("ERR-1", *own))
        return evolve(kept, outcomes=("refused",), charged=cited), after

    # Appends.

    @clause("ROWS-1", "ROWS-2", "PAD-5", "PREC-29", "READ-16", "READ-17", "READ-18")
    def _append(self, group: Group, call: Call, tokens: tuple[int, ...]) -> Judged:
        length = call.appends
        decodes = isinstance(call, AppendDecode) or (call.verb == "dense" and length == 1 and not group.pends)
        phase: Phase = "decode" if decodes else "window"
        given = tuple(tokens[b * length : (b + 1) * length] for b in range(len(group.rows)))
        before, after, plan = group.appended(phase, given, bool(getattr(call, "unread", False)))
        context = Context(call, pended=group.pends, real=group.real(length), bracket=group.prefilling)
        shows = self.states.after(after, context)
        rows = tuple(
            self._row(before, after, call, phase, plan, b, evolve(shows.rows[b], charged=("POS-2",)))
            for b in range(len(group.rows))
        )
        kind = index_group.mask_kind(group.state, length, phase, getattr(call, "window", None))
        idle = ("PAD-6",) if not all(context.real) else ()
        compiled = ("DEC-9", "DEC-1") if call.verb == "compiled" else ()
        cited = (*compiled, *idle, "PAD-5", "POS-2") if group.pends else (*compiled, "POS-2")
        layout = self.profile == "layout"
        return evolve(shows, rows=rows, charged=cited, mask=kind if layout else None), after

    def _row(
        self,
        before: Group,
        after: Group,
        call: Call,
        phase: Phase,
        plan: index_group.RowsPlan,
        number: int,
        shows: Expectation,
    ) -> Expectation:
        model, old = after.rows[number], before.rows[number]
        real = before.paddings[number].real(call.appends)
        argument = getattr(call, "window", None)
        sights = model.sights(len(real), argument) if real else ()
        held = after.held(number)
        fetched = tuple(held[column] for column in plan.fetch)
        order = tuple(tuple(filter(frozenset(sight.allowed).__contains__, fetched)) for sight in sights)
        shows = evolve(
            shows,
            real=real,
            sights=sights,
            order=order,
            fetched=fetched,
            live_before=old.row.tokens,
            live=model.row.tokens,
            form=_form(old, call),
        )
        if getattr(call, "unread", False):
            return shows
        return evolve(shows, expected=(*shows.expected, *self._read(before, call, phase, number, model, shows)))

    def _read(
        self, before: Group, call: Call, phase: Phase, number: int, model: Model, shows: Expectation
    ) -> tuple[Expected, ...]:
        """Give what the read of one row shows."""
        old, real = before.rows[number], shows.real or ()
        cited = row_sight_clauses(before, number, model, call, phase, self.config)
        if isinstance(call, FetchDense):
            needed = frozenset(t for sight in shows.sights for t in sight.required)
            least = tuple(t for t in shows.live if t in needed)
            restored = ("READ-14",) if old.storage == "affine" else ()
            row_dense = Expected("row_dense", Sight(least, shows.live), ("READ-17", *restored, "READ-6", *cited))
            fetched = Expected("fetched", shows.fetched, ("READ-17", "READ-7", "VIS-7"))
            return row_dense, *self._layout(fetched)
        argument, array = getattr(call, "window", None), bool(getattr(call, "array", False))
        kind = "array" if array else index_group.mask_kind(before.state, call.appends, phase, argument)
        of_mask = group_mask_clauses(before, phase)
        form = (Expected("form", shows.form, self._form_clauses(before, old, model)),) if before.layer.bits else ()
        probes = Expected("probes", None, (*probe_clauses(old, call, phase), "ROWS-1", "READ-16"))
        apart = (Expected("apart", (), ("READ-18", "READ-13")),) if call.verb == "known" and real else ()
        padding = tuple(query for query in range(call.appends) if query not in real)
        return (
            Expected("sights", shows.sights, cited),
            Expected("mask_width", call.appends, ("MASK-16", "MASK-1")),
            Expected("foretold", shows.sights, ("MASK-12", "MASK-16")),
            *([probes] if real else ()),
            *([Expected("finite", padding, ("PAD-15",))] if padding else ()),
            *form,
            *self._layout(Expected("mask", kind, of_mask), Expected("order", shows.order, (*of_mask, "VIS-7")), *apart),
        )

    @staticmethod
    def _form_clauses(before: Group, old: Model, model: Model) -> tuple[str, ...]:
        mixed = ("READ-16",) if before.storage == "mixed" else ()
        first = ("PREC-29", "PREC-16") if before.layer.policy == "bf16_first" and not before.prefilling else ()
        return (*mixed, *first, *form_clauses(old, model))

    def _layout(self, *expected: Expected) -> tuple[Expected, ...]:
        return expected if self.profile == "layout" else ()

    @clause("MASK-14", "MASK-15", "MASK-16", "MASK-17", "MASK-12")
    def _mask(self, group: Group, call: MakeMask) -> Expectation:
        shows = self.states.after(group, Context(call))
        kind = "array" if call.array else index_group.mask_kind(group.state, call.length, call.phase, call.window)
        cited = group_mask_clauses(group, call.phase)
        if self.profile == "core":
            return evolve(shows, charged=cited)
        rows = tuple(
            evolve(row, expected=(*row.expected, *self._mask_rows(group, call, b, kind, cited)))
            for b, row in enumerate(shows.rows)
        )
        return evolve(shows, charged=cited, rows=rows, mask=kind)

    @staticmethod
    def _mask_rows(
        group: Group, call: MakeMask, number: int, kind: str, cited: tuple[str, ...]
    ) -> tuple[Expected, ...]:
        """Work out what a row's next queries see of the next fetch, by trying it: the law, not a mask formula."""
        fresh = tuple(tuple(-1 - i - b * call.length for i in range(call.length)) for b in range(len(group.rows)))
        _, after, plan = group.appended(call.phase, fresh, unread=True)
        real = group.paddings[number].real(call.length)
        sights = after.rows[number].sights(len(real), call.window) if real else ()
        slots = after.rows[number].slots
        matrix = {
            query: tuple(map(frozenset(sight.allowed).__contains__, (slots[c] for c in plan.fetch)))
            for query, sight in zip(real, sights, strict=True)
        }
        asked = ("MASK-11",) if call.array else ()
        return (
            Expected("mask", kind, cited),
            Expected("mask_rows", matrix, (*cited, "MASK-12", *asked)),
        )

    # Trims.

    def _trim(self, group: Group, call: Trim) -> Judged:
        count = int(call.n)
        after = group.trimmed(count)
        shows = self.states.after(after, Context(call, bracket=group.prefilling))
        answer = Expected("answer", count, ("ROWS-19", "TRIM-3", *(() if count else ("TRIM-10",))))
        return evolve(shows, expected=(answer, *shows.expected), charged=("ROWS-19", "TRIM-5"), answer=count), after

    @clause("ROWS-19", "TRIM-3", "TRIM-5", "TRIM-9")
    def _judged_trim(self, group: Group, call: Trim, seen: Seen) -> Judged:
        """Judge a trim by what it answered: every row has dropped exactly that many, or none has."""
        count, dropped = int(call.n), dropped_by(group.shortest, seen)
        if dropped is None:
            return _EITHER, group
        most = min(max(count, 0), group.shortest)
        fits = 0 <= count <= group.shortest
        owed = fits and group.layer.window is None
        promised = fits and bool(seen.said(count))
        due = (*(("TRIM-5",) if promised else ()), *(("ROWS-19",) if owed and group.rows else ()))
        if seen.outcome == "ok" and not 0 <= dropped <= most:
            cited = ("TRIM-9", "ROWS-19") if count < 0 else ("ROWS-19", "TRIM-3")
            return Expectation(charged=cited, expected=(Expected("answer", most, cited),), answer=most), group
        if due and dropped != count:
            return Expectation(charged=due, expected=(Expected("answer", count, due),), answer=count), group
        after = group.trimmed(dropped) if seen.outcome == "ok" else group
        own = ("TRIM-9",) if count < 0 else ()
        shows = self.states.after(after, Context(call, own, bracket=group.prefilling))
        outcomes = ("ok",) if dropped or due else ("ok", "refused")
        rows = tuple(evolve(row, outcomes=outcomes) for row in shows.rows)
        charged = ("ROWS-19", *(own or ("TRIM-3",)))
        return evolve(shows, outcomes=outcomes, charged=charged, rows=rows, answer=dropped), after

    # Everything else.

    def _plain(self, group: Group, call: Call) -> Judged:
        """Give what a call shows that only looks, clones, resets, prepares, filters or settles."""
        after, context = self._acted(group, call), Context(call, pended=group.pends, bracket=group.prefilling)
        shows = self.states.after(after, context)
        return evolve(shows, charged=(*_charged(group, call), *_CHARGED.get(call.verb, ()))), after

    @clause("PREC-18", "PREC-19", "PREC-20", "ROWS-23", "ROWS-24", "PAD-3")
    def _acted(self, group: Group, call: Call) -> Group:
        match call:
            case Filter():
                return group.filtered(call.rows)
            case Prepare():
                return group.prepared(call.left, call.lengths, call.right)
            case Finalize():
                return group.finalized()
            case BeginPrefill() | CommitPrefill() | EndPrefill():
                return self._in_the_bracket(group, call)
            case BeginRound() | CommitRound() | RollBack():
                return self._in_a_round(group, call)
            case Reset():
                return group.reset()
            case Clone():
                return group.was(related=True)
            case Drop() | LookAt() | TakeState():
                return group
            case _:
                raise UnknownObjectError(f"{call.on!r} is a group: it cannot be asked to {call.verb}")

    @staticmethod
    def _in_the_bracket(group: Group, call: BeginPrefill | CommitPrefill | EndPrefill) -> Group:
        if isinstance(call, BeginPrefill):
            return evolve(group.advanced(tuple(range(len(group.rows)))), prefilling=True)
        return group.settled(call.rows) if isinstance(call, CommitPrefill) else evolve(group, prefilling=False)

    @staticmethod
    def _in_a_round(group: Group, call: BeginRound | CommitRound | RollBack) -> Group:
        if isinstance(call, BeginRound):
            return group.begun()
        whole = tuple(row.appended_in_round for row in group.rows)
        return group.closed(whole if isinstance(call, CommitRound) else keeps_of(group, call))

    @clause("ROWS-12", "ROWS-13", "ROWS-14", "ROWS-28", "PREC-21", "PREC-23")
    def taken(self, group: Group, call: Extract | HandBack, seen: Seen) -> tuple[Expectation, Model | None]:
        """Give what the cache shows that is made of a row, or that it is refused."""
        if cited := refusal(group, call, self.config):
            accepted = self.profile == "core" and seen.outcome == "ok"
            return (_EITHER if accepted else Expectation(("refused",), cited)), None
        back = isinstance(call, HandBack)
        model = handed_back(group, call.row) if back else extracted(group, call.row)
        own = ("ROWS-28", "PREC-21") if back else ("ROWS-12", "PREC-23")
        empty = () if group.rows[call.row].offset else ("ROWS-14",)
        shows = States(self.config, self.profile).after(model, call)
        layout = ("columns", "held", "write_index")
        cited_of = {
            "storage": ("PREC-21",) if back else ("PREC-23",),
            "identity": own[:1] if back else ("PREC-23",),
            "form": ("PREC-23",),
            "floor": ("PREC-21",) if back else ("PREC-23", "PREC-27"),
            **dict.fromkeys(layout, ("ROWS-13",)),
        }
        after = group.paddings[call.row].pends or group.rows[call.row].past.finalized
        padded = ("PAD-11",) if after and group.layer.window is not None else ()
        expected = tuple(
            evolve(e, clauses=(*empty, *padded, *cited_of.get(e.field, own[:1]), *own, *e.clauses)) for e in shows
        )
        return Expectation(charged=(*empty, own[0]), expected=expected, live=model.row.tokens), model


def _charged(group: Group, call: Call) -> tuple[str, ...]:
    """Give what a call is charged with before others, where its situation says more than its verb."""
    if not isinstance(call, Filter):
        return ()
    return (*(("PAD-10",) if group.pends else ()), *(() if call.rows else ("ROWS-17",)))


def _form(model: Model, call: Call) -> Form:
    """Say what a fetch gives of a row: what is stored, or tensors again for a dense fetch."""
    if model.storage == "dense":
        return "dense"
    return "restored" if isinstance(call, FetchDense) else "affine"
