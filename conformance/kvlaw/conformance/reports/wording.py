"""What a step asked and what came: the one demand that was not met, in words that need no name of a field.

A record names the field in which law and target part (``sights``, ``mask_width``) and, before it, the row, the layer
and the query (``row 1 query 0 sights``).  Readers see a demand and an observation of the same form, and nothing that
they would have to compare with them: ``demanded`` and ``shown``; what else the target showed at that step is ``aside``.
"""

from typing import NamedTuple

from kvlaw.conformance.events import StepShown


class Told(NamedTuple):
    """How a field is told: ``about`` as a noun, ``label`` before its value where that does not speak for itself."""

    about: str
    label: str = ""


FIELDS: dict[str, Told] = {
    "sights": Told("what a query sees"),
    "foretold": Told("what the mask handed out before lets a query see"),
    "dense_sights": Told("what is handed out", "hands out"),
    "fetched": Told("the order of what is handed out", "hands out, in this order,"),
    "outcome": Told("whether the call is carried out"),
    "answer": Told("what the call answers", "answers"),
    "held": Told("which tokens lie in the slots", "holds"),
    "slots": Told("what lies in each slot", "slots hold"),
    "tail": Told("what lies in the spare slots", "spare slots hold"),
    "spare": Told("the codes in spare columns"),
    "torn": Told("whether keys and values belong together", "stores"),
    "handed": Told("the arrays that were handed out earlier", "arrays handed out earlier:"),
    "can_trim": Told("how many positions it says it can drop"),
    "offset": Told("the offset, which is the position of the next token", "offset"),
    "order": Told("the order in which tokens are fetched", "fetches, in this order,"),
    "form": Told("the form of what is fetched", "fetches"),
    "mask": Told("the form of the mask", "mask:"),
    "mask_array": Told("the entries of the mask", "mask (x is visible):"),
    "mask_width": Told("the shape of the mask"),
    "probes": Told("the outputs of attention", "output:"),
    "apart": Told("the outputs of single queries", "outputs:"),
    "finite": Told("the outputs of padding", "output:"),
    "answers": Told("whose values the outputs are", "reads"),
    "rows": Told("how many rows there are", "rows:"),
    "round": Told("whether a round is open", "a round is open:"),
    "size": Told("the size that it reports", "size"),
    "columns": Told("how many columns are allocated", "columns allocated:"),
    "nbytes": Told("the bytes that it reports", "bytes:"),
    "bytes_per_token": Told("the bytes per token that it reports", "bytes per token:"),
    "identity": Told("the identity that it reports", "identity"),
    "storage": Told("the storage that it reports", "storage:"),
    "floor": Told("the reuse floor, below which it lends no prefix", "reuse floor:"),
    "max_append": Told("how long an append may be without converting", "longest append without conversion:"),
    "write_index": Told("the slot that is written next", "next slot:"),
}
"""The fields of a divergence; one that is not here is told by its name."""

_ANSWERS = {"trim": "drops", "reuse": "finds"}
"""What the number means that a call answers."""


def about(field: str) -> str:
    """Say what a field is about, of which row, layer or query."""
    where, _, name = field.rpartition(" ")
    told = FIELDS[name].about if name in FIELDS else name
    return f"{told}, {where}" if where else told


def told(field: str, value: str, call: str = "") -> str:
    """Tell a value of a field: whose it is, what it is, and the value; ``call`` is the call that was made."""
    where, _, name = field.rpartition(" ")
    label = FIELDS[name].label if name in FIELDS else f"{name}:"
    label = _ANSWERS.get(call.partition(" ")[0], label) if name == "answer" else label
    return " ".join(part for part in (where, label, value) if part)


def demanded(step: StepShown) -> str:
    """Tell what the law demands at a step: of a step that parts from it the one demand that was not met."""
    return _cell(step, step.expected, step.law)


def shown(step: StepShown) -> str:
    """Tell what the target showed at a step, in the form of ``demanded``."""
    return _cell(step, step.observed, step.shown)


def _cell(step: StepShown, value: str, words: str) -> str:
    if not step.diverges:
        return words
    if step.field.rpartition(" ")[2] != "outcome" or words == "ok" or value not in ("ok", "refused"):
        return told(step.field, value, step.call)
    return told(step.field, value if words.startswith(value) else f"{value}, {words}")


def aside(step: StepShown) -> str:
    """Tell what else the target showed at a step that parts from the law; nothing where that is all said."""
    said = step.shown == "ok" or step.shown in shown(step) or step.observed in step.shown
    return step.shown if step.diverges and not said else ""


__all__ = ["FIELDS", "Told", "about", "aside", "demanded", "shown", "told"]
