"""The modules of a release, imported under names of their own: ``kvlaw_releases.mlx_lm_0_28_0.models.cache``.

Several releases, and the installed one, are there side by side. What is imported is read from the checked wheel: the
modules below ``mlx_lm/models`` that need nothing but MLX, and of ``mlx_lm/generate.py``, which needs a tokenizer and
much else, the one function ``maybe_quantize_kv_cache``.
"""

import ast
import re
import sys
from collections.abc import Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

from attrs import define, field

from kvlaw.conformance.releases.store import Wheel, read

ROOT = "kvlaw_releases"
GENERATE, CONVERT = "generate", "maybe_quantize_kv_cache"


def load(version: str) -> str:
    """Make a release importable, and give the name of its package; raise ``ReleaseError`` if it is not there."""
    name = f"{ROOT}.mlx_lm_{re.sub(r'[^0-9a-z]', '_', version)}"
    if name not in FINDER.wheels:
        FINDER.wheels[name] = read(version)
    if FINDER not in sys.meta_path:
        sys.meta_path.append(FINDER)
    return name


@define(eq=False)
class Releases(MetaPathFinder):
    """Finds the modules of the releases that were loaded."""

    wheels: dict[str, Wheel] = field(factory=dict[str, Wheel])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of a release, or a package above it."""
        if fullname == ROOT or fullname in self.wheels:
            return _package(fullname)
        package = next((name for name in self.wheels if fullname.startswith(f"{name}.")), None)
        if package is None:
            return None
        wheel, within = self.wheels[package], fullname.removeprefix(f"{package}.")
        if within == "models":
            return _package(fullname)
        name = f"mlx_lm/{within.replace('.', '/')}.py"
        source = wheel.source(name)
        if source is None:
            return None
        text = _converting(source) if within == GENERATE else source
        return spec_from_loader(fullname, Source(text, f"{wheel.path}/{name}"))


FINDER = Releases()


@define(eq=False)
class Source(ExecutionLoader):
    """Loads a module from its source."""

    text: str
    origin: str

    def get_source(self, fullname: str) -> str:
        """Give the source."""
        return self.text

    def get_filename(self, fullname: str) -> str:
        """Give the name by which tracebacks show it."""
        return self.origin


def _package(name: str) -> ModuleSpec:
    spec = ModuleSpec(name, Source("", name), is_package=True)
    spec.submodule_search_locations = []
    return spec


def _converting(source: str) -> str:
    """Take of ``generate.py`` the function that converts caches, and what it names."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == CONVERT:
            return f"from .models import cache\n\n\n{ast.unparse(node)}\n"
    return ""


__all__ = ["ROOT", "load"]
