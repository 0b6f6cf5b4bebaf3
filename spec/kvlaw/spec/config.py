"""The configuration with which a trace opens its first cache.

A configuration may be an impossible one (a window of 0, as many sinks as the window): whether a cache refuses it is
itself a question of the specification (RING-14, ERR-6).  ``Config.problem`` names what is wrong.
"""

from typing import Literal, get_args

from attrs import evolve, field, frozen, validators

DType = Literal["bf16", "f16", "f32"]
Kind = Literal["full", "ring", "full_rows", "ring_rows", "recurrent", "recurrent_rows"]
Look = Literal["every", "last"]
StampName = Literal["code", "random"]

DTYPES: tuple[DType, ...] = get_args(DType)
KINDS: tuple[Kind, ...] = get_args(Kind)
SERIAL_KINDS: tuple[Kind, ...] = ("full", "ring")
WINDOWED: tuple[Kind, ...] = ("ring", "ring_rows")
"""The kinds that keep a window."""
ROW_KINDS: tuple[Kind, ...] = ("full_rows", "ring_rows")
"""The kinds of a group of keys and values: rows of their own that share one geometry."""
RECURRENT_KINDS: tuple[Kind, ...] = ("recurrent", "recurrent_rows")
"""The kinds that hold a state instead of keys and values: of one sequence, and of rows of their own."""
CONV = 4
"""How many positions the convolution of a recurrent layer reads at once, unless it says otherwise."""
ITEM_SIZE: dict[str, int] = {"bf16": 2, "f16": 2, "f32": 4}
CODE_BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)
Storage = Literal["dense", "affine"]
Policy = Literal["dense", "affine", "bf16_first"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
Start = int | Literal["never"] | None


@frozen
class LayerSpec:
    """What one layer's cache is: its kind, for a ring its window and sinks (in positions), and its storage policy.

    A recurrent layer has neither: ``conv`` is how many positions its convolution reads at once (4 if it does not say).

    Without ``bits`` it stays dense. With ``bits`` it holds affine codes (keys of ``bits``, values of ``value_bits`` or
    as many), in groups of ``group`` along the head dim: from the first append, or with ``start`` from the end of the
    append that brings the offset to ``start`` on (``bf16_first``; ``"never"`` stays dense).
    """

    kind: Kind = field(validator=validators.in_(KINDS))
    window: int | None = None
    sinks: int = 0
    bits: int | None = None
    value_bits: int | None = None
    group: int = 64
    start: Start = None
    conv: int | None = None

    @property
    def problem(self) -> str | None:
        """Say why such a cache cannot be built, or None (RING-14, ERR-6, PREC-13)."""
        return self.conv_problem or self.ring_problem or self.policy_problem

    @property
    def conv_problem(self) -> str | None:
        """Say why there cannot be such a convolution, or such a recurrent layer, or None (REC-12, ERR-6)."""
        if not self.is_recurrent:
            return None if self.conv is None else "only a recurrent layer has a convolution"
        if self.window is not None or self.sinks or self.bits is not None:
            return "a recurrent layer takes no window, no sinks and no bits"
        return None if self.kernel >= 1 else f"a convolution reads at least 1 position, not {self.kernel}"

    @property
    def kernel(self) -> int:
        """Positions that the convolution of a recurrent layer reads at once."""
        return CONV if self.conv is None else self.conv

    @property
    def is_recurrent(self) -> bool:
        """Say whether it holds a state instead of keys and values."""
        return self.kind in RECURRENT_KINDS

    @property
    def policy_problem(self) -> str | None:
        """Say why such a storage policy cannot be had, or None (PREC-13)."""
        if self.bits is None:
            given = self.value_bits is not None or self.start is not None
            return "value_bits and start need bits" if given else None
        for name, bits in (("bits", self.bits), ("value_bits", self.bits_of_values)):
            if bits not in CODE_BITS:
                return f"{name} is one of {', '.join(map(str, CODE_BITS))}, not {bits}"
        if self.group not in GROUPS:
            return f"a group is one of {', '.join(map(str, GROUPS))}, not {self.group}"
        negative = isinstance(self.start, int) and self.start < 0
        return f"start is a number of positions from 0 on, or never, not {self.start}" if negative else None

    @property
    def is_rows(self) -> bool:
        """Say whether it is a group of rows."""
        return self.kind in (*ROW_KINDS, "recurrent_rows")

    @property
    def grows(self) -> bool:
        """Say whether it grows for ever, rather than keeping a window."""
        return self.kind in ("full", "full_rows")

    @property
    def serial(self) -> "LayerSpec":
        """The same layer as a cache of one sequence."""
        return evolve(self, kind="recurrent" if self.is_recurrent else "full" if self.grows else "ring")

    @property
    def grouped(self) -> "LayerSpec":
        """The same layer as a group of rows."""
        grouped: Kind = "recurrent_rows" if self.is_recurrent else "full_rows" if self.grows else "ring_rows"
        return evolve(self, kind=grouped)

    @property
    def ring_problem(self) -> str | None:
        """Say why such a kind, window and sinks cannot be had, or None (ERR-6)."""
        if self.is_recurrent:
            return None
        if self.grows:
            return "a growing cache takes no window and no sinks" if self.window is not None or self.sinks else None
        if self.is_rows and self.sinks:
            return "the rows of a group pin no sinks"
        if self.window is None or self.window < 1:
            return f"a ring needs a window of at least 1, not {self.window}"
        if not 0 <= self.sinks < self.window:
            return f"a ring of window {self.window} can pin 0 to {self.window - 1} sinks, not {self.sinks}"
        return None

    @property
    def policy(self) -> Policy:
        """The kind of its storage policy."""
        return "dense" if self.bits is None else "affine" if self.start is None else "bf16_first"

    @property
    def bits_of_values(self) -> int | None:
        """Bits of a value's code: ``value_bits``, or as many as a key's."""
        return self.bits if self.value_bits is None else self.value_bits

    def describe(self) -> str:
        """Write the layer as the text form does: ``ring window=8 sinks=2 bits=4 start=5``."""
        parts: list[str] = [self.kind] + ([] if self.window is None else [f"window={self.window}"])
        parts += [f"sinks={self.sinks}"] if self.sinks else []
        options = (("bits", self.bits), ("value_bits", self.value_bits), ("start", self.start), ("conv", self.conv))
        parts += [f"{name}={value}" for name, value in options if value is not None]
        return " ".join([*parts, *([f"group={self.group}"] if self.group != 64 else [])])  # the default

    @property
    def identity(self) -> str:
        """The identity that a cache of this layer reports (ID-1)."""
        if self.is_recurrent:
            return f"{self.kind}(conv={self.kernel})"
        parts = [] if self.grows else [f"window={self.window}", f"sinks={self.sinks}"]
        if self.bits is not None:
            parts.append(f"bits={self.bits}")
            parts += [f"value_bits={self.value_bits}"] if self.value_bits not in (None, self.bits) else []
            parts += [f"group={self.group}", *([] if self.start is None else [f"start={self.start}"])]
        return f"{self.kind}({','.join(parts)})" if parts else self.kind


def _at_least(least: int, *, default: int) -> int:
    """Make a field for a size; its bound is also written into the JSON Schema."""
    return field(default=default, validator=validators.ge(least), metadata={"schema": {"minimum": least}})


@frozen
class Config(LayerSpec):
    """A trace's opening: the first cache ``c0``, the shapes of its tensors, and how the harness looks at it.

    Keys are ``[batch, kv_heads, L, head_dim]``, values ``[batch, kv_heads, L, value_dim]``, queries
    ``[batch, kv_heads * groups, L, head_dim]``.  ``look="last"`` evaluates nothing until the end of the trace, so that
    lazy and aliasing faults show; ``poison`` overwrites the caller's arrays after every append (OWN-8).

    A group opens with ``rows`` empty rows (2 if it does not say); each row is one sequence, so that ``batch`` is 1.
    """

    dtype: DType = field(default="bf16", validator=validators.in_(DTYPES))
    rows: int | None = field(
        default=None, validator=validators.optional(validators.ge(0)), metadata={"schema": {"minimum": 0}}
    )
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
    def problem(self) -> str | None:
        """Say why such an opening cannot be had, or None (RING-14, ERR-6, PREC-13)."""
        return self.conv_problem or self.ring_problem or self.rows_problem or self.policy_problem

    @property
    def rows_problem(self) -> str | None:
        """Say why so many rows or sequences cannot be had, or None (ERR-6)."""
        if not self.is_rows and self.rows is not None:
            return "only a group takes rows"
        if not self.is_rows and not self.is_recurrent:
            return None
        if self.is_recurrent and not self.is_rows:
            return f"a recurrent cache is of one sequence: batch 1, not {self.batch}" if self.batch != 1 else None
        return f"a group has one sequence in a row: batch 1, not {self.batch}" if self.batch != 1 else None

    @property
    def row_count(self) -> int:
        """Rows with which a group opens."""
        return 2 if self.rows is None else self.rows

    @property
    def layer(self) -> LayerSpec:
        """The layer part alone."""
        return LayerSpec(
            self.kind, self.window, self.sinks, self.bits, self.value_bits, self.group, self.start, self.conv
        )

    @property
    def heads(self) -> int:
        """Query heads: ``kv_heads * groups``."""
        return self.kv_heads * self.groups

    @property
    def token_bytes(self) -> int:
        """Bytes that one dense position of one row takes (GROW-5)."""
        return self.kv_heads * (self.head_dim + self.value_dim) * ITEM_SIZE[self.dtype]

    @property
    def code_bytes(self) -> int:
        """Bytes that one position of one row takes in codes: words, scales and biases (GROW-9)."""
        words = (self.head_dim * (self.bits or 0) + self.value_dim * (self.bits_of_values or 0)) // 8
        groups = (self.head_dim + self.value_dim) // self.group
        return self.kv_heads * (words + groups * 2 * ITEM_SIZE[self.dtype])

    def bytes_of(self, storage: Storage) -> int:
        """Bytes that one position of one row takes in a storage."""
        return self.token_bytes if storage == "dense" else self.code_bytes
