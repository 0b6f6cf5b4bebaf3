"""How law and example blocks are coloured."""

import re
from collections.abc import Iterator
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name, Number, Operator, Punctuation, Text, Whitespace
from sphinx.application import Sphinx

from kvlaw.spec.config import KINDS


class LawLexer(RegexLexer):
    """The expressions of a law, behind ``when:``, ``then:`` and ``runs:``."""

    name = "kvlaw law"
    aliases: ClassVar = ["kvlaw-law"]
    flags = re.MULTILINE
    tokens: ClassVar = {
        "root": [
            (r"^(runs|when|then)(:)([^\n]*\n?)", bygroups(Keyword, Punctuation, using(PythonLexer))),
            (r"[^\n]+\n?", using(PythonLexer)),
            (r"\n", Whitespace),
        ]
    }


class TraceLexer(RegexLexer):
    """A trace in the text form, with what is claimed behind ``->``."""

    name = "kvlaw trace"
    aliases: ClassVar = ["kvlaw-trace"]
    flags = re.MULTILINE
    _kinds = "|".join(sorted(KINDS, key=len, reverse=True))
    tokens: ClassVar = {
        "root": [
            (r"->", Operator, "claim"),
            (r";", Punctuation),
            (rf"^(?:{_kinds})\b", Keyword.Type),
            (r"\b(?:t\d+)\b", Name.Variable),
            (r"([A-Za-z_]+)(=)([^\s;]+)", bygroups(Name.Attribute, Operator, Number)),
            (r"\b[cergshdmlf]\d+\b", Name.Variable),
            (r"-?\d+(?:\.\d+)?", Number),
            (r"[A-Za-z_]+", Name.Function),
            (r"\s+", Whitespace),
            (r".", Text),
        ],
        "claim": [
            (r";", Punctuation, "#pop"),
            (r"\n", Whitespace, "#pop"),
            (r"\b(?:refused|ok|none|causal|array|unbounded)\b", Keyword.Constant),
            (r"\band\b", Operator.Word),
            (r"\b(?:t\d+)\b", Name.Variable),
            (r"-?\d+(?:\.\d+)?", Number),
            (r"[ \t]+", Whitespace),
            (r"[A-Za-z_]+", Name.Builtin),
            (r".", Text),
        ],
    }


def names() -> Iterator[str]:
    """List the names of the lexers, as blocks use them."""
    yield from (*LawLexer.aliases, *TraceLexer.aliases)


def setup(app: Sphinx) -> None:
    """Register both lexers."""
    app.add_lexer("kvlaw-law", LawLexer)
    app.add_lexer("kvlaw-trace", TraceLexer)
