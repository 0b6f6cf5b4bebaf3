"""How a script imports the vendor's class and builds a cache of it."""

import shlex
from importlib.util import find_spec

from attrs import field, frozen

from kvlaw.spec.config import Config, LayerSpec

INSTEAD = "send the trace of its block: kvlaw try 'TRACE' --target TARGET walks it wherever both are installed"


class ScriptError(ValueError):
    """A failure of which no script can be written: ``why``, and what there is ``instead``."""

    def __init__(self, why: str, instead: str = INSTEAD) -> None:
        """Say why, and what there is instead."""
        super().__init__(f"no script can show this failure: {why}. Instead, {instead}")
        self.why = why


MLX_LM = "mlx_lm.models.cache"
_SERIAL = {
    "KVCache": "KVCache",
    "ConcatenateKVCache": "ConcatenateKVCache",
    "RotatingKVCache": "RotatingKVCache",
    "BatchKVCache": "KVCache",
    "BatchRotatingKVCache": "RotatingKVCache",
}
"""A target of mlx-lm to the class of its serial caches."""


_ARRAYS = {"mlx": "mlx", "numpy": "numpy, ml-dtypes"}
"""The packages that make the arrays of a script."""


@frozen
class Made:
    """A class of the vendor's: where it is, how a cache of it is built, and how it is copied and rolled back."""

    path: str
    array: str = "mlx"
    clone: str = "deepcopy"
    mapping: dict[str, str] = field(factory=dict[str, str])
    library: str = ""
    needs: str = "mlx and mlx-lm"

    @property
    def of_mlx_lm(self) -> bool:
        """The class is one of mlx-lm's."""
        return bool(self.library)

    def build(self, layer: LayerSpec, config: Config) -> str:
        """Write the expression that builds a serial cache."""
        if self.of_mlx_lm:
            return "Cache()" if layer.window is None else f"Cache({layer.window}, keep={layer.sinks})"
        fields = {"kind": repr(layer.kind), "dtype": "DTYPE", "batch": config.batch, "kv_heads": config.kv_heads}
        fields |= {"head_dim": config.head_dim, "value_dim": config.value_dim}
        fields |= {} if layer.grows else {"window": layer.window, "sinks": layer.sinks}
        named = ", ".join(f"{self.mapping.get(name, name)}={value}" for name, value in fields.items())
        return f"build({named})"

    @property
    def builder(self) -> str:
        """Write the helper that passes a class what its signature takes."""
        if self.of_mlx_lm:
            return ""
        mapped = tuple(self.mapping.values())
        return (
            "\n\ndef build(**fields):\n"
            '    """Build a cache: it is given those fields that its signature takes."""\n'
            "    takes = inspect.signature(Cache).parameters\n"
            f"    return Cache(**{{n: value for n, value in fields.items() if n in takes or n in {mapped!r}}})\n"
        )


def made_of(target: str) -> Made:
    """Read a target with its options.

    Raises:
        ScriptError: if its caches are not of a class that a script could import, with the interface of mlx-lm's.
    """
    try:
        words = shlex.split(target)
        given = list(zip(words[1::2], words[2::2], strict=True))
        options, mapping = (
            dict(word.split("=", 1) for option, word in given if option == name) for name in ("--set", "--map")
        )
    except ValueError:
        raise ScriptError(f"{target!r:.200} is no target with its options") from None
    odd = next((name for name in mapping.values() if not name.isidentifier()), None)
    if odd is not None:
        raise ScriptError(f"{odd!r} is no name of a parameter")
    scheme, _, name = words[0].partition(":") if words else ("", "", "")
    if scheme == "builtin" and name.startswith("mlx_lm."):
        return _of_mlx_lm(name.removeprefix("mlx_lm."), options, "")
    if scheme == "release" and name.startswith("mlx-lm=="):
        release, _, cache = name.partition(":")
        return _of_mlx_lm(cache, options, release)
    if scheme == "py":
        array = options.get("array") or ("mlx" if find_spec("mlx") is not None else "numpy")
        return Made(
            name,
            array,
            options.get("clone", "method"),
            mapping,
            needs=f"{_ARRAYS.get(array, array)} and {name.partition(':')[0]}",
        )
    why = _WHY.get(scheme, "kvlaw does not know how to import its class")
    raise ScriptError(f"{target} is no class that it could import: {why}")


_WHY = {
    "builtin": "its calls are not those of mlx-lm's caches",
    "fault": "a planted fault lives in kvlaw's own reference",
    "cmd": "it is a program of its own",
    "vectors": "its answers come from a file",
}


def _of_mlx_lm(name: str, options: dict[str, str], release: str) -> Made:
    if name not in _SERIAL:
        raise ScriptError(
            f"a script tells tokens by the columns of mlx-lm's {', '.join(_SERIAL)}, and {name} is none of these"
        )
    if "step" in options:
        raise ScriptError("its decodes are compiled steps, which a script does not make")
    needs = f"mlx and {release or 'mlx-lm'}"
    return Made(f"{MLX_LM}:{_SERIAL[name]}", "mlx", options.get("clone", "deepcopy"), library=MLX_LM, needs=needs)


__all__ = ["Made", "ScriptError", "made_of"]
