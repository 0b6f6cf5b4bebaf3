"""Tensors from token ids: the *stamp* that tells every token, row, head and side apart by its bytes.

``code`` makes small exact integers in which four probes work at once (exact on every backend, ``numerics.md`` section
4):

* keys: 14 columns of +-1 (the binary code of the id), one strictly rising level, then lanes for row, head and id;
* values: id (two base-256 lanes), head, row, then a one-hot of the id.

With scale 1 the queries *newest* and *oldest* (the level), *pointer* (the code of one visible id) give back the value
bytes of exactly that token; *census* (all zero) gives every visible token the same weight, so its one-hot lanes show
the set. ``random`` makes arbitrary finite bits, for the comparison with the NumPy model of MLX's arithmetic.
"""

from functools import cached_property
from typing import cast, get_args

import numpy as np
import numpy.typing as npt
from attrs import define, evolve, field, frozen

from kvlaw.reference.codes import Codec, Side
from kvlaw.reference.numerics.formats import decode, encode
from kvlaw.spec.calls import Malformed
from kvlaw.spec.config import Config, DType
from kvlaw.spec.observations import Bits, Form, Payload

CODE_BITS = 14
LEVEL = CODE_BITS
LANES = LEVEL + 1
HEAD_LANES = 4
PINS = 2
PLACE_LANES = 4
POINTER_GAIN = 512.0
SIDES: tuple[Side, ...] = get_args(Side)
PROBES = ("newest", "pointer", "oldest", "census")
MOST_TOKENS = {"bf16": 14000, "f16": 1022, "f32": 1 << 14}
WIDEST = np.float32(1e38)
"""Bound of random elements that become codes: where high - low of a group overflows, all groups have the same codes."""
Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


def levels(count: int, dtype: DType) -> Floats:
    """Give ``count`` rising levels, each exact in ``dtype``, neighbours far enough apart that softmax picks one.

    Gaps are at least 1024 (f16: 128, where e^-128 is 0 in float32 as well).
    """
    ids = np.arange(count)
    if dtype == "f32":
        return (ids * 1024.0).astype(np.float32)
    if dtype == "f16":
        return ((np.minimum(ids, 1022) - 511) * 128.0).astype(np.float32)
    exact = decode(np.arange(0x7F00, dtype=np.uint16), "bf16")
    rising = np.concatenate([np.arange(0, 128 * 1024, 1024).astype(np.float32), exact[exact >= 128 * 1024]])
    return rising[np.minimum(ids, len(rising) - 1)]


@frozen
class Owner:
    """Whose bytes a column holds."""

    token: int
    row: int
    head: int


