"""What one call on recurrent rows must answer, and the rows after it; ``recurrent_refusals`` says what is refused.

A group is told row by row, a cache of one sequence like its one row.
"""

from attrs import evolve, frozen

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.recurrent_model import RecurrentModel, Tokens
from kvlaw.reference.recurrent_refusals import ends_by_lengths_alone, is_open, keeps_of, refusal
from kvlaw.reference.world import Profile, Seen, UnknownObjectError
from kvlaw.spec.calls import (
    Advance,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    Damage,
    Drop,
    Extract,
    Filter,
    Finalize,
    Load,
    LookAt,
    Merge,
    Prepare,
    Reset,
    RollBack,
    Save,
    Trim,
)
from kvlaw.spec.cite import clause
from kvlaw.spec.config import ITEM_SIZE, Config
from kvlaw.spec.slots import answers_of, slots_of, tail_of

Judged = tuple[Expectation, RecurrentModel]
_EITHER = Expectation(("ok", "refused"), ends=True)
_ACTS: dict[str, tuple[str, ...]] = {
    "begin_round": ("REC-6",),
    "commit_round": ("REC-6",),
    "roll_back": ("REC-6",),
    "prepare": ("REC-8",),
    "finalize": ("REC-8",),
    "merge": ("REC-9",),
    "extract": ("REC-10",),
    "filter": ("REC-11",),
    "clone": ("REC-12",),
    "reset": ("REC-16",),
    "trim": ("REC-13",),
    **dict.fromkeys(("save", "load"), ("REC-18",)),
}
"""What a state rests on after a call that is no advance."""


