"""Faults of lists of layers: what one layer is told and another is not (POS-7, TRIM-13, TRIM-14, ERR-8)."""

from typing import Any

from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.interface import Adapter, Tensors
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.calls import AppendName

_HYBRID = "full ; list ring window=2 + full as l0 ; window 2 on l0"


@fault("full-first-layer-is-skipped", breaks="POS-7", trace=f"{_HYBRID} ; decode on l0", report="B12")
class FullFirstLayerIsSkipped(ReferenceAdapter):
    """A decode of a list does not reach a first layer whose ring is full."""

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        first = caches[0]
        skips = phase == "decode" and first.layer.window is not None and first.offset >= first.layer.window
        twin = first.clone() if skips else first
        return super().append_layers([twin, *caches[1:]], tensors, phase, window, array)


@fault(
    "rings-are-not-trimmed",
    breaks="TRIM-13",
    trace="full ; list full + ring window=4 as l0 ; window 2 on l0 ; trim 1 on l0",
    report="B87",
)
class RingsAreNotTrimmed(ReferenceAdapter):
    """A trim of a list passes over its rings, by a list of classes that cannot trim."""

    def trim_layers(self, caches: list[Any], n: Any) -> int | None:
        return super().trim_layers([c for c in caches if c.layer.window is None] or caches, n)


@fault(
    "layers-trim-what-they-can",
    breaks="TRIM-13",
    trace="full ; list full + ring window=2 as l0 ; window 2 on l0 ; trim 1 on l0",
    report="B69",
    profile="layout",
)
class LayersTrimWhatTheyCan(ReferenceAdapter):
    """Each layer of a list trims if it can, and the others keep their positions."""

    def trim_layers(self, caches: list[Any], n: Any) -> int | None:
        able = [cache for cache in caches if cache.can_trim(n)]
        return min((cache.trim(n) for cache in able), default=0)


@fault(
    "first-layer-speaks-for-all",
    breaks="TRIM-14",
    trace="full ; list full + ring window=2 as l0 ; window 2 on l0",
    report="B51",
)
class FirstLayerSpeaksForAll(ReferenceAdapter):
    """A list can trim what its first layer can trim."""

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        return caches[0].can_trim(n)


@fault(
    "layers-append-one-by-one",
    breaks="ERR-8",
    trace="full ; list full + ring window=4 sinks=1 as l0 ; window 2 on l0 w=2",
)
class LayersAppendOneByOne(ReferenceAdapter):
    """A list appends layer by layer, so layers before the one that refuses have moved on."""

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        return Adapter.append_layers(self, caches, tensors, phase, window, array)


@fault(
    "layers-share-a-mask",
    breaks="VIS-2",
    trace="full ; list full + ring window=2 as l0 ; window 3 on l0",
    report="B07",
)
class LayersShareAMask(ReferenceAdapter):
    """All layers of a list read through the mask of the first, also where their windows differ."""

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        reads = super().append_layers(caches, tensors, phase, window, array)
        for read in reads[1:]:
            if isinstance(reads[0].mask, str):
                object.__setattr__(read, "mask", reads[0].mask)
        return reads
