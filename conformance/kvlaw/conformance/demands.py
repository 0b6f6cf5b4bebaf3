"""What a target can be asked: by its capabilities, and the policies, dtypes and codes with which it is checked.

A question that it cannot be asked is *unsupported*, whoever asks: an adapter in this process, or a testee in another.
"""

from collections.abc import Iterator

from attrs import fields, frozen

from kvlaw.conformance.interface import UnsupportedError
from kvlaw.reference.numerics.quantized_attention import KernelSet
from kvlaw.spec.calls import DAMAGES, Append, Attend, Call, Damage, Filter, Load, MakeMask, Prepare, Trim
from kvlaw.spec.config import CODE_BITS, DTYPES, POLICIES, Config, DType, Kind, LayerSpec, Policy
from kvlaw.spec.contract import CAPABILITIES


@frozen
class Terms:
    """With what one target is checked, as it says itself.

    Its kinds of cache (none: it does not say), its kinds of storage policy, the dtypes of tensors and the bits of
    codes, the ways to spoil its files, and the order of operations of its reads of codes.
    """

    kinds: tuple[Kind, ...] = ()
    policies: tuple[Policy, ...] = POLICIES
    dtypes: tuple[DType, ...] = DTYPES
    code_bits: tuple[int, ...] = CODE_BITS
    damages: tuple[Damage, ...] = DAMAGES
    kernel_set: KernelSet = "unfused"

    @classmethod
    def of(cls, told: object) -> "Terms":
        """Take them from whoever says them: an adapter, a testee's hello, a subject of somebody else's."""
        said = {a.name: getattr(told, a.name) for a in fields(cls) if hasattr(told, a.name)}
        return cls(**said)


def terms_of(subject: object) -> Terms:
    """Give the terms of a subject; of one that has none those that it says by their names."""
    terms = getattr(subject, "terms", None)
    return terms if isinstance(terms, Terms) else Terms.of(subject)


@frozen
class Demands:
    """What one target says of itself, as far as it decides what can be asked."""

    capabilities: frozenset[str]
    terms: Terms

    def check_opening(self, config: Config) -> None:
        """Raise ``UnsupportedError`` for an opening that the target is not checked with."""
        if config.layer.policy not in self.terms.policies:
            raise UnsupportedError(f"the target is checked with {' and '.join(self.terms.policies)} storage")
        if config.dtype not in self.terms.dtypes:
            raise UnsupportedError(f"the target is checked with {' and '.join(self.terms.dtypes)}")
        self.check_layer(config.layer)

    def check_layer(self, layer: LayerSpec) -> None:
        """Raise ``UnsupportedError`` for a layer that the target is not checked with."""
        self._demand(*(("recurrent",) if layer.is_recurrent else ()))
        self._demand(*(("sinks",) if layer.sinks > 0 else ()))
        self._demand(*(() if layer.policy == "dense" else ("policy", layer.policy)))
        self._demand(*(("value_bits",) if layer.bits_of_values != layer.bits else ()))
        bits = self.terms.code_bits
        if layer.problem is None and layer.bits and not {layer.bits, layer.bits_of_values} <= set(bits):
            raise UnsupportedError(f"the target is checked with codes of {' and '.join(map(str, bits))} bits")

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
