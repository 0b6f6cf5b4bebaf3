"""Which clauses ask for an expected value: the situations in which each clause arises, the most specific first."""

from kvlaw.reference import index
from kvlaw.reference.model import Model
from kvlaw.spec.calls import Call, Phase
from kvlaw.spec.config import Config


def sight_clauses(before: Model, after: Model, call: Call, phase: Phase, config: Config) -> tuple[str, ...]:
    """Cite what a read's visible sets rest on."""
    window, sinks, length = before.layer.window, before.layer.sinks, call.appends
    cited: list[str] = []
    if before.lenient:
        return ("RING-14", "VIS-5")
    cited += ["DEC-2"] if call.verb == "compiled" else []
    if getattr(call, "array", False):
        cited += ["READ-15"] if before.storage == "affine" and phase == "window" else []
        cited.append("MASK-11")
    cited += _argument_clauses(window, getattr(call, "window", None))
    cited += ["TRIM-8", "TRIM-1" if window is None else "TRIM-2"] if after.past.rewritten else []
    if window is not None:
        cited += ["RING-10"] if window == 1 else []
        cited += ["RING-11"] if phase == "window" and length > window else []
        cited += ["VIS-9", "RING-12"] if sinks and after.offset > window else []
    cited += ["VIS-8"] if phase == "window" and length == 1 else []
    cited.append("VIS-1" if phase == "decode" else "VIS-2")
    if before.offset:
        cited.append("GROW-1" if window is None else "RING-1")
    cited += _round_clauses(before, after)
    cited += _past_clauses(after)
    cited += ["OWN-8"] if config.poison else []
    cited += ["READ-12"] if call.verb == "known" else []
    cited += ["PREC-8"] if before.past.converted else []
    cited += ["PREC-7", "READ-10"] if before.storage == "affine" else []
    cited += ["PREC-14"] if before.converted and after.past.related else []
    cited += ["VIS-3", "VIS-4", "VIS-5", "VIS-6", "GROW-4"]
    cited += ["VIS-10"] if config.batch > 1 or config.kv_heads > 1 else []
    return tuple(cited)


def _argument_clauses(window: int | None, argument: int | None) -> list[str]:
    if argument is None:
        return []
    if window is None:
        return ["MASK-4"]
    if argument == window:
        return []
    return ["MASK-8"] if argument < window else ["MASK-9"]


def _round_clauses(before: Model, after: Model) -> list[str]:
    inside = ["ROUND-6", "ROUND-5"] if before.round is not None else []
    codes = ["ROUND-10"] if after.past.rounds and before.storage == "affine" else []
    return inside + (["ROUND-3", "ROUND-4"] if after.past.rolled else ["ROUND-1"] if after.past.rounds else []) + codes


def _past_clauses(after: Model) -> list[str]:
    past = after.past
    situations = {
        past.spoilt: bool(past.spoilt),
        past.loaded: bool(past.loaded),
        "REUSE-5": past.reused,
        "REUSE-4": past.reused or past.published,
        "PERS-2": bool(past.loaded),
        "PERS-4": bool(past.loaded) or past.saved,
        "PERS-6": bool(past.loaded) and after.storage == "affine",
        "GROW-2": past.grew,
        "GROW-8": len(past.styles) > 1,
        "READ-5": bool(past.unread),
        "OWN-7": past.reset,
        "ROWS-12": past.lent and past.joined,
        "ROWS-15": past.lent,
        "ROWS-4": past.joined_others,
        "OWN-2": past.related,
        "OWN-3": past.related,
        "ERR-1": past.refused,
    }
    return [clause_id for clause_id, arose in situations.items() if arose]


def layout_clauses(before: Model, after: Model, call: Call, phase: Phase) -> tuple[str, ...]:
    """Cite what the order of columns rests on after an append."""
    converted = ("PREC-9",) if after.past.converted else ()
    compiled = ("DEC-4",) if call.verb == "compiled" else ()
    return (*compiled, *converted, *_append_clauses(before, call, phase))


