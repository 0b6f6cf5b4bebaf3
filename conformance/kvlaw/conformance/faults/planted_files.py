"""Faults of files: what is lost, mixed up or believed when caches are saved and loaded (PERS)."""

import json
import math
from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.oracle_files import FileFormat, StoredFile
from kvlaw.reference import index

_SAVED = "window 2 ; save as f1"


class WrongFiles(ReferenceAdapter):
    """Caches whose files are right, but for what a fault overrides."""

    file_format = FileFormat


@fault(
    "load-clamps-the-offset",
    breaks="PERS-1",
    trace="ring window=2 ; window 3 ; save as f1 ; load f1 as c1",
    report="B94",
)
class LoadClampsTheOffset(WrongFiles):
    """A loaded ring takes its size for its offset."""

    class Clamping(FileFormat):
        def build(self, told: dict[str, Any], made: Any) -> Any:
            cache = super().build(told, made)
            cache.state = evolve(cache.state, offset=cache.size)
            return cache

    file_format = Clamping


@fault("load-forgets-the-bytes", breaks="PERS-1", trace="full ; window 2 ; save as f1 ; load f1 as c1", report="B97")
class LoadForgetsTheBytes(WrongFiles):
    """A loaded cache has its numbers, and no columns."""

    class Bare(FileFormat):
        def build(self, told: dict[str, Any], made: Any) -> Any:
            cache = super().build(told, made)
            cache.planes = None
            cache.state = evolve(cache.state, columns=0)
            return cache

    file_format = Bare


@fault(
    "load-forgets-the-rotation",
    breaks="PERS-2",
    trace="ring window=3 ; window 3 ; decode ; save as f1 ; load f1 as c1 ; decode on c1",
)
class LoadForgetsTheRotation(WrongFiles):
    """A loaded ring does not know that its write index had wrapped."""

    class Unrotated(FileFormat):
        def build(self, told: dict[str, Any], made: Any) -> Any:
            cache = super().build(told, made)
            if isinstance(cache.state, index.Ring):
                cache.state = evolve(cache.state, rotated=False)
            return cache

    file_format = Unrotated


@fault(
    "loaded-cache-never-converts",
    breaks="PERS-2",
    trace="full bits=4 start=3 ; window 2 ; save as f1 ; load f1 as c1 ; decode on c1",
)
class LoadedCacheNeverConverts(WrongFiles):
    """A loaded cache of half precision does not know where it turns to codes."""

    class Forgetful(FileFormat):
        def build(self, told: dict[str, Any], made: Any) -> Any:
            cache = super().build(told, made)
            if cache.codec is None and isinstance(cache.layer.start, int):
                cache.settle = lambda: None
            return cache

    file_format = Forgetful


@fault(
    "file-is-written-late", breaks="PERS-3", trace="full ; window 2 ; save as f1 ; decode ; load f1 as c1", report="B84"
)
class FileIsWrittenLate(WrongFiles):
    """A file is written when it is first loaded, and holds what the cache holds by then."""

    def save_layers(self, caches: list[Any]) -> Any:
        file = super().save_layers(caches)
        self.__dict__.setdefault("late", {})[id(file)] = (file, file.data, caches)
        return file

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        _, data, caches = self.__dict__["late"].pop(id(file), (None, b"", []))
        if file.data == data and caches:
            file.data = self.file_format().write([cache for cache in caches if cache.round is None] or caches)
        return super().load_layers(file, other)


@fault(
    "loads-the-same-cache-twice",
    breaks="PERS-4",
    trace="full ; decode ; save as f1 ; load f1 as c1 ; decode on c1 ; load f1 as c2",
    report="B100",
)
class LoadsTheSameCacheTwice(WrongFiles):
    """A file that was loaded before gives the caches that it gave then."""

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        kept = self.__dict__.setdefault("kept", {})
        found = super().load_layers(file, other)
        known, caches = kept.get(id(file), (None, []))
        if known is file and all(cache.offset < 500 for cache in caches):
            return list(caches)
        kept[id(file)] = (file, found)
        return found


@fault(
    "load-gives-the-source",
    breaks="PERS-4",
    trace=f"full ; {_SAVED} ; load f1 as c1 ; decode on c1 ; look c0",
    report="B100",
)
class LoadGivesTheSource(WrongFiles):
    """What is loaded from a file that was just written is the very cache that was saved."""

    def save_layers(self, caches: list[Any]) -> Any:
        file = super().save_layers(caches)
        self.__dict__.setdefault("sources", {})[id(file)] = (file, file.data, caches)
        return file

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        found = super().load_layers(file, other)
        known, data, caches = self.__dict__.get("sources", {}).get(id(file), (None, b"", []))
        same = known is file and self.file_format().write(caches) == data if not _in_round(caches) else False
        return list(caches) if same else found