@define
class Stamper:
    """The tensors of one configuration, by token id; tables grow as ids are used."""

    config: Config
    _known: int = field(default=0, init=False)
    _tables: dict[tuple[str, Form], Bits] = field(factory=dict[tuple[str, Form], Bits], init=False)
    _owners: dict[tuple[str, Form], dict[bytes, Owner]] = field(
        factory=dict[tuple[str, Form], dict[bytes, Owner]], init=False
    )

    def table(self, side: str, most: int, form: Form = "dense") -> Bits:
        """Give the bits of one side, ``[ids, B, Hkv, D]``, for ids up to ``most`` at least (dense id 0 is all zero).

        In the form ``affine`` a column is the codes of that token, as ``join_codes`` lays them.
        """
        if most >= self._known:
            self._grow(max(128, 2 * most))
        return self._tables[side, form]

    def owners(self, side: str, form: Form = "dense") -> dict[bytes, Owner]:
        """Map the bytes of one head's column to whose they are."""
        return self._owners.setdefault((side, form), {})

    @property
    def grid(self) -> bool:
        """Stamps are drawn on a grid whose codes are exact (numerics.md section 4)."""
        return self.config.bits is not None

    @property
    def fits(self) -> bool:
        """The groups divide both head dims, so that there are codes (PREC-13)."""
        return self.codec.fits

    @cached_property
    def codec(self) -> Codec:
        """The codec of the configuration's storage policy."""
        c = self.config
        return Codec(c.layer, c.dtype, c.head_dim, c.value_dim)

    def _grow(self, count: int) -> None:
        coded = self._gridded if self.grid else self._coded
        keys, values = (coded if self.config.stamp == "code" else self._random)(count)
        self._tables = {("keys", "dense"): keys, ("values", "dense"): values}
        for side in SIDES if self.grid else ():
            self._tables[side, "affine"], self._tables[side, "restored"] = self._codes(
                side, self._tables[side, "dense"]
            )
        for (side, form), table in self._tables.items():
            known = self.owners(side, form)
            for token in range(max(1, self._known), count):
                for row in range(self.config.batch):
                    for head in range(self.config.kv_heads):
                        known[table[token, row, head].tobytes()] = Owner(token, row, head)
        self._known = count

    def _coded(self, count: int) -> tuple[Bits, Bits]:
        c = self.config
        ids = np.arange(count)
        rows, heads = np.arange(c.batch)[None, :, None], np.arange(c.kv_heads)[None, None, :]
        keys = np.zeros((count, c.batch, c.kv_heads, c.head_dim), np.float32)
        keys[..., :CODE_BITS] = self._code(ids)[:, None, None, :]
        keys[..., LEVEL] = levels(count, c.dtype)[:, None, None]
        keys[..., LANES] = 1 + rows
        keys[..., LANES + 1] = 1 + heads
        rest = np.arange(c.head_dim - LANES - 2)
        keys[..., LANES + 2 :] = ((ids[:, None] * 7 + rest * 3) % 11 - 5)[:, None, None, :]
        values = np.zeros((count, c.batch, c.kv_heads, c.value_dim), np.float32)
        values[..., 0] = (ids % 256)[:, None, None]
        values[..., 1] = (ids // 256 + 1)[:, None, None]
        values[..., 2], values[..., 3] = 1 + heads, 1 + rows
        values[ids, :, :, HEAD_LANES + ids % self.census_width] = 1
        keys[0], values[0] = 0, 0
        return encode(keys, c.dtype), encode(values, c.dtype)

    def _codes(self, side: Side, table: Bits) -> tuple[Bits, Bits]:
        """Quantize a table column by column, and restore it; nothing if no group divides the width (PREC-13)."""
        if table.shape[-1] % self.config.group:
            return np.zeros((*table.shape[:-1], 0), np.uint32), table
        codes = self.codec.encode(side, table)
        restored = self.codec.decode(side, codes)
        restored[0] = 0
        return codes, restored

    def free(self, side: Side) -> Ids:
        """List the lanes of a grid stamp that are not pinned to an end code."""
        lanes = np.arange(self.codec.width(side))
        return lanes[lanes % self.config.group >= PINS]

    def _gridded(self, count: int) -> tuple[Bits, Bits]:
        """Stamp on the grid: both end codes in every group, so that scale 1 and every value come back exactly."""
        ids, c = np.arange(count), self.config
        keys, values = self._pinned(count, "keys"), self._pinned(count, "values")
        own = self.free("keys")
        keys[..., own[:CODE_BITS]] = self._code(ids)[:, None, None, :]
        self._place(keys, own[CODE_BITS : CODE_BITS + PLACE_LANES])
        rest = np.arange(len(own) - CODE_BITS - PLACE_LANES)
        keys[..., own[CODE_BITS + PLACE_LANES :]] = ((ids[:, None] * 7 + rest * 3) % 3 - 1)[:, None, None, :]
        own = self.free("values")
        values[..., own[:CODE_BITS]] = ((ids[:, None] >> np.arange(CODE_BITS)) & 1)[:, None, None, :]
        self._place(values, own[CODE_BITS : CODE_BITS + PLACE_LANES])
        values[ids, :, :, self.census_lanes[ids % self.census_width]] = 1
        keys[0], values[0] = 0, 0
        return encode(keys, c.dtype), encode(values, c.dtype)

    def _pinned(self, count: int, side: Side) -> Floats:
        c, half = self.config, 1 << (self.codec.bits(side) - 1)
        table = np.zeros((count, c.batch, c.kv_heads, self.codec.width(side)), np.float32)
        table[..., 0 :: c.group], table[..., 1 :: c.group] = -half, half - 1
        return table

    def _place(self, table: Floats, lanes: Ids) -> None:
        """Write row and head in two bits each."""
        rows = np.arange(self.config.batch)[None, :, None]
        heads = np.arange(self.config.kv_heads)[None, None, :]
        for bit in range(PLACE_LANES // 2):
            table[..., lanes[bit]] = (rows >> bit) & 1
            table[..., lanes[PLACE_LANES // 2 + bit]] = (heads >> bit) & 1

    @staticmethod
    def _code(ids: npt.NDArray[np.int64]) -> Floats:
        return (((ids[..., None] >> np.arange(CODE_BITS)) & 1) * 2 - 1).astype(np.float32)

    def _random(self, count: int) -> tuple[Bits, Bits]:
        c = self.config
        keys = self._wild(count, c.head_dim, 1)
        return keys, self._wild(count, c.value_dim, 2)

    def _wild(self, count: int, width: int, side: int) -> Bits:
        """Draw bits per id by counter: values of ordinary size, and for every 16th id any finite bits."""
        c = self.config
        shape = (c.batch, c.kv_heads, width)
        table = np.zeros((count, *shape), np.uint32 if c.dtype == "f32" else np.uint16)
        for token in range(1, count):
            rng = np.random.Generator(np.random.Philox(key=[c.seed * 4 + side, token]))
            drawn = encode(rng.standard_normal(shape, dtype=np.float32), c.dtype)
            if token % 16 == 0:
                drawn = rng.integers(0, np.iinfo(table.dtype).max, shape, dtype=table.dtype, endpoint=True)
                most = WIDEST if self.grid else np.float32(np.inf)
                fine = np.abs(decode(drawn, c.dtype)) < most  # NaN is not
                drawn = np.where(fine, drawn, np.array(1, table.dtype)).astype(table.dtype)
            table[token] = drawn
        return table

    @cached_property
    def census_lanes(self) -> Ids:
        """List the one-hot lanes of a value."""
        if self.grid:
            return self.free("values")[CODE_BITS + PLACE_LANES :]
        return np.arange(HEAD_LANES, self.config.value_dim)

    @cached_property
    def census_width(self) -> int:
        """Count the one-hot lanes of a value."""
        return len(self.census_lanes)

    @cached_property
    def code_lanes(self) -> Ids:
        """List the lanes of a key that carry the binary code of its token."""
        return self.free("keys")[:CODE_BITS] if self.grid else np.arange(CODE_BITS)

    # Payloads.

    def payload(self, tokens: tuple[int, ...], queries: Bits) -> Payload:
        """Make the tensors of an append."""
        ids, most = list(tokens), max(tokens, default=0)
        keys = np.ascontiguousarray(self.table("keys", most)[ids].transpose(1, 2, 0, 3))
        values = np.ascontiguousarray(self.table("values", most)[ids].transpose(1, 2, 0, 3))
        return Payload(tokens, keys, values, queries, self.config.dtype, self.scale)

    @property
    def scale(self) -> float:
        """The softmax scale: 1 for probes, an odd value for arithmetic."""
        return 1.0 if self.config.stamp == "code" else 0.3

    def probe(self, head: int, turn: int) -> str:
        """Say which probe a query head asks at a given turn."""
        probe = PROBES[(head % self.config.groups + turn) % len(PROBES)]
        return "pointer" if self.grid and probe != "census" else probe  # a grid has no room for levels

    def counts(self, turn: int) -> bool:
        """Say whether one of the query heads asks for the census at a given turn."""
        return any(self.probe(head, turn) == "census" for head in range(self.config.groups))

    def queries(self, pointers: Ids, turn: int, seed: int = 0) -> Bits:
        """Make queries ``[B, H, L, D]``; ``pointers[i]`` is the id that query i's pointer probes ask for."""
        c = self.config
        shape = (c.batch, c.heads, len(pointers), c.head_dim)
        if c.stamp == "random":
            rng = np.random.Generator(np.random.Philox(key=[c.seed * 4 + 3, seed]))
            return encode(rng.standard_normal(shape, dtype=np.float32), c.dtype)
        queries = np.zeros(shape, np.float32)
        for head in range(c.heads):
            probe = self.probe(head, turn)
            if probe == "pointer":
                queries[:, head][..., self.code_lanes] = POINTER_GAIN * self._code(pointers)
            elif probe != "census":
                queries[:, head, :, LEVEL] = 1.0 if probe == "newest" else -1.0
        return encode(queries, c.dtype)


def spoil(payload: Payload, how: Malformed, decode_call: bool) -> Payload:
    """Spoil the tensors of an append in one way (ERR-2 to ERR-4)."""
    keys, values, held = payload.keys, payload.values, cast("DType", payload.dtype)
    dtype = held
    if how == "rank":
        keys, values = keys[0], values[0]
    elif how == "batch":
        keys, values = np.concatenate([keys, keys]), np.concatenate([values, values])
    elif how == "heads":
        keys, values = np.concatenate([keys, keys], 1), np.concatenate([values, values], 1)
    elif how == "head_dim":
        keys = keys[..., :-8]
    elif how == "lengths":
        values = np.concatenate([values, values[:, :, :1]], 2)
    elif how == "two":
        times = 2 if decode_call else keys.shape[2]
        keys, values = keys[:, :, [0] * times], values[:, :, [0] * times]
    elif how == "empty":
        keys, values = keys[:, :, :0], values[:, :, :0]
    elif how == "dtype":
        dtype = "f32" if held != "f32" else "bf16"
        keys, values = (encode(decode(x, held), dtype) for x in (keys, values))
    return Payload(payload.tokens, keys, values, payload.queries, dtype, payload.scale)


def spoil_queries(payload: Payload, how: Malformed) -> Payload:
    """Spoil the queries of a read that is asked again, in one way (READ-9)."""
    queries = payload.queries
    if how == "heads":
        return evolve(payload, queries=queries[:, [0, *range(queries.shape[1])]])
    if how in ("lengths", "two"):
        return evolve(payload, queries=queries[:, :, [0, *range(queries.shape[2])]])
    spoilt = spoil(Payload((), queries, queries, queries, payload.dtype), how, decode_call=True)
    return evolve(payload, queries=spoilt.keys, dtype=spoilt.dtype)
