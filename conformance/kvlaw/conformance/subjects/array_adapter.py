"""What adapters over an array library share: transport, and reading numbers and planes off a foreign cache.

Planes of codes are triples (words, scales, biases), shown as ``join_codes`` lays them.

``number`` and ``word`` read attributes that may be values, properties or methods; an attribute that is missing, or
that a base class only declares (``NotImplementedError``), is *not shown*. A property that is there and raises, be it an
``AttributeError`` out of its own body, is an error of the cache.
"""

import inspect
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from kvlaw.conformance.guard import describe
from kvlaw.conformance.interface import Adapter, NonsenseError
from kvlaw.conformance.subjects.arrays import Arrays
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import Bits, StateView, Unbounded, join_codes

NUMBERS = ("size", "nbytes", "bytes_per_token", "write_index", "floor")
WORDS = ("identity", "storage")


class ArrayAdapter(Adapter):
    """An adapter over the arrays of one library."""

    def __init__(self, arrays: Arrays, make: Callable[[LayerSpec, Config], Any]) -> None:
        """Adapt caches that ``make(layer, config)`` builds."""
        self.arrays, self.make = arrays, make
        self.shows: frozenset[str] = frozenset()

    def takes_codes(self) -> None:
        """Take triples (words, scales, biases) for codes, from now on."""
        self.capabilities |= {"codes"}

    def build(self, layer: LayerSpec) -> Any:
        """Build a cache."""
        return self.make(layer, self.config)

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Make a new array."""
        return self.arrays.tensor(bits, dtype)

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Copy the bits of an array."""
        return self.arrays.bits(array)

    def dtype_of(self, array: Any) -> str | None:
        """Name the dtype of an array."""
        return self.arrays.dtype_of(array)

    def mask_array(self, mask: Any) -> npt.NDArray[np.bool_]:
        """Copy a mask."""
        return self.arrays.mask(mask)

    def settle(self, arrays: Sequence[Any]) -> None:
        """Compute lazy arrays."""
        self.arrays.settle(arrays)

    def poison(self, array: Any) -> None:
        """Overwrite the caller's array."""
        self.arrays.poison(array)

    def planes(self, cache: Any) -> tuple[Any, Any] | None:
        """Give the allocated keys and values, arrays ``[B, Hkv, columns, D]`` or triples; None while there are none."""
        keys, values = attribute(cache, "keys"), attribute(cache, "values")
        return None if keys is None or values is None else (keys, values)

    def flags(self, cache: Any, offset: int) -> tuple[bool, ...] | None:
        """Say for n = 0 .. offset + 1 whether n positions can be trimmed; None if that is not said."""
        return None

    def readable(self, cache: Any) -> tuple[str, ...]:
        """List the numbers that may be read off a cache as it is now."""
        return NUMBERS

    def show(self, cache: Any) -> StateView:
        """Show the offset and whatever else the cache has."""
        offset = number(cache, "offset")
        numbers = {name: number(cache, name) for name in self.readable(cache) if name in self.shows}
        words = {name: word(cache, name) for name in WORDS if name in self.shows}
        can_trim = self.flags(cache, offset) if "can_trim" in self.shows and offset is not None else None
        left = bound(cache) if "max_append" in self.shows else None
        shown = self._columns(cache)
        return StateView(offset=offset, can_trim=can_trim, max_append=left, **numbers, **words, **shown)

    def _columns(self, cache: Any) -> dict[str, Any]:
        if "planes" not in self.shows:
            return {"columns": number(cache, "columns")} if "columns" in self.shows else {}
        planes = self.planes(cache)
        if planes is None:
            return {"columns": 0}
        if all(is_triple(plane) for plane in planes) and "codes" in self.capabilities:
            keys, values = (self._joined(plane) for plane in planes)
            return {"columns": keys.shape[2], "keys": keys, "values": values, "form": "affine"}
        if not all(self._is_plane(plane) for plane in planes):
            return {}
        self.arrays.settle(planes)
        keys, values = self.arrays.bits(planes[0]), self.arrays.bits(planes[1])
        return {"columns": keys.shape[2], "keys": keys, "values": values}

    def _joined(self, codes: Sequence[Any]) -> Bits:
        self.arrays.settle(codes)
        words, scales, biases = (self.arrays.bits(part) for part in codes)
        return join_codes(words, scales, biases)

    def _is_plane(self, plane: Any) -> bool:
        """Say whether an array is laid out as ``[B, Hkv, columns, D]``; another design's storage is not shown."""
        c = self.config
        if not self.arrays.is_array(plane) or len(plane.shape) != 4:
            return False
        return tuple(plane.shape[:2]) == (c.batch, c.kv_heads) and plane.shape[3] in (c.head_dim, c.value_dim)


def is_triple(plane: Any) -> bool:
    """Say whether a plane is one of codes: words, scales and biases."""
    return isinstance(plane, tuple | list) and len(plane) == 3  # type: ignore[reportUnknownArgumentType] # a foreign plane


def bound(owner: Any) -> int | Unbounded | None:
    """Read how many positions make a cache due; None stands for no such number."""
    value = plain(owner, "max_append")
    return "unbounded" if value is None or value == "unbounded" else number(owner, "max_append")


def shown(example: Any, *names: str) -> frozenset[str]:
    """List which numbers and words a cache shows; an attribute of that name may also be something else."""
    readable = [name for name in names if _answers(attribute(example, name))]
    return frozenset(n for n in readable if isinstance(plain(example, n), str if n in WORDS else int | np.integer))


def _answers(value: Any) -> bool:
    """Say whether a value can be had: if it is a method, one that needs no arguments."""
    try:
        if callable(value):
            inspect.signature(value).bind()
    except TypeError:
        return False
    except ValueError:  # built in, with a signature that nobody knows
        return True
    return True


def plain(owner: Any, name: str) -> Any:
    """Read an attribute, calling it if it is a method without arguments; None if it is not there."""
    value = attribute(owner, name)
    try:
        return value() if callable(value) else value
    except NotImplementedError:
        return None


def attribute(owner: Any, name: str, missing: Any = None) -> Any:
    """Read an attribute; ``missing`` if it is not there, or only declared.

    Raises:
        NonsenseError: if it is there, and an ``AttributeError`` comes out of its own body.
    """
    try:
        return getattr(owner, name)
    except NotImplementedError:
        return missing
    except AttributeError as error:
        if _declared(owner, name):
            told = f"{name}: {describe(error)} (what is not to be shown raises NotImplementedError)"
            raise NonsenseError(told) from error
        return missing


def has(owner: Any, name: str) -> bool:
    """Say whether an attribute is there, whatever becomes of reading it."""
    try:
        return attribute(owner, name, _MISSING) is not _MISSING
    except Exception:
        return True


def _declared(owner: Any, name: str) -> bool:
    """Say whether a class or an instance defines a name; a slot that nothing was put into is empty, not broken."""
    found = inspect.getattr_static(owner, name, _MISSING)
    return found is not _MISSING and not inspect.ismemberdescriptor(found)


_MISSING = object()


def number(owner: Any, name: str) -> int | None:
    """Read a whole number off a cache."""
    value = plain(owner, name)
    if value is None:
        return None
    try:
        return index(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError) as error:
        raise NonsenseError(f"{name} is {value!r:.60}, no whole number") from error


def word(owner: Any, name: str) -> str | None:
    """Read a word off a cache."""
    value = plain(owner, name)
    if value is None or isinstance(value, str):
        return value
    raise NonsenseError(f"{name} is {value!r:.60}, no text")
