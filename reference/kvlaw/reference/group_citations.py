"""Which clauses ask for what a row of a group reads, the most specific first."""

from kvlaw.reference.citations import sight_clauses
from kvlaw.reference.group import Group
from kvlaw.reference.model import Model
from kvlaw.spec.calls import Call, Phase
from kvlaw.spec.config import Config


def row_sight_clauses(
    before: Group, number: int, after: Model, call: Call, phase: Phase, config: Config
) -> tuple[str, ...]:
    """Cite what the visible sets of a row's real queries rest on."""
    old, padding, past = before.rows[number], before.paddings[number], after.past
    cited: list[str] = ["DEC-9"] if call.verb == "compiled" else []
    if before.pends:
        cited += ["PAD-10"] if past.filtered else []
        cited += ["PAD-1"] if padding.before else []
        cited += ["PAD-5", "PAD-2"]
    cited += ["ROWS-7"] if before.layer.sinks and after.offset > (before.layer.window or 0) else []
    cited += ["PAD-4"] if past.padded else []
    cited += ["PAD-8"] if past.finalized else []
    cited += ["ROWS-2"] if past.idle else []
    cited += ["ROWS-16"] if past.filtered else []
    cited += ["ROWS-9"] if past.joined and past.peak == len(after.row.tokens) and not old.offset else []
    cited += ["ROWS-3", "ROWS-4"] if past.joined else []
    cited += ["ROWS-23", "PAD-13"] if past.reset else []
    cited += ["ROWS-24"] if past.related and not (past.joined or past.lent or past.joined_others) else []
    cited += ["READ-16"] if before.storage == "mixed" else []
    cited += ["READ-18"] if call.verb == "known" and before.layer.bits else []
    cited += ["PREC-26", "PREC-29"] if before.layer.policy == "bf16_first" else []
    cited += ["ROUND-13"] if past.rolled else []
    cited += ["ROWS-1", "MASK-16", *(["MASK-17"] if before.layer.bits else [])]
    return (*cited, *sight_clauses(old, after, call, phase, config))


def group_mask_clauses(before: Group, phase: Phase) -> tuple[str, ...]:
    """Cite what the form of a group's mask rests on."""
    coded = ("MASK-17",) if before.layer.bits else ()
    return (*coded, "MASK-15") if phase == "decode" else (*coded, "MASK-14")