def _append_clauses(before: Model, call: Call, phase: Phase) -> tuple[str, ...]:
    state = before.state
    if before.round is not None and isinstance(state, index.Ring):
        return ("ROUND-8", "ROUND-15")
    sinks = ("RING-13",) if before.layer.sinks else ()
    if isinstance(state, index.Full):
        alike = ("READ-1",) if call.verb == "window" and call.appends == 1 else ()
        return ("READ-8",) if call.verb == "dense" else (*alike, "GROW-1")
    cited = ["READ-8"] if call.verb == "dense" else []
    if phase == "decode":
        cited += ["RING-6"] if index.overshoot(state) else []
        cited += ["RING-3"] if state.write_index >= state.window else []
        cited += ["RING-7"] if index.added_columns(state) else []
        return (*cited, "RING-2", *sinks)
    cited += ["READ-1"] if call.appends == 1 else []
    cited += ["RING-15"] if before.past.trimmed and state.columns > state.write_index else []
    cited += ["RING-5"] if not before.offset and call.appends > state.window else []
    return (*cited, "RING-4", *sinks)


def mask_clauses(before: Model, phase: Phase, argument: int | None) -> tuple[str, ...]:
    """Cite what the form of a mask rests on."""
    narrow = argument is not None
    if before.layer.window is None:
        return ("MASK-5",) if narrow else ("MASK-2",) if phase == "decode" else ("MASK-3",)
    if phase == "window":
        return ("MASK-7",)
    return ("MASK-10",) if narrow and argument < before.layer.window else ("MASK-6",)


def policy_clauses(model: Model) -> tuple[str, ...]:
    """Cite what the storage of a cache with a policy rests on."""
    start = model.layer.start
    if start is None:
        return ("PREC-11",)
    if start == "never":
        return ("PREC-3",)
    return ("PREC-2", "PREC-1") if start == 0 else ("PREC-1",)


def form_clauses(before: Model, after: Model) -> tuple[str, ...]:
    """Cite what a read fetches by: codes, or the tensors of an append that a conversion follows."""
    if before.storage == "affine":
        return ("PREC-11", "READ-10") if before.layer.start is None else ("READ-10",)
    first = ("PREC-2",) if before.layer.start == 0 and not before.offset else ()
    return (*first, "PREC-4", "PREC-1") if after.converted else policy_clauses(before)


def probe_clauses(before: Model, call: Call, phase: Phase) -> tuple[str, ...]:
    """Cite what the answer to a probe rests on."""
    cited: list[str] = ["DEC-3"] if call.verb == "compiled" else []
    if before.storage == "affine":
        cited += ["READ-15"] if getattr(call, "array", False) and phase == "window" else []
        cited.append("READ-11")
    return (*cited, "READ-3", "READ-4")


def offset_clauses(after: Model, call: Call | None) -> tuple[str, ...]:
    """Cite what the offset rests on after a call that was carried out."""
    lent = ("ROWS-15",) if after.past.lent else ("ROWS-4",) if after.past.joined_others else ()
    related = (*lent, "OWN-3") if after.past.related else ()
    related = ("PERS-4", *related) if after.past.loaded or after.past.saved else related
    related = ("REUSE-4", *related) if after.past.reused or after.past.published else related
    if call is None:
        return ("POS-1",)
    if call.appends:
        past_window = after.layer.window is not None and after.offset > after.layer.window
        compiled = ("DEC-1",) if call.verb == "compiled" else ()
        return (*compiled, "POS-3", "POS-2") if past_window else (*compiled, "POS-2")
    cited = {
        "begin_round": ("ROUND-16",),
        "commit_round": ("ROUND-1",),
        "roll_back": ("ROUND-2",),
        "trim": ("POS-4", "TRIM-3"),
        "reset": ("OWN-7",),
        "clone": ("OWN-2",),
        "mask": ("MASK-12", "POS-5"),
        "list": ("POS-1",),
    }
    return cited.get(call.verb, (*related, "POS-5"))
