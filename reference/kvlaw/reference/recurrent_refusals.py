"""Which calls on recurrent rows our design refuses, and by which clauses; nothing changes by asking."""

from collections.abc import Sequence

from kvlaw.reference.recurrent_model import RecurrentModel
from kvlaw.spec.calls import Advance, BeginRound, Call, CommitRound, Extract, Filter, Prepare, RollBack
from kvlaw.spec.cite import clause

_UNKNOWN_WHILE_EMPTY = ("batch", "heads", "head_dim", "dtype")


@clause("REC-15")
def refusal(model: RecurrentModel, call: Call) -> tuple[str, ...]:
    """Give the clauses by which ``call`` is refused; empty if it is carried out."""
    match call:
        case Advance():
            wrong = call.malformed is not None or call.length < 1 or not model.rows
            return ("REC-15",) if wrong else ()
        case BeginRound():
            return ("REC-6",) if model.in_round or model.pends else ()
        case CommitRound():
            return () if model.in_round else ("REC-6",)
        case RollBack():
            return () if _can_close(model, call) else ("REC-6",)
        case Extract():
            return () if 0 <= call.row < model.count and not _unrest(model) else ("REC-10",)
        case Filter():
            there = all(0 <= row < model.count for row in call.rows)
            return () if there and len(set(call.rows)) == len(call.rows) else ("REC-11",)
        case Prepare():
            return () if _can_prepare(model, call) else ("REC-8",)
        case _:
            return ()


def is_open(model: RecurrentModel, call: Call) -> bool:
    """Say that the law leaves open what follows: spoilt tensors that empty rows cannot tell from good ones."""
    spoilt = getattr(call, "malformed", None)
    told = spoilt == "batch" and model.is_rows  # by the number of rows
    return spoilt in _UNKNOWN_WHILE_EMPTY and not model.holds and bool(model.rows) and not told


def ends_by_lengths_alone(call: Call) -> bool:
    """Say whether lengths are announced without right padding: they end nothing by our design, rows by another."""
    return isinstance(call, Prepare) and call.lengths is not None and not any(call.right or ())


@clause("REC-9", "REC-15")
def merge_refusal(sources: Sequence[RecurrentModel]) -> tuple[str, ...]:
    """Give the clauses by which a merge is refused; empty if it is carried out."""
    alike = len({source.layer.kernel for source in sources}) == 1
    return () if alike and not any(map(_unrest, sources)) else ("REC-9",)


def keeps_of(model: RecurrentModel, call: RollBack) -> tuple[int, ...]:
    """Give how much of a round each row keeps: one number is every row's."""
    return call.keep * model.count if len(call.keep) == 1 else call.keep


def _unrest(model: RecurrentModel) -> bool:
    return model.in_round or model.pends


def _can_close(model: RecurrentModel, call: RollBack) -> bool:
    fits = len(call.keep) in (1, model.count)
    return model.in_round and fits and all(0 <= keep <= model.appended for keep in call.keep)


def _can_prepare(model: RecurrentModel, call: Prepare) -> bool:
    left, lengths, right = call.left, call.lengths, call.right
    lists = [given for given in (left, lengths, right) if given is not None]
    count = model.count or max(map(len, lists), default=0)
    if _unrest(model) or any(len(given) != count or min(given, default=0) < 0 for given in lists):
        return False
    if any(left or ()) and model.holds:
        return False
    if not any(right or ()):
        return True
    return lengths is not None and all(end >= pad for end, pad in zip(lengths, left or (0,) * count, strict=True))