@frozen
class RecurrentJudge:
    """Calls on recurrent rows, for one configuration and profile."""

    config: Config
    profile: Profile

    def call(self, model: RecurrentModel, call: Call, tokens: Tokens, seen: Seen) -> Judged:
        """Give what ``call`` must answer, and the rows after it."""
        if is_open(model, call) or (self.profile == "core" and ends_by_lengths_alone(call)):
            return _EITHER, model
        if isinstance(call, Trim):
            return self._trimmed(model, call), model
        if cited := refusal(model, call):
            return self.refused(model, cited, seen), model
        if isinstance(call, Advance):
            return self._advanced(model, call, tokens)
        after = self._acted(model, call)
        return evolve(self.shows(after, call), charged=_ACTS.get(call.verb, ())), after

    @clause("REC-14", "REC-15")
    def refused(self, model: RecurrentModel, cited: tuple[str, ...], seen: Seen) -> Expectation:
        """Give what is shown after a call that our design refuses: what was shown before."""
        if self.profile == "core" and seen.outcome == "ok":
            return _EITHER
        shows = self.shows(model, None, first=("REC-14",))
        rows = tuple(evolve(row, outcomes=("refused",)) for row in shows.rows)
        return evolve(shows, outcomes=("refused",), charged=_named(cited), rows=rows)

    @clause("REC-13")
    def _trimmed(self, model: RecurrentModel, call: Trim) -> Expectation:
        """Judge a trim: refused, or in another design answered by 0; nothing is dropped."""
        shows = self.shows(model, call)
        if self.profile == "core":
            answer = Expected("answer", 0, ("REC-13",))
            rows = tuple(evolve(row, outcomes=("ok", "refused")) for row in shows.rows)
            return evolve(shows, outcomes=("ok", "refused"), expected=(answer, *shows.expected), rows=rows)
        rows = tuple(evolve(row, outcomes=("refused",)) for row in shows.rows)
        return evolve(shows, outcomes=("refused",), charged=("REC-13",), rows=rows)

    @clause("REC-1", "REC-2", "REC-7", "REC-8")
    def _advanced(self, model: RecurrentModel, call: Advance, tokens: Tokens) -> Judged:
        length = call.length
        given = tuple(tokens[b * length : (b + 1) * length] for b in range(model.count))
        after, real = model.advanced(given), model.real(length)
        shows = self.shows(after, call, pended=model.pends)
        padded = ("REC-8",) if model.pends else ()
        rows = tuple(
            self._answering(row, model.rows[b], after.rows[b], real[b], padded) for b, row in enumerate(shows.rows)
        )
        if not model.is_rows:
            shows = self._answering(shows, model.rows[0], after.rows[0], None, ())
        return evolve(shows, rows=rows, charged=(*padded, "REC-1")), after

    @staticmethod
    def _answering(
        shows: Expectation, before: Tokens, after: Tokens, real: tuple[int, ...] | None, padded: tuple[str, ...]
    ) -> Expectation:
        """Add what the outputs of one row are."""
        answers = answers_of(before, after[len(before) :])
        rows = () if real is None else ("REC-7",)
        expected = Expected("answers", answers, (*padded, "REC-2", *rows))
        return evolve(shows, expected=(*shows.expected, expected), real=real, live_before=before, live=after)

    def _acted(self, model: RecurrentModel, call: Call) -> RecurrentModel:
        match call:
            case BeginRound():
                return model.begun()
            case CommitRound():
                return model.closed((model.appended,) * model.count)
            case RollBack():
                return model.closed(keeps_of(model, call))
            case Filter():
                return model.filtered(call.rows)
            case Prepare():
                return model.prepared(call.left, call.lengths, call.right)
            case Finalize():
                return model.finalized()
            case Reset():
                return model.reset()
            case Clone():
                return model.with_relatives()
            case Drop() | LookAt():
                return model
            case _:
                raise UnknownObjectError(f"{call.on!r} is of a recurrent layer: it cannot be asked to {call.verb}")

    # Rows that come and go.

    @clause("REC-10")
    def taken(self, model: RecurrentModel, call: Extract, seen: Seen) -> tuple[Expectation, RecurrentModel | None]:
        """Give what the cache of one row shows, or that it is refused."""
        if cited := refusal(model, call):
            accepted = self.profile == "core" and seen.outcome == "ok"
            return (_EITHER if accepted else Expectation(("refused",), _named(cited))), None
        made = model.extracted(call.row)
        return evolve(self.shows(made, call), charged=("REC-10",)), made

    @clause("REC-9")
    def joined(
        self, sources: tuple[RecurrentModel, ...], call: Merge, made: RecurrentModel | None, seen: Seen
    ) -> Expectation:
        """Give what a group of all rows of ``sources`` shows, or that it is refused."""
        if made is None:  # they do not go together
            accepted = self.profile == "core" and seen.outcome == "ok"
            return _EITHER if accepted else Expectation(("refused",), _named(("REC-9",)))
        return evolve(self.shows(made, call), charged=("REC-9",))

    # Files.

    @clause("REC-18")
    def saved(self, model: RecurrentModel, call: Save, seen: Seen) -> Expectation:
        """Give what saving shows: the cache, unchanged; an open round is not saved."""
        if model.is_rows:
            raise UnknownObjectError(f"{call.on!r} is a group: its rows are saved one by one, as caches")
        if model.in_round:
            return self.refused(model, ("REC-18",), seen)
        return evolve(self.shows(model, call), charged=("REC-18",))

    @clause("REC-18")
    def loaded(
        self, held: RecurrentModel, damage: Damage | None, call: Load, seen: Seen
    ) -> tuple[Expectation, RecurrentModel | None]:
        """Give what loading shows, and what it makes; a spoilt file may at best be loaded as what it held."""
        read = self.profile == "core" and seen.outcome == "ok"
        if call.other or (damage is not None and not read):
            return Expectation(("refused",), ("REC-18",)), None
        return evolve(self.shows(held, call), charged=("REC-18",)), held

    # What is shown.

    def shows(
        self, model: RecurrentModel, call: Call | None, *, first: tuple[str, ...] = (), pended: bool = False
    ) -> Expectation:
        """Give what rows show after ``call`` (None: an opening, or a call that changed nothing)."""
        acts = _ACTS.get(call.verb, ()) if call is not None else ()
        related = ("REC-12",) if model.related and call is not None and call.verb == "look" else ()
        emptied = ("REC-16",) if model.emptied and isinstance(call, Advance) else ()
        cited = (*first, *(("REC-8",) if pended else ()), *related, *acts, *emptied)
        rows = [Expectation(expected=self._row(model, b, cited)) for b in range(model.count)]
        if not model.is_rows:
            return Expectation(expected=(*rows[0].expected, *self._whole(model, cited)))
        counts = Expected("rows", model.count, (*cited, "REC-7"))
        return Expectation(expected=(counts, *self._whole(model, cited)), rows=tuple(rows))

    @clause("REC-1", "REC-3", "REC-4", "REC-7")
    def _row(self, model: RecurrentModel, number: int, cited: tuple[str, ...]) -> tuple[Expected, ...]:
        tokens, alone = model.rows[number], ("REC-7",) if model.is_rows else ()
        return (
            Expected("offset", model.offset(number), (*cited, "REC-1", *alone)),
            Expected("tail", tail_of(tokens, model.layer.kernel), (*cited, "REC-3", *alone)),
            Expected("slots", slots_of(tokens), (*cited, "REC-4", *alone)),
        )

    @clause("REC-5", "REC-13", "REC-17")
    def _whole(self, model: RecurrentModel, cited: tuple[str, ...]) -> tuple[Expected, ...]:
        """Give what is not of one row: names, bytes and limits, fixed in the layout profile."""
        if self.profile == "core":
            return ()
        flags = (False,) * (model.furthest + 2)
        return (
            Expected("round", "open" if model.in_round else "none", (*cited, "REC-6")),
            Expected("identity", model.layer.identity, ("REC-17",)),
            Expected("can_trim", flags, ("REC-13",)),
            Expected("bytes_per_token", 0, ("REC-5",)),
            Expected("nbytes", self._bytes(model), (*cited, "REC-5")),
        )

    def _bytes(self, model: RecurrentModel) -> int:
        c = self.config
        tail = (model.layer.kernel - 1) * c.kv_heads * c.head_dim * ITEM_SIZE[c.dtype]
        matrix = c.kv_heads * c.value_dim * c.head_dim * ITEM_SIZE["f32"]
        return model.count * (tail + matrix) if model.holds else 0


def _named(cited: tuple[str, ...]) -> tuple[str, ...]:
    """Cite what is refused: first of all as that."""
    return ("REC-15", *(clause_id for clause_id in cited if clause_id != "REC-15"))