def _in_round(caches: list[Any]) -> bool:
    return any(cache.round is not None for cache in caches)


@fault("save-lays-columns-out", breaks="PERS-5", trace="ring window=3 ; window 4 ; save as f1", profile="layout")
class SaveLaysColumnsOut(WrongFiles):
    """A ring that is saved is cut to its window first."""

    def save_layers(self, caches: list[Any]) -> Any:
        file = super().save_layers(caches)
        for cache in caches:
            state = cache.state
            if isinstance(state, index.Ring) and state.columns > state.window and cache.planes is not None:
                kept = tuple(range(state.columns - state.window, state.columns))
                cache.planes = cache.planes.kept(kept)
                cache.state = evolve(state, columns=len(kept), write_index=len(kept))
        return file


@fault("save-empties-the-cache", breaks="PERS-5", trace=f"full ; {_SAVED}")
class SaveEmptiesTheCache(WrongFiles):
    """A cache that was saved is let go of."""

    def save_layers(self, caches: list[Any]) -> Any:
        file = super().save_layers(caches)
        for cache in caches:
            cache.reset()
        return file


@fault(
    "load-forgets-the-floor",
    breaks="PERS-6",
    trace="full bits=4 start=2 ; window 2 ; save as f1 ; load f1 as c1",
    report="B97",
)
class LoadForgetsTheFloor(WrongFiles):
    """The reuse floor is not written."""

    class Floorless(FileFormat):
        def build(self, told: dict[str, Any], made: Any) -> Any:
            return super().build({**told, "floor": 0}, made)

    file_format = Floorless


@fault(
    "load-cuts-spare-columns",
    breaks="PERS-7",
    trace="ring window=4 ; decode ; save as f1 ; load f1 as c1",
    profile="layout",
)
class LoadCutsSpareColumns(WrongFiles):
    """A loaded ring has no room for what is still to come."""

    class Cutting(FileFormat):
        def build(self, told: dict[str, Any], made: Any) -> Any:
            cache = super().build(told, made)
            state = cache.state
            if isinstance(state, index.Ring) and not state.rotated and state.columns > state.write_index > 0:
                cache.planes = cache.planes.kept(tuple(range(state.write_index)))
                cache.state = evolve(state, columns=state.write_index)
            return cache

    file_format = Cutting


@fault(
    "pads-a-short-file",
    breaks="PERS-8",
    trace=f"ring window=2 ; {_SAVED} ; damage f1 how=truncate ; load f1 as c1 ; decode on c1",
)
class PadsAShortFile(WrongFiles):
    """Arrays that a file has lost at its end are zeros."""

    class Padding(FileFormat):
        def check_body(self, header: dict[str, Any], body: bytes) -> None:
            if len(body) >= _bytes_told(header):
                super().check_body(header, body)

        def layers_of(self, header: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
            return super().layers_of(header, body.ljust(_bytes_told(header), b"\0"))

    file_format = Padding


def _bytes_told(header: dict[str, Any]) -> int:
    planes = [plane for layer in header["layers"] for plane in layer.get("planes", [])]
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in planes)


@fault("empty-file-is-an-empty-cache", breaks="PERS-8", trace=f"full ; {_SAVED} ; damage f1 how=empty ; load f1 as c1")
class EmptyFileIsAnEmptyCache(WrongFiles):
    """A file of no bytes is a cache that holds nothing."""

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        return [self.cache_type(self.config.layer)] if not file.data else super().load_layers(file, other)


@fault("believes-the-header", breaks="PERS-9", trace=f"full ; {_SAVED} ; damage f1 how=header ; load f1 as c1")
class BelievesTheHeader(WrongFiles):
    """The hash of the header is not looked at."""

    class Believing(FileFormat):
        def check_header(self, digest: bytes, text: bytes) -> None:
            json.loads(text)

    file_format = Believing


@fault(
    "believes-the-tensors",
    breaks="PERS-9",
    trace=f"ring window=2 ; {_SAVED} ; damage f1 how=tensor ; load f1 as c1 ; decode on c1",
)
class BelievesTheTensors(WrongFiles):
    """The hash of the arrays is not looked at."""

    class Believing(FileFormat):
        def check_body(self, header: dict[str, Any], body: bytes) -> None:
            if len(body) != _bytes_told(header):
                super().check_body(header, body)

    file_format = Believing


