"""``builtin:mlx_lm.KVCache``, ``.RotatingKVCache`` and ``.ConcatenateKVCache``: mlx-lm's caches as models use them.

Models pass ``window_size=None`` (Llama) or the ring's own window (Gemma 3, GPT-OSS, Cohere 2) to ``make_mask``; the
trace's window argument is passed on as it is, so both are asked. Copies are deep copies, as mlx-lm's server makes
them (option ``clone=from_state``: through the saved state). Lists of layers go through mlx-lm's list helpers.
Rounds are taken back as its speculative decoding does (``mlx_lm_rounds``), files are its prompt-cache files
(``mlx_lm_files``), and prefixes are lent by its ``LRUPromptCache`` (``mlx_lm_store``). With ``step=naive_compile``
decodes are compiled as a runtime would try it first (``mlx_lm_compiled``).

The same adapter serves every release of mlx-lm (``mlx_lm_library``); what one lacks is not asked of it.
"""

from collections.abc import Mapping
from typing import Any

from kvlaw.conformance.subjects.duck import DuckAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_lm_compiled import NaiveSteps
from kvlaw.conformance.subjects.mlx_lm_files import MlxLmFiles
from kvlaw.conformance.subjects.mlx_lm_library import INSTALLED, Library, RuntimeMasks, restored
from kvlaw.conformance.subjects.mlx_lm_rounds import TrimmedRounds
from kvlaw.conformance.subjects.mlx_lm_store import LruStore
from kvlaw.spec.config import Config, Kind, LayerSpec

CACHES: Mapping[str, Kind] = {
    "KVCache": "full",
    "RotatingKVCache": "ring",
    "ConcatenateKVCache": "full",
    "QuantizedKVCache": "full",
}
"""mlx-lm's serial caches, and their kinds."""


class MlxLmAdapter(TrimmedRounds, MlxLmFiles, LruStore, NaiveSteps, RuntimeMasks, DuckAdapter):
    """One of mlx-lm's caches; a list of layers may have growing ones and rings."""

    def __init__(
        self, name: str, clone: str | None = None, step: str | None = None, library: Library = INSTALLED
    ) -> None:
        """Adapt the class of that name; ``step`` says how a compiled step is made, None that none is."""
        self.library, cache = library, library.cache
        self._library: Any = cache
        self._classes: dict[Kind, Any] = {"full": cache.KVCache, "ring": cache.RotatingKVCache}
        kind = CACHES[name]
        self._classes[kind] = getattr(cache, name)
        example = self._made(LayerSpec(kind, 8 if kind == "ring" else None), self.config)
        super().__init__(MlxArrays(cpu=True), self._made, example, clone or "deepcopy")
        self.kinds = (kind,)
        inherited: Any = getattr(cache, "_BaseCache")  # noqa: B009  # its size answers 0 for every cache without one
        unsized = getattr(self._classes[kind], "size", None) is getattr(inherited, "size", None)
        more = {"lists", "sinks", "files"} | ({"rounds"} if "trim" in self.shows else set[str]())
        more |= {"reuse"} if self.has_store else set[str]()
        self.shows = (self.shows | more) - ({"size"} if unsized else set())
        self.capabilities = self.shows if kind == "ring" else self.shows - {"sinks"}
        self.damages = self.damages if self.has_older else tuple(how for how in self.damages if how != "older")
        if not callable(getattr(example, "make_mask", None)):
            self.asks_models()
        if clone == "from_state":
            self.cloned = restored
        if step is not None:
            self.takes_steps()

    def _made(self, layer: LayerSpec, _config: Config) -> Any:
        if layer.kind == "ring":
            return self._classes["ring"](layer.window, keep=layer.sinks)
        if layer.problem:
            raise ValueError(layer.problem)
        return self._classes["full"]()

    def trim_layers(self, caches: list[Any], n: Any) -> Any:
        """Trim all layers by mlx-lm's helper."""
        return self._library.trim_prompt_cache(caches, n)

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Ask mlx-lm's helper, for counts up to the least offset."""
        return bool(self._library.can_trim_prompt_cache(caches)) and n <= min(cache.offset for cache in caches)
