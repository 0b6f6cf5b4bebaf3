"""Where a group stands: its state, and all that can be asked of it without a change.

Rows are counted from 0.  What is one per row is a tuple, what all rows share is a number.  ``groups.RowGroup`` adds
what changes a group.
"""

from typing import Any, Self

import mlx.core as mx

from kvlaw.mlx_impl.codec import Codes
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.counts import as_count, as_integer
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.geometry import RingGeometry
from kvlaw.mlx_impl.group_content import GroupContent, always, fresh
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Place, empty, row_index
from kvlaw.mlx_impl.group_planes import Flags
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Mask
from kvlaw.mlx_impl.planes import DENSE_STORE, Planes
from kvlaw.mlx_impl.plans import Last
from kvlaw.mlx_impl.precision import Precision
from kvlaw.spec.cite import clause


class GroupStanding:
    """The state of a group, and every question about it that changes nothing."""

    __slots__ = (
        "__weakref__",
        "_converted",
        "_floors",
        "_geometry",
        "_layout",
        "_mask",
        "_planes",
        "_positions",
        "_prefilling",
        "_waiting",
        "policy",
    )

    policy: Precision
    """When its rows hold codes, and which."""

    _geometry: GroupGeometry
    _planes: Planes | None
    _layout: Layout | None
    _converted: Flags
    _floors: tuple[int, ...]
    _prefilling: bool
    _waiting: bool  # whether rows are left that an append may convert
    _mask: Mask  # the lease of the last mask, so that the other layers of a forward find it
    _positions: mx.array | None

    def __init__(self, content: GroupContent) -> None:
        self._geometry, self._positions = content.geometry, None
        self._hold(content)

    @classmethod
    def of_empty_rows(cls, start: Place, policy: Precision, rows: int) -> Self:
        """Make a group of ``rows`` empty rows."""
        return cls(fresh(policy, GroupGeometry(empty(start), (0,) * rows)))

    @property
    def place(self) -> Place:
        """Return where the columns stand that all rows share."""
        return self._geometry.place

    @property
    def planes(self) -> Planes | None:
        """Return its columns, None while there are none; nobody changes them."""
        return self._planes

    @property
    def content(self) -> GroupContent:
        """Return all that it holds now, as a value that does not change with it."""
        return GroupContent(
            self.policy, self._geometry, self._planes, self._layout, self._converted, self._floors, self._prefilling
        )

    def hold(self, content: GroupContent) -> None:
        """Hold ``content``, of a group of the same kind and policy."""
        self._hold(content)

    def _hold(self, content: GroupContent) -> None:
        if content.geometry.offsets != self._geometry.offsets:
            self._positions = None
        self.policy = content.policy
        self._geometry, self._planes, self._layout = content.geometry, content.planes, content.layout
        self._converted, self._floors, self._prefilling = content.converted, content.floors, content.prefilling
        self._waiting = content.policy.boundary is not None and not all(content.converted)
        self._mask = None

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    @clause("ROWS-27", "PREC-12")
    def identity(self) -> str:
        """Return the configuration as text: ``full_rows``, ``ring_rows(window=8,sinks=0,bits=4,group=64)``."""
        ring = "" if self.window is None else f"window={self.window},sinks=0"
        fields = ",".join(filter(None, (ring, self.policy.fields)))
        kind = "full_rows" if self.window is None else "ring_rows"
        return f"{kind}({fields})" if fields else kind

    @property
    @clause("PREC-25")
    def storage(self) -> str:
        """Return what its rows hold: ``dense``, ``affine``, and with a start ``dense``, ``mixed`` or ``packed``."""
        if self.policy.start is None:
            return "affine" if always(self.policy) else "dense"
        if not any(self._converted):
            return "dense"
        return "packed" if all(self._converted) else "mixed"

    def storage_of(self, row: int) -> str:
        """Return ``dense`` or ``affine``.

        Raises:
            RowError: if there is no such row, as for everything that is asked of one.
        """
        return "affine" if self._converted[self._row(row)] else "dense"

    @property
    def window(self) -> int | None:
        """Return the window of a ring, None for a growing group."""
        return self._geometry.window

    max_tokens = window
    """How many positions of a row can be held: the window, None for a growing group."""

    def __repr__(self) -> str:
        return f"<{self.identity} offsets={list(self.offsets)} columns={self.columns}>"

    # -- where it stands ----------------------------------------------------------------------------------------------

    @property
    @clause("ROWS-25")
    def rows(self) -> int:
        """Return how many rows there are."""
        return len(self._converted)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Return the next position of each row; right padding is none, unused left padding counts below 0."""
        return self._geometry.valid

    @property
    @clause("OWN-10")
    def positions(self) -> mx.array:
        """Return the position of each row's next column, int32 ``[B]``: the same array until the group moves.

        In right padding positions go on beyond the end of the row.  The group itself never reads the array.
        """
        if self._positions is None:
            self._positions = _snapshot(self._geometry.offsets)[...]  # an array object of its own
        return self._positions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many positions a reader of each row is owed."""
        return tuple(self._geometry.held(row) for row in range(self.rows))

    @property
    def columns(self) -> int:
        """Return how many columns are allocated."""
        return self._geometry.place.columns

    @property
    def write_index(self) -> int:
        """Return the column that the next decode writes, before it grows, cuts or rotates."""
        return self._geometry.place.write_index

    @property
    def may_decode(self) -> bool:
        """Say whether a decode can come next: no padding is announced that is still to come or to be taken back."""
        return self._geometry.at_rest

    @property
    def left_padding(self) -> tuple[int, ...]:
        """Return how many leading columns of each row hold none of its positions."""
        return self._geometry.left_pads

    @property
    @clause("ROWS-26")
    def nbytes(self) -> int:
        """Return the bytes of all allocated columns of all rows."""
        return self._planes.nbytes if self._planes else 0

    @property
    def bytes_per_token(self) -> int:
        """Return the bytes of one position of one row, the largest of any row; 0 while nothing was appended."""
        layout, codes = self._layout, self.policy.codes
        if layout is None or self._planes is None:
            return 0
        if codes is not None and self._converted and all(self._converted):
            return codes.bytes_per_token(layout)
        return DENSE_STORE.bytes_per_token(layout)

    def projected_bytes(self, tokens: int) -> int:
        """Return the bytes that ``tokens`` more positions of one row take: on a ring at most those of the window.

        Raises:
            CountError: if ``tokens`` is negative or no integer.
        """
        count = as_count(tokens, "a projection of", "ERR-5")
        return self.bytes_per_token * (count if self.window is None else min(count, self.window))

    # -- precision ----------------------------------------------------------------------------------------------------

    @property
    def prefilling(self) -> bool:
        """Say whether a prefill bracket is open."""
        return self._prefilling

    @clause("PREC-27")
    def floor_of(self, row: int) -> int:
        """Return the reuse floor of a row: its offset when it was converted, 0 if there is none."""
        return self._floors[self._row(row)]

    @property
    @clause("PREC-28")
    def max_append(self) -> int | None:
        """Return how many positions make the first row due; None: unbounded."""
        left = [self._max_append(row) for row in range(self.rows)]
        return min((count for count in left if count is not None), default=None)

    def max_append_of(self, row: int) -> int | None:
        """Return how many of its own positions make a row due, padding not counted; None: unbounded."""
        return self._max_append(self._row(row))

    def _max_append(self, row: int) -> int | None:
        if self._converted[row]:
            return None
        return self.policy.max_append(max(0, self._geometry.valid[row]))

    # -- what is possible ---------------------------------------------------------------------------------------------

    @property
    @clause("ROUND-16")
    def in_round(self) -> bool:
        """Say whether a round is open."""
        return self._geometry.place.in_round

    def can_trim(self, n: int) -> bool:
        """Say whether a trim of ``n`` would be done; an ``n`` that is no count cannot be."""
        count = as_integer(n)
        return count is not None and self._geometry.can_trim(count)

    def can_publish(self, row: int, tokens: int) -> bool:
        """Say whether a row can be taken out of the group as a stored prefix of ``tokens`` tokens.

        Raises:
            RowError: if there is no such row.
        """
        index, count = self._row(row), as_integer(tokens)
        return count is not None and self.may_decode and count == self._geometry.offsets[index]

    # -- what it holds ------------------------------------------------------------------------------------------------

    @property
    def codes(self) -> tuple[Codes, Codes] | None:
        """Return the codes of keys and of values of all rows, all allocated columns; None unless all hold codes."""
        return self._planes.stored() if isinstance(self._planes, AffinePlanes) else None

    @clause("OWN-4")
    def row_planes(self, row: int) -> dict[str, mx.array]:
        """Return the planes of a row by name, ``[1, H, columns, D]``, for the caller to keep; none while empty."""
        index = self._row(row)
        return {} if self._planes is None else self._planes.row(index).arrays

    @clause("OWN-4")
    def state(self) -> dict[str, Any]:
        """Return the allocated planes by name (none while empty), and the integers.

        In a mixed group the planes of either storage are those of its rows.  All arrays, ``positions`` too, belong to
        the caller.
        """
        place = self._geometry.place
        rotated = place.rotated if isinstance(place, RingGeometry) else False
        arrays = self._planes.arrays if self._planes else {}
        return {
            **arrays,
            "positions": self.positions[...],
            "columns": place.columns,
            "write_index": place.write_index,
            "rotated": int(rotated),
            "offsets": self._geometry.offsets,
            "ends": self._geometry.ends,
            "converted": self._converted,
            "floors": self._floors,
            "prefilling": int(self._prefilling),
            **({"round_start": place.start} if place.start is not None else {}),
        }

    # -- copies -------------------------------------------------------------------------------------------------------

    @clause("OWN-2", "OWN-3", "ROWS-24", "PREC-14", "PREC-24")
    def clone(self) -> Self:
        """Return an independent group in the same state; the planes are shared until one of them writes."""
        return type(self)(self.content)

    def become(self, other: "GroupStanding") -> None:
        """Take over the state of a group of the same configuration, as it is now.

        Raises:
            ConfigError: if ``other`` is of another configuration.
        """
        if (other.window, other.policy) != (self.window, self.policy):
            raise ConfigError(f"{self!r} as {other!r}", "the configuration must be the same", "ID-3")
        self._hold(other.content)

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def _row(self, row: int) -> int:
        return row_index(row, self.rows)


_last = Last()


def _snapshot(offsets: tuple[int, ...]) -> mx.array:
    """Return positions as an array, once for all layers that stand there."""
    asked, positions = _last.pair
    if asked is not offsets:
        positions = mx.array(offsets, mx.int32)
        _last.pair = offsets, positions
    return positions