@fault(
    "reads-any-version", breaks="PERS-10", trace=f"full ; {_SAVED} ; damage f1 how=older ; load f1 as c1", report="B96"
)
class ReadsAnyVersion(WrongFiles):
    """The version is not looked at, so that an older file is a list without layers."""

    class Reading(FileFormat):
        def check_version(self, header: dict[str, Any]) -> None:
            self.lenient = True

        def layers_of(self, header: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
            return super().layers_of(header, body) if header.get("version") == 2 or header["layers"] else []

    file_format = Reading


@fault(
    "takes-a-later-version",
    breaks="PERS-10",
    trace=f"full ; {_SAVED} ; damage f1 how=version ; load f1 as c1",
    report="B96",
)
class TakesALaterVersion(WrongFiles):
    """Later versions are read as if nothing had changed."""

    class Later(FileFormat):
        def check_version(self, header: dict[str, Any]) -> None:
            if header["version"] < 2:
                super().check_version(header)

    file_format = Later


@fault(
    "foreign-file-is-an-empty-list",
    breaks="PERS-11",
    trace=f"full ; {_SAVED} ; damage f1 how=foreign ; load f1 as c1",
    report="B96",
)
class ForeignFileIsAnEmptyList(WrongFiles):
    """A file in which there are no caches gives no caches."""

    class Willing(FileFormat):
        def layers_of(self, header: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
            return super().layers_of(header, body) if header["layers"] else []

    file_format = Willing


@fault(
    "reads-on-to-the-end",
    breaks="PERS-12",
    trace=f"full ; {_SAVED} ; damage f1 how=extra ; load f1 as c1",
    profile="layout",
)
class ReadsOnToTheEnd(WrongFiles):
    """What stands behind the last array is not looked at."""

    class Content(FileFormat):
        def check_body(self, header: dict[str, Any], body: bytes) -> None:
            super().check_body(header, body[: _bytes_told(header)] if len(body) > _bytes_told(header) else body)

    file_format = Content


@fault(
    "layers-come-back-in-disorder",
    breaks="PERS-13",
    trace="full ; list full + ring window=2 as l0 ; window 3 on l0 ; save on l0 as f1 ; load f1 as l1 ; decode on l1",
    report="B94",
)
class LayersComeBackInDisorder(WrongFiles):
    """The layers of a list are loaded in another order."""

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        return super().load_layers(file, other)[::-1]


@fault(
    "saves-the-layers-that-it-knows",
    breaks="PERS-13",
    trace="full ; list full + ring window=2 as l0 ; window 3 on l0 ; save on l0 as f1 ; load f1 as l1",
    report="B94",
)
class SavesTheLayersThatItKnows(WrongFiles):
    """Rings are left out of a file of a list."""

    def save_layers(self, caches: list[Any]) -> Any:
        return super().save_layers([cache for cache in caches if cache.layer.window is None] or caches)


@fault(
    "a-layer-comes-back-empty",
    breaks="PERS-13",
    trace="full ; list full + ring window=2 as l0 ; window 3 on l0 ; save on l0 as f1 ; load f1 as l1",
    report="B94",
)
class ALayerComesBackEmpty(WrongFiles):
    """The rings of a list are loaded without what was in them."""

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        found = super().load_layers(file, other)
        for cache in found if len(found) > 1 else []:
            if cache.layer.window is not None:
                cache.reset()
        return found


@fault("refuses-to-save-nothing", breaks="PERS-14", trace="full ; save as f1", profile="layout")
class RefusesToSaveNothing(WrongFiles):
    """An empty cache is not saved."""

    def save_layers(self, caches: list[Any]) -> Any:
        if any(cache.planes is None for cache in caches):
            raise ValueError("nothing to save")
        return super().save_layers(caches)


@fault("saves-an-open-round", breaks="PERS-15", trace="full ; begin_round ; decode ; save as f1", profile="layout")
class SavesAnOpenRound(WrongFiles):
    """A cache is saved with the positions of its open round."""

    def save_layers(self, caches: list[Any]) -> Any:
        twins = [cache.clone() for cache in caches]
        for twin in twins:
            twin.round = None
        return super().save_layers(twins)


@fault("loads-for-any-model", breaks="PERS-16", trace=f"full ; {_SAVED} ; load f1 as c1 other", report="B96")
class LoadsForAnyModel(WrongFiles):
    """What a file was saved for is not looked at."""

    class Trusting(FileFormat):
        def refuse_model(self, header: dict[str, Any]) -> None:
            self.model = header["model"]

    file_format = Trusting


@fault(
    "saves-what-was-trimmed",
    breaks="PERS-17",
    trace="ring window=4 ; window 3 ; trim 2 ; save as f1 ; load f1 as c1",
    profile="layout",
)
class SavesWhatWasTrimmed(WrongFiles):
    """Whole planes are written, with what was dropped in them."""

    def save_layers(self, caches: list[Any]) -> Any:
        file = super().save_layers(caches)
        self.__dict__.setdefault("whole", {})[id(file)] = (file, file.data, [c.planes for c in caches])
        return file

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        found = super().load_layers(file, other)
        _, data, planes = self.__dict__.get("whole", {}).get(id(file), (None, b"", []))
        for cache, whole in zip(found, planes if data == file.data else [], strict=False):
            cache.planes = None if whole is None else whole.each(np.copy)
        return found


__all__ = ["WrongFiles"]
