"""Sphinx' settings of the documentation site; what is special to it lies in ``kvlaw_site``."""

import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "kvlaw"
author = "The kvlaw authors"
project_copyright = "The kvlaw authors, Apache-2.0"
version = release = version_of("kvlaw")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "kvlaw_site",
]
exclude_patterns = ["_build", "kvlaw_site"]
nitpicky = True
smartquotes = False  # `->` and `--` are part of the language of traces
default_role = "literal"  # docstrings write `name` as well as ``name``
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Markdown: the chapters of the specification are read as they are; its blocks are directives of ``kvlaw_site``.
myst_fence_as_directive = {"law", "example"}
myst_heading_anchors = 4
myst_enable_extensions = {"colon_fence", "deflist"}

# API pages
autodoc_default_options = {"members": True, "member-order": "bysource", "ignore-module-all": True}
autodoc_typehints_format = "short"
autodoc_mock_imports = [name for name in ("mlx_lm",) if find_spec(name) is None]

html_theme = "furo"
html_title = "kvlaw"
html_static_path = ["_static"]
html_css_files = ["kvlaw.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8a3a00", "color-brand-content": "#8a3a00"},
    "dark_css_variables": {"color-brand-primary": "#f0a35e", "color-brand-content": "#f0a35e"},
}
