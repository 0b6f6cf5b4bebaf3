"""Comparisons of what a cache shows of its state: numbers, limits, columns, answers and handed-out arrays."""

import re
from typing import Any

from kvlaw.conformance.differences import Check, Difference, Shown
from kvlaw.conformance.natures import held_nature, torn_nature
from kvlaw.reference.expectation import Expected
from kvlaw.reference.model import Model
from kvlaw.spec.text_form import format_tokens


def _number(name: str) -> Check:
    def check(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
        value: Any = getattr(shown.after, name, None)
        if value is None:
            return None
        return [] if value == expected.value else [Difference(name, str(expected.value), str(value))]

    return check


def _bound(name: str, lowest: bool) -> Check:
    def check(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
        value = getattr(shown.after, name, None)
        if value is None:
            return None
        fine = value >= expected.value if lowest else value <= expected.value
        return [] if fine else [Difference(name, f"at {'least' if lowest else 'most'} {expected.value}", str(value))]

    return check


def _per_column(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    after = shown.after
    if after is None or after.nbytes is None or after.columns is None:
        return None
    wanted = after.columns * expected.value
    words = f"{after.columns} columns of {expected.value} = {wanted}"
    return [] if after.nbytes == wanted else [Difference("nbytes", words, str(after.nbytes))]


def _can_trim(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    flags = shown.after.can_trim if shown.after else None
    if not flags:
        return None
    wanted = tuple(expected.value)[: len(flags)]
    return [] if flags[: len(wanted)] == wanted else [Difference("can_trim", _counts(wanted), _counts(flags))]


def _counts(flags: tuple[bool, ...]) -> str:
    able = [str(n) for n, flag in enumerate(flags) if flag]
    return "can trim " + (", ".join(able) if able else "nothing")


def _layers_can_trim(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    """Compare what a list says it can trim with what its layers say, each for itself (TRIM-14)."""
    flags = shown.after.can_trim if shown.after else None
    said = [layer.state.can_trim for layer in shown.observation.layers if layer.state is not None]
    if flags is None or not said or len(said) < len(shown.observation.layers):
        return None
    known = [layer for layer in said if layer is not None]
    if len(known) < len(said):
        return None
    wanted = tuple(all(n < len(layer) and layer[n] for layer in known) for n in range(len(flags)))
    return [] if flags == wanted else [Difference("can_trim", _counts(wanted), _counts(flags))]


def _identity(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    said = shown.after.identity if shown.after else None
    if said is None:
        return None
    anothers = re.fullmatch(r"(full|ring)(_rows)?(\(window=\d+,sinks=\d+\))?", said)
    policy = () if _policy(said) == _policy(expected.value) else ("PREC-12",)
    nature = (*policy, "ID-2", "ID-3" if anothers else "ID-1")
    return [] if said == expected.value else [Difference("identity", expected.value, said, nature)]


def _policy(identity: str) -> list[str]:
    """List the parts of an identity that name a storage policy."""
    return re.findall(r"(?:bits|value_bits|group|start)=\w+", identity)


def _answer(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    answer = shown.observation.answer
    if answer is None:
        return None
    return [] if answer == expected.value else [Difference("answer", str(expected.value), str(answer))]


def _held(expected: Expected, shown: Shown, model: Model | None) -> list[Difference] | None:
    after = shown.after
    if after is None or after.held is None:
        return None
    grows = model is not None and model.layer.window is None
    held = after.held[: len(expected.value)] if grows else after.held
    torn = next((what for _, column, what in after.torn if column < len(held)), None)
    if torn is not None:
        codes = ("ROUND-10", "PREC-7") if after.form == "affine" and "no token" in torn else ()
        return [Difference("torn", "keys and values of one token", torn, (*codes, *torn_nature(torn)))]
    if held == tuple(expected.value):
        return []
    nature = held_nature(held, tuple(expected.value), model)
    return [Difference("held", format_tokens(expected.value), format_tokens(held), nature)]


def _spare(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.respelt is None:
        return None
    wanted = "in spare columns the codes of what stood in them"
    return [Difference("spare", wanted, f"other codes in column {shown.respelt[0]}")] if shown.respelt else []


def _handed(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.handed_same is None:
        return None
    same = "the same arrays as when they were handed out"
    return [] if shown.handed_same else [Difference("handed", same, "other bytes", ("OWN-10",) if shown.moved else ())]


def _ids(name: str) -> Check:
    def check(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
        held = getattr(shown.after, name, None)
        if held is None:
            return None
        return [] if held == expected.value else [Difference(name, named_ids(expected.value), named_ids(held))]

    return check


def _answers(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    answers = shown.read.answers if shown.read is not None else None
    if answers is None:
        return None
    wanted = tuple(expected.value)
    if answers == wanted:
        return []
    query = next((q for q, pair in enumerate(zip(answers, wanted, strict=False)) if pair[0] != pair[1]), None)
    return [Difference("answers", named_ids(wanted), named_ids(answers), query=query)]


def named_ids(ids: tuple[int, ...]) -> str:
    """Write ids one by one: ``_`` is nothing, ``?`` what is no token's."""
    return ",".join("_" if token == 0 else "?" if token < 0 else f"t{token}" for token in ids) or "nothing"


STATE_CHECKS: dict[str, Check] = {
    "rows": _number("rows"),
    "round": _number("round"),
    "offset": _number("offset"),
    "size": _number("size"),
    "columns": _number("columns"),
    "columns_max": _bound("columns", lowest=False),
    "nbytes": _number("nbytes"),
    "tail": _ids("tail"),
    "slots": _ids("slots"),
    "answers": _answers,
    "nbytes_min": _bound("nbytes", lowest=True),
    "nbytes_max": _bound("nbytes", lowest=False),
    "nbytes_per_column": _per_column,
    "bytes_per_token": _number("bytes_per_token"),
    "identity": _identity,
    "storage": _number("storage"),
    "floor": _number("floor"),
    "max_append": _number("max_append"),
    "write_index": _number("write_index"),
    "can_trim": _can_trim,
    "layers_can_trim": _layers_can_trim,
    "answer": _answer,
    "held": _held,
    "spare": _spare,
    "handed": _handed,
}
"""Field of a state, or of what a call answers, to the check of it."""
