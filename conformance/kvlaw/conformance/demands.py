"""What a target can be asked: by its capabilities, and the policies, dtypes and codes with which it is checked.

A question that it cannot be asked is *unsupported*, whoever asks: an adapter in this process, or a testee in another.
"""

from collections.abc import Iterator

from attrs import frozen

from kvlaw.conformance.interface import UnsupportedError
from kvlaw.spec.calls import Append, Attend, Call, Filter, Load, MakeMask, Prepare, Trim
from kvlaw.spec.config import Config, DType, LayerSpec, Policy
from kvlaw.spec.contract import CAPABILITIES


@frozen
class Demands:
    """What one target says of itself, as far as it decides what can be asked."""

    capabilities: frozenset[str]
    policies: tuple[Policy, ...]
    dtypes: tuple[DType, ...]
    code_bits: tuple[int, ...]

    def check_opening(self, config: Config) -> None:
        """Raise ``UnsupportedError`` for an opening that the target is not checked with."""
        if config.layer.policy not in self.policies:
            raise UnsupportedError(f"the target is checked with {' and '.join(self.policies)} storage")
        if config.dtype not in self.dtypes:
            raise UnsupportedError(f"the target is checked with {' and '.join(self.dtypes)}")
        self.check_layer(config.layer)

    def check_layer(self, layer: LayerSpec) -> None:
        """Raise ``UnsupportedError`` for a layer that the target is not checked with."""
        self._demand(*(("recurrent",) if layer.is_recurrent else ()))
        self._demand(*(("sinks",) if layer.sinks > 0 else ()))
        self._demand(*(() if layer.policy == "dense" else ("policy", layer.policy)))
        self._demand(*(("value_bits",) if layer.bits_of_values != layer.bits else ()))
        if layer.problem is None and layer.bits and not {layer.bits, layer.bits_of_values} <= set(self.code_bits):
            raise UnsupportedError(f"the target is checked with codes of {' and '.join(map(str, self.code_bits))} bits")

    def check_call(self, call: Call) -> None:
        """Raise ``UnsupportedError`` for a call that the target does not have."""
        self._demand(*needs(call))

    def _demand(self, *capabilities: str) -> None:
        for name in capabilities:
            if name not in self.capabilities:
                raise UnsupportedError(f"the target lacks {name}: {CAPABILITIES[name]}")


_VERBS = {
    "cache": "rows",
    "merge": "merge",
    "extract": "extract",
    "hand_back": "hand_back",
    "filter": "filter",
    "prepare": "padding",
    "finalize": "padding",
    "begin_prefill": "bracket",
    "commit_prefill": "bracket",
    "end_prefill": "bracket",
    **dict.fromkeys(("begin_round", "commit_round", "roll_back"), "rounds"),
    **dict.fromkeys(("save", "load", "damage"), "files"),
    **dict.fromkeys(("publish", "reuse"), "reuse"),
    "advance": "recurrent",
    "known": "known",
    "compiled": "compiled",
    "dense": "dense",
    "mask": "mask",
    "trim": "trim",
    "clone": "clone",
    "state": "state",
    "reset": "reset",
}
_OPTIONS = {"window": "window_argument", "array": "as_array", "bypass": "bypass"}


def needs(call: Call) -> Iterator[str]:
    """Name the capabilities without which a call cannot be asked."""
    if call.verb == "list":
        yield "lists"
    if call.verb in _VERBS:
        yield _VERBS[call.verb]
    if isinstance(call, Attend) and call.malformed is not None:
        yield "attend"
    if isinstance(call, Load) and call.other:
        yield "fingerprint"
    if isinstance(call, Prepare) and any(call.left or ()):
        yield "left_padding"
    if isinstance(call, Filter) and not call.rows:
        yield "empty_group"
    if isinstance(call, Append | MakeMask | Trim):
        given = {option: getattr(call, option, None) for option in _OPTIONS}  # a window of 0 is one that is given
        yield from (_OPTIONS[option] for option, value in given.items() if value is not None and value is not False)


__all__ = ["Demands", "needs"]
