"""The protocol that the oracle, every cache, every process and every planted fault implement."""

from typing import Protocol

from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Observation, Payload


class Subject(Protocol):
    """A small world of named objects that answers calls with observations.

    ``capabilities`` names what the subject can do and show; a clause that needs another is *not applicable* to it.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities of ``CAPABILITIES`` that this subject has."""
        ...

    def open(self, config: Config) -> Observation:
        """Forget everything and make the cache ``c0``; a refusal is an answer."""
        ...

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        """Carry out ``call``; with ``look`` show everything there is to see, without it evaluate nothing."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


CAPABILITIES: dict[str, str] = {
    "attend": "its read attends queries and shows the output",
    "mask": "it hands out the mask of the next append",
    "as_array": "it hands out that mask as an array when asked",
    "window_argument": "its masks take a window argument",
    "dense": "it fetches keys and values for a graph that attends by itself",
    "phases": "decode and window are two calls, told apart by name",
    "planes": "it shows its allocated planes",
    "columns": "it shows how many columns are allocated",
    "size": "it reports a size",
    "nbytes": "it reports its bytes",
    "bytes_per_token": "it reports bytes per token",
    "identity": "it reports an identity",
    "storage": "it reports what storage it holds",
    "trim": "it can be asked to drop the newest positions",
    "can_trim": "it says beforehand what it can trim",
    "bypass": "it can cut the newest columns of its last window",
    "clone": "it can be cloned",
    "state": "it hands out its state",
    "reset": "it can be reset",
    "sinks": "it can pin the first positions of a ring",
    "policy": "it can be built with a storage policy: bits, group, start",
    "affine": "it can hold codes from the first append on",
    "bf16_first": "it can hold half precision first, and convert it to codes",
    "value_bits": "the codes of its values can have other bits than those of its keys",
    "codes": "it shows the codes that it holds and fetches",
    "floor": "it reports its reuse floor",
    "max_append": "it says how many positions make it due: an append of that many converts, of one fewer does not",
    "known": "it appends decided tokens, each attended with one-query arithmetic",
    "list_appends": "an append to a list of layers reaches all of them or none",
    "rows": "it keeps several rows, each a sequence of its own, in a group",
    "empty_group": "a group of it may have no rows",
    "merge": "it makes a group of groups and caches",
    "extract": "it makes a cache of one row of a group",
    "hand_back": "it makes a cache of one row that goes on by the policy of its group",
    "filter": "it keeps some rows of a group, in an order of the caller's",
    "padding": "it takes a prefill with padding behind the shorter rows, and is told when that ends",
    "left_padding": "it takes a prefill with padding before the shorter rows",
    "bracket": "it takes a prefill in several appends in which no row changes its storage",
    "rounds": "it takes back the positions that were appended since a round was begun, all but some",
    "files": "it can be saved to a file and loaded again",
    "reuse": "what it holds can be published, and lent to prompts that begin alike",
    "fingerprint": "its files say for which model they were saved, and are refused for another",
    "compiled": "it decodes by a compiled step",
    "recurrent": "it holds the state of a recurrent layer: the tail of its convolution, and a matrix",
    "lists": "a list of layers can be trimmed, cloned and asked as one",
}
"""Every capability, and what a subject that has it does."""

ROW_CAPABILITIES = frozenset(
    ("rows", "empty_group", "merge", "extract", "hand_back", "filter", "padding", "left_padding", "bracket")
)
"""The capabilities of groups."""
