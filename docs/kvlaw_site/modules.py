"""The modules that have a page of the API, those pages, and the list of them."""

import inspect
from collections.abc import Mapping
from importlib import import_module

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

from kvlaw_site.mentions import told
from kvlaw_site.places import Place, room_folder, source_of

API: Mapping[str, tuple[str, ...]] = {
    "spec": (),
    "reference": (),
    "mlx_impl": (),
    "conformance": (
        *("interface", "pytest_items", "check", "result", "failures", "session", "store", "opening"),
        *("events", "reports", "lockstep", "compare", "minimise", "adapter", "guard"),
        *("faults.registry", "proofs.registry", "spec_tools"),
    ),
}
"""The rooms with the modules that have a page; none named means all.  Of the suite it is what a vendor may build on."""


def api_modules(room: str) -> list[str]:
    """List the modules of a room that have a page, with dots, packages first."""
    folder = room_folder(room)
    chosen = API[room]
    dotted = {
        f"kvlaw.{room}." + path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
        for path in folder.rglob("*.py")
    }
    names = sorted(name.removesuffix(".__init__") for name in dotted)
    top = f"kvlaw.{room}"
    kept = [n for n in names if not chosen or n == top or any(f"{n}.".startswith(f"{top}.{c}.") for c in chosen)]
    return [name for name in kept if not name.rpartition(".")[2].startswith("_")]


def is_package(module: str) -> bool:
    """Tell whether a module of ours is a package."""
    return source_of(module).page.endswith("__init__")


def api_page(module: str) -> str:
    """Write the page of a module; it stands in no table of contents, since a sidebar of all of them helps nobody."""
    title = module.replace("_", r"\_")
    up = f":doc:`API reference </api>` · :src:`{source_of(module).page.removeprefix('source/')}.py`"
    return f":orphan:\n\n{title}\n{'=' * len(title)}\n\n{up}\n\n.. automodule:: {module}\n"


class Modules(SphinxDirective):
    """The modules of a room that have a page, each with the first sentence of its docstring."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the list."""
        listed = nodes.bullet_list()
        for module in api_modules(self.arguments[0]):
            if self.env.config.kvlaw_api == "packages" and not is_package(module):
                continue
            sentence = (inspect.getdoc(import_module(module)) or "").partition("\n")[0]
            link = nodes.reference(
                "", "", nodes.literal("", module), refuri=Place(f"api/{module}").uri(self.env.docname)
            )
            link["internal"] = True
            listed += nodes.list_item(
                "", nodes.paragraph("", "", link, nodes.Text(": "), *told(sentence, self.env.docname))
            )
        return [listed]


def leave_out(app: Sphinx, config: Config) -> None:
    """Leave out the API pages of all modules but packages, where a build asks for that: tests have little time."""
    if config.kvlaw_api == "packages":
        names = (module for room in API for module in api_modules(room) if not is_package(module))
        config.exclude_patterns = [*config.exclude_patterns, *(f"api/{name}.rst" for name in names)]


def setup(app: Sphinx) -> None:
    """Register the directive and the setting ``kvlaw_api``: ``all``, or ``packages`` to save time."""
    app.add_config_value("kvlaw_api", "all", "env", types=[str])
    app.add_directive("modules", Modules)
    app.connect("config-inited", leave_out)
