"""The configuration with which a trace opens its first cache.

A configuration may be an impossible one (a window of 0, as many sinks as the window): whether a cache refuses it is
itself a question of the specification (RING-14, ERR-6).  ``Config.problem`` names what is wrong.
"""

from typing import Literal, get_args

from attrs import field, frozen, validators

DType = Literal["bf16", "f16", "f32"]
Kind = Literal["full", "ring"]
Look = Literal["every", "last"]
StampName = Literal["code", "random"]

DTYPES: tuple[DType, ...] = get_args(DType)
KINDS: tuple[Kind, ...] = get_args(Kind)
ITEM_SIZE: dict[str, int] = {"bf16": 2, "f16": 2, "f32": 4}


@frozen
class LayerSpec:
    """What one layer's cache is: its kind, and for a ring its window and sinks (all in positions)."""

    kind: Kind = field(validator=validators.in_(KINDS))
    window: int | None = None
    sinks: int = 0

    @property
    def problem(self) -> str | None:
        """Say why such a cache cannot be built, or None (RING-14, ERR-6)."""
        if self.kind == "full":
            return "a growing cache takes no window and no sinks" if self.window is not None or self.sinks else None
        if self.window is None or self.window < 1:
            return f"a ring needs a window of at least 1, not {self.window}"
        if not 0 <= self.sinks < self.window:
            return f"a ring of window {self.window} can pin 0 to {self.window - 1} sinks, not {self.sinks}"
        return None

    def describe(self) -> str:
        """Write the layer as the text form does: ``ring window=8 sinks=2``."""
        if self.kind == "full" and self.window is None and not self.sinks:
            return "full"
        parts = [self.kind] + ([] if self.window is None else [f"window={self.window}"])
        return " ".join([*parts, *([f"sinks={self.sinks}"] if self.sinks else [])])

    @property
    def identity(self) -> str:
        """The identity that a cache of this layer reports (ID-1)."""
        return "full" if self.kind == "full" else f"ring(window={self.window},sinks={self.sinks})"


def _at_least(least: int, *, default: int) -> int:
    """Make a field for a size; its bound is also written into the JSON Schema."""
    return field(default=default, validator=validators.ge(least), metadata={"schema": {"minimum": least}})


@frozen
class Config(LayerSpec):
    """A trace's opening: the first cache ``c0``, the shapes of its tensors, and how the harness looks at it.

    Keys are ``[batch, kv_heads, L, head_dim]``, values ``[batch, kv_heads, L, value_dim]``, queries
    ``[batch, kv_heads * groups, L, head_dim]``.  ``look="last"`` evaluates nothing until the end of the trace, so that
    lazy and aliasing faults show; ``poison`` overwrites the caller's arrays after every append (OWN-8).
    """

    dtype: DType = field(default="bf16", validator=validators.in_(DTYPES))
    batch: int = _at_least(1, default=1)
    kv_heads: int = _at_least(1, default=2)
    groups: int = _at_least(1, default=2)
    head_dim: int = _at_least(32, default=64)
    value_dim: int = _at_least(32, default=64)
    stamp: StampName = field(default="code", validator=validators.in_(get_args(StampName)))
    look: Look = field(default="every", validator=validators.in_(get_args(Look)))
    poison: bool = False
    seed: int = 0

    @property
    def layer(self) -> LayerSpec:
        """The layer part alone."""
        return LayerSpec(self.kind, self.window, self.sinks)

    @property
    def heads(self) -> int:
        """Query heads: ``kv_heads * groups``."""
        return self.kv_heads * self.groups

    @property
    def token_bytes(self) -> int:
        """Bytes that one position of one row takes (GROW-5)."""
        return self.kv_heads * (self.head_dim + self.value_dim) * ITEM_SIZE[self.dtype]
