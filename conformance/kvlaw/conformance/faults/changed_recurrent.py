"""Recurrent caches and groups of one import of the implementation, as a subject.

They are asked as the suite asks ours.  Beside that an advance that is accepted is compared with what copies, made
before it, answer:

* what a model asks first, what its convolution reads (``window``, REC-3) and which columns count (``padding``, REC-8),
  follows from what the cache shows before and after the advance;
* an empty cache refuses each array that fits none of the others (REC-15);
* a kernel that gives no float32 matrix is refused (REC-1);
* a position of which nothing is written (beta 0) leaves the matrix as it is (REC-2).

Another answer is nonsense.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import astuple

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.faults.changed import Loaded, told
from kvlaw.conformance.interface import NonsenseError, RecurrentStep
from kvlaw.conformance.subjects.mlx_impl_recurrent import (
    OF_ROWS,
    SHOWN,
    MlxImplRecurrentAdapter,
    refuse_what_has_no_name,
)
from kvlaw.spec.config import RECURRENT_KINDS, Config, LayerSpec
from kvlaw.spec.contract import Subject

_TOLD = (
    *("trim", "clone", "reset", "show", "show_rows"),
    *("merge", "extract", "filter", "prepare", "finalize", "begin_round", "commit_round", "roll_back"),
)
"""The calls that are asked as they are."""
_TOGETHER = ((0,), (1,), (2,), (3,), (4,), (5,), (1, 2), (1, 2, 3))
"""Which arrays of an advance are longer or shorter than the others: one, queries and keys, these with the values."""


def recurrent_subject(loaded: Loaded, name: str = "mlx_impl") -> Subject:
    """Ask the recurrent caches and groups of one import as a subject."""
    return AdapterSubject(ChangedRecurrentAdapter(loaded), seconds=5.0, name=name)


class ChangedRecurrentAdapter(MlxImplRecurrentAdapter):
    """Asks the recurrent caches of one import; a failure that is no ``CacheError`` is an error, not a refusal."""

    def __init__(self, loaded: Loaded) -> None:
        """Adapt the loaded implementation."""
        super().__init__("recurrent")
        self.package, self.make = loaded.package, self._build
        self.kinds, self.capabilities = RECURRENT_KINDS, SHOWN | OF_ROWS
        self.shows = self.capabilities
        for name in _TOLD:
            setattr(self, name, partial(told, self.package, getattr(self, name)))

    def _build(self, layer: LayerSpec, _config: Config) -> Any:
        refuse_what_has_no_name(layer)
        return told(self.package, lambda: self.package.RecurrentCache(layer.kernel))

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make a group of empty rows."""
        refuse_what_has_no_name(layer)
        return told(self.package, lambda: self.package.RecurrentRows(layer.kernel, rows))

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of groups and caches."""
        return self.package.merge_recurrent(list(sources))

    def advance(self, cache: Any, step: RecurrentStep) -> Any:
        """Run positions, and compare what they did with what copies answer that were made before."""
        before = told(self.package, cache.clone)
        outputs = told(self.package, super().advance, cache, step)
        told(self.package, self._compare, before, cache, step.inputs)
        if "conv" not in before.state():
            told(self.package, self._misfits, before, step)
            told(self.package, self._kernels, before, step)
        elif step.inputs.shape[1] == 1:
            told(self.package, self._unwritten, before, step)
        return outputs

    def _compare(self, before: Any, after: Any, inputs: Any) -> None:
        """Compare the window and the padding of the copy ``before`` with the positions that ``after`` has more."""
        counted = _counted(_offsets(before), _offsets(after), inputs.shape[1])
        given = self.arrays.bits(inputs)
        tail: Any = before.state().get("conv")
        kept: npt.NDArray[Any] = (
            np.zeros((len(given), before.kernel - 1, given.shape[2]), given.dtype)
            if tail is None
            else self.arrays.bits(tail)
        )
        wanted = np.concatenate([kept, np.where(counted[..., np.newaxis], given, np.zeros((), given.dtype))], axis=1)
        if not np.array_equal(self.arrays.bits(before.window(inputs)), wanted):
            raise NonsenseError("a window that is not the tail and the inputs that count (REC-3, REC-8)")
        if not hasattr(after, "offsets") and after.floor != 0:
            raise NonsenseError("a floor of what is never converted")
        if hasattr(before, "padding"):
            said: Any = before.padding(inputs.shape[1])
            flags = np.ones_like(counted) if said is None else np.asarray(self.arrays.bits(said))
            if not np.array_equal(flags, counted):
                raise NonsenseError("padding that is not the columns that do not count (REC-8)")

    def _misfits(self, empty: Any, step: RecurrentStep) -> None:
        """Ask an empty copy for advances of arrays that do not fit each other."""
        for arrays in self._spoilt(astuple(step, recurse=False)):
            try:
                empty.advance(*arrays)
            except self.package.CacheError:
                continue
            raise NonsenseError("an advance of arrays that do not fit each other (REC-15)")

    def _kernels(self, empty: Any, step: RecurrentStep) -> None:
        """Let an empty copy run through kernels that give no matrix, and one that is no float32 array of its shape."""
        half = self.arrays.dtype("bf16")
        wrongs: tuple[Callable[[Any], Any], ...] = (
            lambda _: None,
            lambda held: held.astype(half),
            lambda held: held[..., 0],
            lambda held: held.tolist(),
        )
        for wrong in wrongs:
            try:
                empty.advance(*astuple(step, recurse=False), run=partial(_kernel, wrong))
            except self.package.CacheError:
                continue
            raise NonsenseError("a kernel that gives no float32 matrix (REC-1)")
        empty.clone().advance(*astuple(step, recurse=False), run=partial(_kernel, _itself))

    def _spoilt(self, good: tuple[Any, ...]) -> Iterator[list[Any]]:
        """Give the arrays with one spoilt (none, truth values, an axis less or more), or some longer or shorter."""
        for n, part in enumerate(good):
            for wrong in (None, part == part, part[..., 0], part[..., None], part[None]):  # noqa: PLR0124
                yield [*good[:n], wrong, *good[n + 1 :]]
        for asked in _TOGETHER:
            yield [self._twice(part, 1) if n in asked else part for n, part in enumerate(good)]
            yield [part[:, 1:] if n in asked else part for n, part in enumerate(good)]
        yield [self._twice(part, 2) if n in (1, 2) else part for n, part in enumerate(good)]

    def _twice(self, part: Any, axis: int) -> Any:
        """Make an array of the same positions, or heads, twice."""
        bits, dtype = self.arrays.bits(part), self.arrays.dtype_of(part)
        assert dtype is not None  # it was made by a step
        return self.arrays.tensor(np.concatenate([bits, bits], axis=axis), dtype)

    def _unwritten(self, before: Any, step: RecurrentStep) -> None:
        """Run one position with beta 0 on a copy."""
        twin, held = before.clone(), before.state()["matrix"]
        parts = astuple(step, recurse=False)
        twin.advance(*parts[:5], parts[5] * 0)
        if not bool((twin.state()["matrix"] == held).all()):
            raise NonsenseError("a matrix that is written with beta 0 (REC-2)")


def _kernel(makes: Callable[[Any], Any], _queries: Any, _keys: Any, values: Any, *given: Any) -> tuple[Any, Any]:
    """Give the values as outputs, and what is made of the matrix that is held."""
    return values, makes(given[2])


def _itself(held: Any) -> Any:
    return held


def _offsets(cache: Any) -> tuple[int, ...]:
    return tuple(cache.offsets) if hasattr(cache, "offsets") else (cache.offset,)


def _counted(before: Sequence[int], after: Sequence[int], length: int) -> npt.NDArray[np.bool_]:
    """Say which columns each row took in, bool ``[B, L]``: behind unused left padding, as many as it has more."""
    columns = np.arange(length)
    first = np.array([[max(-offset, 0)] for offset in before])
    taken = np.array([[max(new, 0) - max(old, 0)] for old, new in zip(before, after, strict=True)])
    return (columns >= first) & (columns < first + taken)


__all__ = ["ChangedRecurrentAdapter", "recurrent_subject"]
