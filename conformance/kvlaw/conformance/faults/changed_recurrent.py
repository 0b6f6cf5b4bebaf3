"""Recurrent caches and groups of one import of the implementation, as a subject.

They are asked as the suite asks ours.  Beside that an advance that is accepted is asked, of a copy that was made before
it, for what a model asks first: what its convolution reads (``window``, REC-3) and which columns count (``padding``,
REC-8).  Both follow from what the cache shows before and after; another answer is nonsense.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.faults.changed import Loaded, told
from kvlaw.conformance.interface import NonsenseError, RecurrentStep
from kvlaw.conformance.subjects.mlx_impl_recurrent import OF_ROWS, SHOWN, MlxImplRecurrentAdapter
from kvlaw.spec.config import RECURRENT_KINDS, Config, LayerSpec
from kvlaw.spec.contract import Subject

_TOLD = (
    *("trim", "clone", "reset", "show", "show_rows"),
    *("merge", "extract", "filter", "prepare", "finalize", "begin_round", "commit_round", "roll_back"),
)
"""The calls that are asked as they are."""


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
        _refuse_what_has_no_name(layer)
        return told(self.package, lambda: self.package.RecurrentCache(layer.kernel))

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make a group of empty rows."""
        _refuse_what_has_no_name(layer)
        return told(self.package, lambda: self.package.RecurrentRows(layer.kernel, rows))

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of groups and caches."""
        return self.package.merge_recurrent(list(sources))

    def advance(self, cache: Any, step: RecurrentStep) -> Any:
        """Run positions, and compare what a model asks before them with what they did."""
        before = told(self.package, cache.clone)
        outputs = told(self.package, super().advance, cache, step)
        told(self.package, self._compare, before, cache, step.inputs)
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
        if hasattr(before, "padding"):
            said: Any = before.padding(inputs.shape[1])
            flags = np.ones_like(counted) if said is None else np.asarray(self.arrays.bits(said))
            if not np.array_equal(flags, counted):
                raise NonsenseError("padding that is not the columns that do not count (REC-8)")


def _refuse_what_has_no_name(layer: LayerSpec) -> None:
    if layer.problem and layer.kernel >= 1:
        raise ValueError(layer.problem)  # there is no such parameter


def _offsets(cache: Any) -> tuple[int, ...]:
    return tuple(cache.offsets) if hasattr(cache, "offsets") else (cache.offset,)


def _counted(before: Sequence[int], after: Sequence[int], length: int) -> npt.NDArray[np.bool_]:
    """Say which columns each row took in, bool ``[B, L]``: behind unused left padding, as many as it has more."""
    columns = np.arange(length)
    first = np.array([[max(-offset, 0)] for offset in before])
    taken = np.array([[max(new, 0) - max(old, 0)] for old, new in zip(before, after, strict=True)])
    return (columns >= first) & (columns < first + taken)


__all__ = ["ChangedRecurrentAdapter", "recurrent_subject"]
