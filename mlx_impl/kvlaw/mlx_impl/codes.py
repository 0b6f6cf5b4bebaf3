"""Planes of affine codes: the same plans as for dense planes move six arrays instead of two.

``AffineStore`` is the configuration, a codec and a kernel set; it begins planes, and converts dense ones as they lie.
``AffinePlanes`` holds, for keys and for values, words, scales and biases.  An append quantizes the new columns once;
nothing else ever quantizes.
"""

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.codec import Codec, Codes, as_codes
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.geometry import Index, Plan, columns_index
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.kernels import Coded, KernelSet
from kvlaw.mlx_impl.masks import Lease, Mask, meaning_of
from kvlaw.mlx_impl.planes import DensePlanes, Keys, Values, moved, taken
from kvlaw.spec.cite import clause


@attrs.frozen
class AffineStore:
    """What codes are made and attended with; where an affine cache begins, and a dense one is converted to."""

    codec: Codec
    kernels: KernelSet

    storage = "affine"

    @clause("PREC-11")
    def begin(self, plan: Plan, keys: Keys, values: Values) -> "tuple[AffinePlanes, AffinePlanes]":
        """Carry out the first ``plan`` of an empty cache."""
        return _carry_out(self, plan, None, None, keys, values)

    @clause("PREC-7", "PREC-8", "PREC-9")
    def convert(self, dense: DensePlanes) -> "AffinePlanes":
        """Quantize every allocated column where it lies, spare and stale ones included."""
        return AffinePlanes(self, self.codec.encode_keys(dense.keys), self.codec.encode_values(dense.values))

    def bytes_per_token(self, layout: Layout) -> int:
        """Return the bytes of one position of one row."""
        return self.codec.bytes_per_token(layout)


class AffinePlanes:
    """Words ``[B, H, S, D * bits / 32]``, scales and biases ``[B, H, S, D / group]`` of keys and of values."""

    __slots__ = ("__weakref__", "keys", "store", "values")

    def __init__(self, store: AffineStore, keys: Codes, values: Codes) -> None:
        self.store = store
        self.keys = keys
        self.values = values

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        return self.keys[1].shape[2]

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return the six planes by name, as arrays that belong to the caller."""
        named: dict[str, mx.array] = {}
        for side, codes in (("key", self.keys), ("value", self.values)):
            for part, array in zip(("words", "scales", "biases"), codes, strict=True):
                named[f"{side}_{part}"] = array[...]
        return named

    @property
    def nbytes(self) -> int:
        """Return the bytes of words, scales and biases."""
        return sum(part.nbytes for part in (*self.keys, *self.values))

    @clause("PREC-7", "GROW-2", "GROW-4")
    def append(self, plan: Plan, keys: Keys, values: Values) -> "tuple[AffinePlanes, AffinePlanes]":
        """Quantize the new columns and carry out ``plan``; return what is stored, and what the plan fetches of it."""
        return _carry_out(self.store, plan, self.keys, self.values, keys, values)

    @clause("READ-10")
    def at(self, index: Index) -> "AffinePlanes":
        """Take a range of columns."""
        return AffinePlanes(self.store, _each(self.keys, index), _each(self.values, index))

    def fetched(self, plan: Plan) -> "AffinePlanes":
        """Take the columns that ``plan`` fetches."""
        sides = ([taken(part, plan) for part in codes] for codes in (self.keys, self.values))
        return AffinePlanes(self.store, *(as_codes(side) for side in sides))

    def first(self, columns: int) -> "AffinePlanes":
        """Take the first ``columns`` columns."""
        return self.at(columns_index(0, columns))

    def row(self, row: int) -> "AffinePlanes":
        """Take one row."""
        return AffinePlanes(self.store, _each(self.keys, slice(row, row + 1)), _each(self.values, slice(row, row + 1)))

    @clause("READ-10")
    def stored(self) -> tuple[Codes, Codes]:
        """Return the codes of keys and of values, arrays that belong to the caller."""
        return _each(self.keys, ...), _each(self.values, ...)

    @clause("READ-14")
    def dense(self) -> tuple[Keys, Values]:
        """Return keys and values dequantized."""
        codec = self.store.codec
        return codec.decode_keys(self.keys), codec.decode_values(self.values)

    @clause("READ-11", "READ-15")
    def attend(self, queries: mx.array, scale: float, mask: Mask, sinks: mx.array | None) -> mx.array:
        """Attend ``queries`` over all columns by the kernel that the meaning of the mask chooses.

        Raises:
            ConfigError: if there are learned sinks: only dense storage attends with them.
        """
        if sinks is not None:
            raise ConfigError("learned sinks over codes", "only dense storage attends with them", "READ-9")
        meaning = meaning_of(mask)
        hidden = "causal" if meaning == "causal" else mask.array if isinstance(mask, Lease) else None
        coded = Coded(self.keys, self.values, self.store.codec)
        return self.store.kernels.choose(meaning)(queries, coded, scale, hidden)


def _carry_out(
    store: AffineStore, plan: Plan, old_keys: Codes | None, old_values: Codes | None, keys: Keys, values: Values
) -> tuple[AffinePlanes, AffinePlanes]:
    moved_keys = _move(old_keys, plan, store.codec.encode_keys(keys))
    held = AffinePlanes(store, moved_keys, _move(old_values, plan, store.codec.encode_values(values)))
    return held, held if plan.fetch is None else held.fetched(plan)


def _move(old: Codes | None, plan: Plan, new: Codes) -> Codes:
    if old is None:
        return as_codes([moved(None, plan, part) for part in new])
    return as_codes([moved(part, plan, fresh) for part, fresh in zip(old, new, strict=True)])


def _each(codes: Codes, index: object) -> Codes:
    return as_codes([part[index] for part in codes])
