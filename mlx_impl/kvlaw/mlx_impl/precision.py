"""When a cache holds codes: never, from the first append on, or from a position on.

A ``Precision`` is a value that a cache is built with and keeps for life:

* ``dense()``: keys and values stay as they were appended;
* ``affine(bits, ...)``: codes from the first append on;
* ``bf16_first(start, bits, ...)``: half precision first; *due* at the end of an append that brings the offset to
  ``start`` or beyond (and past 0), it is converted once, in place, and never back.

A conversion sets the *reuse floor*, the offset at which it took place: what stands below was attended in half precision
by tokens that a later reader would compute over codes.  With ``start = 0`` there is none (as in mlx-lm).
"""

from typing import Literal, Protocol

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.codec import make_codec
from kvlaw.mlx_impl.codes import AffineStore
from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import ConfigError, DTypeError
from kvlaw.mlx_impl.geometry import Plan
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.kernels import UNFUSED, make_kernels
from kvlaw.mlx_impl.planes import DENSE_STORE, DensePlanes, Keys, Planes, Values
from kvlaw.spec.cite import clause

Start = int | Literal["never"] | None


class Store(Protocol):
    """How planes of one kind begin, and what a position of them takes."""

    @property
    def storage(self) -> str:
        """Name the kind."""
        ...

    def begin(self, plan: Plan, keys: Keys, values: Values) -> tuple[Planes, Planes]:
        """Carry out the first ``plan`` of an empty cache."""
        ...

    def bytes_per_token(self, layout: Layout) -> int:
        """Return the bytes of one position of one row."""
        ...


@attrs.frozen(cache_hash=True)
class Precision:
    """A storage policy; made by ``dense``, ``affine`` and ``bf16_first``, which check it.

    ``codes`` is what codes are made with, None for a cache that stays dense; ``start`` is None unless half precision
    comes first; ``dtype`` is the only one that the kernel set can attend, None if it takes any.
    """

    codes: AffineStore | None = None
    start: Start = None
    dtype: mx.Dtype | None = attrs.field(default=None, eq=str)  # mx.Dtype refuses to be compared with None

    @property
    def first(self) -> Store:
        """Return the store of an empty cache."""
        return DENSE_STORE if self.codes is None or self.start is not None else self.codes

    @property
    def boundary(self) -> int | None:
        """Return the offset at which a cache that holds half precision is to be converted; None for never."""
        return self.start if isinstance(self.start, int) else None

    @property
    @clause("PREC-12")
    def fields(self) -> str:
        """Write the policy as an identity does, empty for a dense one."""
        if self.codes is None:
            return ""
        return self.codes.codec.describe + ("" if self.start is None else f",start={self.start}")

    @clause("PREC-1", "PREC-2", "PREC-3")
    def due(self, offset: int) -> bool:
        """Say whether a cache that holds half precision at ``offset`` is to be converted."""
        boundary = self.boundary
        return boundary is not None and offset >= boundary and offset != 0

    @clause("PREC-5")
    def floor(self, offset: int) -> int:
        """Return the reuse floor of a conversion at ``offset``: the offset itself, or 0 with ``start = 0``."""
        return offset if self.boundary else 0

    @clause("PREC-10")
    def max_append(self, offset: int) -> int | None:
        """Return how many positions make it due; None: unbounded.

        An append of exactly that many converts when it ends, one of fewer does not.
        """
        boundary = self.boundary
        return boundary - offset if boundary is not None and offset < boundary else None

    @clause("PREC-13")
    def check(self, layout: Layout) -> None:
        """Check what a first append brings.

        Raises:
            ShapeError: if a head dim is no multiple of the group.
            DTypeError: if the kernel set was built for another dtype.
        """
        if self.codes is None:
            return
        self.codes.codec.check(layout)
        if self.dtype is not None and layout.dtype != self.dtype:
            possible = f"the kernel set {self.codes.kernels.name} was built for {self.dtype}"
            raise DTypeError(f"an append of {layout.dtype}", possible, "READ-15")

    @clause("PREC-4", "PREC-8")
    def convert(self, planes: Planes) -> Planes:
        """Return dense planes as codes, and any others as they are."""
        return self.codes.convert(planes) if self.codes and isinstance(planes, DensePlanes) else planes


def dense() -> Precision:
    """Make the policy of a cache that never holds codes."""
    return Precision()


@clause("PREC-11", "PREC-13")
def affine(
    bits: int,
    value_bits: int | None = None,
    group: int = 64,
    *,
    kernels: str = "unfused",
    dtype: mx.Dtype | None = None,
) -> Precision:
    """Make the policy of a cache that holds codes from the first append on.

    ``bits`` are those of a key's code, ``value_bits`` of a value's (as many, if None), ``group`` is how many elements
    share a scale.  ``kernels`` names the kernel set; a tiled one needs the ``dtype`` of what will be appended.

    Raises:
        ConfigError: if bits, group or kernel set are impossible.
    """
    codec = make_codec(bits, value_bits, group)
    chosen = make_kernels(kernels, codec, dtype)
    return Precision(AffineStore(codec, chosen), None, None if chosen is UNFUSED else dtype)


@clause("PREC-13")
def bf16_first(
    start: int | Literal["never"],
    bits: int,
    value_bits: int | None = None,
    group: int = 64,
    *,
    kernels: str = "unfused",
    dtype: mx.Dtype | None = None,
) -> Precision:
    """Make the policy of a cache that holds what was appended until its offset reaches ``start``, and codes then.

    With ``start = 0`` the first append is stored and read as it was, and converted after it; ``"never"`` never
    converts.  The rest is as for ``affine``.

    Raises:
        ConfigError: if start, bits, group or kernel set are impossible.
    """
    if start != "never":
        found = as_integer(start)
        if found is None or found < 0:
            raise ConfigError(f"start {start!r}", "an integer of at least 0, or 'never', is needed", "PREC-13")
        start = found
    return attrs.evolve(affine(bits, value_bits, group, kernels=kernels, dtype=dtype), start=start)


def make_precision(
    bits: int | None,
    value_bits: int | None = None,
    group: int = 64,
    start: Start = None,
    kernels: str = "unfused",
    dtype: mx.Dtype | None = None,
) -> Precision:
    """Make the policy that a layer's configuration describes: dense without ``bits``, affine without ``start``.

    Raises:
        ConfigError: if it is impossible, or start or value bits come without bits.
    """
    if bits is None:
        if start is not None or value_bits is not None:
            raise ConfigError("start or value_bits without bits", "bits are needed", "PREC-13")
        return dense()
    if start is None:
        return affine(bits, value_bits, group, kernels=kernels, dtype=dtype)
    return bf16_first(start, bits, value_bits, group, kernels=kernels, dtype=dtype)
