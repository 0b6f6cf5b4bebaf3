"""Groups of rows with the calls of our own contract, and the serial caches beside them.

A group has the calls of ``contract_type`` (``append_decode``, ``append_window``, and the optional ones) for arrays
``[B, H, L, D]``, one entry per row on the batch axis, and says how many ``rows`` it has and their ``offsets``. Optional
are ``extract(row)`` and ``hand_back(row)``, which answer a serial cache, ``filter(rows)``, ``prepare(left, lengths,
right)`` (each None or a number for each row) and ``finalize()``, ``begin_prefill()``, ``commit_prefill(rows)`` and
``end_prefill()``, and ``merge(sources)``, which answers a new group of caches and groups and is asked of the first of
them, or of the group's class.

Of a row is shown, if it is there, ``sizes`` (one number each), ``storage_of(row)``, ``floor_of(row)``,
``max_append_of(row)``, and ``row_planes(row)``: ``keys`` and ``values`` ``[1, H, columns, D]``, or ``key_words``,
``key_scales``, ``key_biases`` and the same of values. A read of rows that are stored in different ways has ``rows``, a
read of each, and then no ``keys`` of its own. A state is a mapping, of which arrays and whole numbers are looked at
again; ``positions`` is one of the arrays.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, cast

import numpy as np
from attrs import evolve

from kvlaw.conformance.interface import NonsenseError, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import WORDS, attribute, bound, has, is_triple, number, word
from kvlaw.conformance.subjects.arrays import Arrays
from kvlaw.conformance.subjects.contract_type import ContractAdapter, is_contract_type
from kvlaw.conformance.subjects.row_calls import RowCalls
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import StateView

MakeRows = Callable[[LayerSpec, int, Config], Any]
ROW_CALLS = {
    "extract": {"extract"},
    "hand_back": {"hand_back"},
    "filter": {"filter"},
    "merge": {"merge"},
    "prepare": {"padding", "left_padding"},
    "commit_prefill": {"bracket"},
}
"""Optional method of a group to the capabilities that it brings."""
_OF_ROWS = {"sizes": "size", "floor_of": "floor"}
_NUMBERS = ("columns", "write_index", "nbytes", "bytes_per_token")
_PARTS = ("words", "scales", "biases")


def is_contract_group(cache: Any) -> bool:
    """Say whether an object is a group of rows with the calls of our contract."""
    return is_contract_type(cache) and has(cache, "offsets") and has(cache, "rows")


class ContractRowsAdapter(RowCalls, ContractAdapter):
    """Asks groups, and the serial caches beside them, by the calls of our contract."""

    def __init__(
        self, arrays: Arrays, make: Callable[[LayerSpec, Config], Any], make_rows: MakeRows, example: Any
    ) -> None:
        """Adapt groups that ``make_rows`` builds and caches that ``make`` builds; ``example`` is a group."""
        super().__init__(arrays, make, example)
        self.make_rows = make_rows
        able = {"rows", "empty_group"} | {
            a for name, brings in ROW_CALLS.items() if callable(getattr(example, name, None)) for a in brings
        }
        able -= set() if callable(getattr(example, "finalize", None)) else {"padding", "left_padding"}
        able |= {shows for name, shows in _OF_ROWS.items() if has(example, name)}
        able |= {"planes"} if callable(getattr(example, "row_planes", None)) else set()
        self.capabilities = (self.capabilities - {"bypass"}) | able
        self.shows |= self.capabilities
        self.writes_index = "write_index" in self.shows

    # Making groups.

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make a group of empty rows."""
        return self.make_rows(layer, rows, self.config)

    def merge(self, sources: Sequence[Any]) -> Any:
        """Ask the first group among the sources, or the class of groups."""
        first = next((source for source in sources if is_contract_group(source)), None)
        asked = first if first is not None else self.make_rows(self.config.layer.grouped, 0, self.config)
        return asked.merge(list(sources))

    def hand_back(self, group: Any, row: int) -> Any:
        """Take a row out that goes on by the group's policy."""
        return group.hand_back(row)

    # Changing groups.

    def begin_prefill(self, group: Any) -> None:
        """Open the bracket."""
        group.begin_prefill()

    def commit_prefill(self, group: Any, rows: Sequence[int]) -> None:
        """Settle rows."""
        group.commit_prefill(list(rows))

    def end_prefill(self, group: Any) -> None:
        """Close the bracket."""
        group.end_prefill()

    # Reads.

    def fetched_rows(self, read: Any) -> Sequence[tuple[Any, Any]] | None:
        """Give what each row fetched, where the rows are stored in different ways."""
        try:
            whole = attribute(read, "keys", None) is not None
        except Exception:  # it has no keys that are one array
            whole = False
        rows: Any = None if whole else attribute(read, "rows", None)
        return None if rows is None else [(row.keys, row.values) for row in rows]

    # Looking at groups.

    def row_count(self, group: Any) -> int:
        """Count the rows."""
        return number(group, "rows") or 0

    def show(self, cache: Any) -> StateView:
        """Show a serial cache, or what a group shows as a whole."""
        if not is_contract_group(cache):
            return super().show(cache)
        most = max((*self._offsets(cache), 0))
        numbers: dict[str, Any] = {name: number(cache, name) for name in _NUMBERS if name in self.shows}
        words: dict[str, Any] = {name: word(cache, name) for name in WORDS if name in self.shows}
        can_trim = tuple(bool(cache.can_trim(n)) for n in range(most + 2)) if "can_trim" in self.shows else None
        left = bound(cache) if "max_append" in self.shows else None
        rows, rounds = self.row_count(cache), self.round_of(cache)
        return StateView(can_trim=can_trim, max_append=left, rows=rows, round=rounds, **numbers, **words)

    def show_rows(self, group: Any) -> Sequence[StateView]:
        """Show what each row shows, and its planes."""
        offsets = self._offsets(group)
        sizes: Any = attribute(group, "sizes") if has(group, "sizes") else (None,) * len(offsets)
        return [self._row(group, row, offset, sizes[row]) for row, offset in enumerate(offsets)]

    def _row(self, group: Any, row: int, offset: int, size: int | None) -> StateView:
        view = StateView(offset=offset, size=size)
        if has(group, "storage_of") and "storage" in self.shows:
            view = evolve(view, storage=group.storage_of(row))
        if "floor" in self.capabilities:
            view = evolve(view, floor=index(group.floor_of(row)))
        if "max_append" in self.capabilities and has(group, "max_append_of"):
            left = group.max_append_of(row)
            view = evolve(view, max_append="unbounded" if left is None else left)
        return evolve(view, **self._planes_of(group, row))

    def _planes_of(self, group: Any, row: int) -> dict[str, Any]:
        if not callable(getattr(group, "row_planes", None)):
            return {}
        planes: Mapping[str, Any] = group.row_planes(row)
        sides = [_side(planes, "key"), _side(planes, "value")]
        if any(side is None for side in sides):
            return {"columns": 0}
        if all(is_triple(side) for side in sides):
            keys, values = (self._joined(cast("Sequence[Any]", side)) for side in sides)
            return {"columns": keys.shape[2], "keys": keys, "values": values, "form": "affine"}
        self.arrays.settle(sides)
        keys, values = (self.arrays.bits(side) for side in sides)
        return {"columns": keys.shape[2], "keys": keys, "values": values, "form": "dense"}

    def _offsets(self, group: Any) -> list[int]:
        given: Any = attribute(group, "offsets")
        if self.arrays.is_array(given):
            self.arrays.settle([given])
            given = np.asarray(self.arrays.bits(given)).tolist()
        try:
            return [index(offset) for offset in given]
        except TypeError as error:
            raise NonsenseError(f"offsets is {given!r:.60}, not one whole number for each row") from error

    def state(self, cache: Any) -> Mapping[str, Any]:
        """Hand out the state: of a group its arrays, its whole numbers, and its positions."""
        if not is_contract_group(cache):
            return super().state(cache)
        state: Any = cache.state()
        if not isinstance(state, Mapping):
            raise UnsupportedError("the state of the group is no mapping")
        named = cast("Mapping[str, Any]", state)
        kept = {name: value for name, value in named.items() if isinstance(value, int) or self.arrays.is_array(value)}
        return {**kept, **({"positions": cache.positions} if has(cache, "positions") else {})}


def _side(planes: Mapping[str, Any], side: str) -> Any:
    """Give a plane, or a triple of codes; None if there is none."""
    if f"{side}_{_PARTS[0]}" in planes:
        return tuple(planes[f"{side}_{part}"] for part in _PARTS)
    return planes.get(f"{side}s")


__all__ = ["ContractRowsAdapter", "is_contract_group"]
