"""The directives ``law`` and ``example``, as which the fenced blocks of the chapters are read."""

from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kvlaw.conformance.spec_tools.show import SCOPES


class Law(SphinxDirective):
    """A law: what it speaks of above it, then its expressions, coloured."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make the block; an unknown scope is an error of the text, which ``kvlaw spec check`` names as well."""
        scope = next((told for name, told in SCOPES.items() if name == self.arguments[0]), None)
        if scope is None:
            raise self.error(f"unknown scope of a law {self.arguments[0]!r}; known are {', '.join(SCOPES)}")
        return _block("\n".join(self.content), "kvlaw-law", "Law", scope)


class Example(SphinxDirective):
    """An example: traces in the text form, coloured."""

    has_content = True
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """Make the block."""
        return _block("\n".join(self.content), "kvlaw-trace", "Example", "runs on the oracle")


def _block(text: str, language: str, name: str, about: str) -> list[nodes.Node]:
    caption = nodes.paragraph("", "", nodes.strong("", name), nodes.Text(f" {about}"), classes=["kv-caption"])
    code = nodes.literal_block(text, text, language=language, classes=[language])
    return [nodes.container("", caption, code, classes=["kv-block", f"{language}-block"])]


def setup(app: Sphinx) -> None:
    """Register both directives."""
    app.add_directive("law", Law)
    app.add_directive("example", Example)
