"""The API pages: links to source lines, and names in annotations and docstrings."""

import inspect
import re
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.nodes import make_refnode

from kvlaw_site.places import of_definition

_ARRAY = r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[(.+?)\]\]"
_ARRAYS = (
    (
        re.compile(_ARRAY.replace("(.+?)", r"~?(?:numpy\.)?unsignedinteger\[~?(?:typing\.)?Any\]")),
        "~kvlaw.spec.observations.Bits",
    ),
    (re.compile(_ARRAY.replace("(.+?)", r"(~?[\w.]+)")), r"~numpy.typing.NDArray[\1]"),
)
_GOOGLE: Any = Config(napoleon_numpy_docstring=False)


def source_link(module: str, name: str, page: str) -> str | None:
    """Give the link from an API page to the line where a name of a module is defined; None where there is no line."""
    found: Any = import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    found = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", None) or found
    found = inspect.unwrap(found)
    home = getattr(found, "__module__", None) or ""
    try:
        return of_definition(found).uri(page) if home.startswith("kvlaw.") else None
    except (TypeError, OSError):  # a value, or code that attrs has written
        return None


def add_source_links(app: Sphinx, doctree: nodes.document) -> None:
    """Put a link to its source behind each signature."""
    for signature in doctree.findall(addnodes.desc_signature):
        module, name = signature.get("module"), signature.get("fullname")
        link = source_link(module, name, app.env.docname) if module and name else None
        if link is not None:
            signature.append(nodes.reference("", "source", refuri=link, internal=True, classes=["kv-source-link"]))


def resolve(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.TextElement
) -> nodes.Node | None:
    """Resolve a name of ours by where it is defined, and show what is not ours without a link.

    Of ours are names of our modules; a class is documented where it is defined, and often named where it is imported.
    A name of ours that does not exist stays unresolved, which is a warning.
    """
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    name = target.rpartition(".")[2]
    objects = env.domains.python_domain.objects
    home = _home(target)
    same = [full for full in objects if full.rpartition(".")[2] == name and objects[full].objtype != "module"]
    found = home if home in objects else same[0] if len(same) == 1 else None
    if found is not None:
        place = objects[found]
        return make_refnode(app.builder, str(node["refdoc"]), place.docname, place.node_id, shown, found)
    return None if target.startswith("kvlaw.") and not _exists(target) else shown


def _home(target: str) -> str:
    """Give the full name by which a name of ours is documented: that of the module that defines it."""
    module, _, name = target.rpartition(".")
    try:
        found = getattr(import_module(module), name) if module.startswith("kvlaw.") else None
    except (ImportError, AttributeError):
        return target
    return f"{getattr(found, '__module__', module)}.{getattr(found, '__qualname__', name)}"


def _exists(target: str) -> bool:
    module, _, name = target.rpartition(".")
    try:
        return hasattr(import_module(module), name)
    except ImportError:
        owner, _, inner = module.rpartition(".")
        return bool(owner) and hasattr(getattr(import_module(owner), inner, None), name)


def tidy_docstring(app: Sphinx, what: Any, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn the habits of our docstrings into reStructuredText: Google's sections, lists without a blank line before.

    Sections are read for what has arguments alone: of an attribute napoleon takes what is before a colon for a type.
    """
    kept: list[str] = []
    for line in lines:
        begins = re.match(r"\s*\* ", line)
        if begins and kept and kept[-1].strip() and not re.match(r"\s*\* |\s{2,}", kept[-1]):
            kept.append("")
        kept.append(line)
    lines[:] = kept if what in {"attribute", "data", "property"} else GoogleDocstring(kept, _GOOGLE, what=what).lines()


def shorten_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str | None, answer: str | None
) -> tuple[str | None, str | None]:
    """Write array types by the names that our code gives them, and not as NumPy spells them out."""
    return _shortened(given), _shortened(answer)


def _shortened(text: str | None) -> str | None:
    for long, short in _ARRAYS:
        text = text and long.sub(short, text)
    return text


def setup(app: Sphinx) -> None:
    """Register the handlers."""
    app.connect("autodoc-process-docstring", tidy_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("missing-reference", resolve)
    app.connect("doctree-read", add_source_links)
