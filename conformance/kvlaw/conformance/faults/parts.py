"""What planted faults are built of: one place to get between an append and the cache."""

from attrs import frozen

from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Read
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import Bits


@frozen(eq=False)
class Asked:
    """One append as it was asked for: keys and values ``[B, H, L, D]``, and how they are to be read."""

    keys: Bits
    values: Bits
    dtype: str
    phase: Phase
    window: int | None
    array: bool

    @property
    def length(self) -> int:
        """Positions appended, if the tensors are what they should be."""
        return int(self.keys.shape[2])

    @property
    def well_formed(self) -> bool:
        """Both tensors have the four axes that tensors have."""
        return self.keys.ndim == self.values.ndim == 4


class WrongCache(Cache):
    """A reference cache whose appends go through ``act``, for faults to override."""

    def _append(self, keys: Bits, values: Bits, dtype: str, phase: Phase, window: int | None, array: bool) -> Read:
        return self.act(Asked(keys, values, dtype, phase, window, array))

    def act(self, asked: Asked) -> Read:
        """Append rightly."""
        return super()._append(asked.keys, asked.values, asked.dtype, asked.phase, asked.window, asked.array)

    @property
    def ring(self) -> index.Ring | None:
        """The ring's state, None for a growing cache."""
        return self.state if isinstance(self.state, index.Ring) else None
