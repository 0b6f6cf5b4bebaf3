"""The fenced blocks of a clause: ``law step|trace|pair`` and ``example``.

A law block has the lines ``when:`` and ``then:``, a pair law ``runs:`` before them; an expression may go on in
indented lines.  An example block holds traces in the text form: a line that opens with a kind begins one, other lines
go on with it.
"""

import re
from collections.abc import Iterator
from typing import TypeVar

from attrs import frozen

from kvlaw.spec.config import KINDS
from kvlaw.spec.laws import PAIRS, SCOPES, Law, LawError, Scope
from kvlaw.spec.markdown import Fence, SpecError
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import TraceError

Word = TypeVar("Word", bound=str)


@frozen
class Example:
    """One example: a trace in the text form with its expectations, and the line at which it stands."""

    text: str
    line: int


def one_of(word: str, known: tuple[Word, ...], what: str, where: tuple[str, int]) -> Word:
    """Give the known word that ``word`` is; raise ``SpecError`` at ``where`` (file, line) if it is none of them."""
    for option in known:
        if word == option:
            return option
    raise SpecError.at(*where, f"unknown {what} {word!r}; known are {', '.join(known)}")


def read_blocks(fences: tuple[Fence, ...], name: str, clause_id: str) -> tuple[tuple[Law, ...], tuple[Example, ...]]:
    """Read the blocks of one clause; raise ``SpecError`` for a block that is neither law nor example, or malformed."""
    laws: list[Law] = []
    examples: list[Example] = []
    for fence in fences:
        kind, _, scope = fence.info.partition(" ")
        if kind == "law":
            laws.append(_law(fence, scope.strip(), name, clause_id))
        elif fence.info == "example":
            examples += _examples(fence, name, clause_id)
        else:
            known = [*(f"law {scope}" for scope in SCOPES), "example"]
            problem = f"{clause_id}: unknown block {fence.info!r}; a clause has {', '.join(known)}"
            raise SpecError.at(name, fence.number, problem)
    return tuple(laws), tuple(examples)


def _law(fence: Fence, word: str, name: str, clause_id: str) -> Law:
    where = (name, fence.number)
    scope: Scope = one_of(word, SCOPES, "scope of a law", where)
    parts = _law_parts(fence, name, clause_id)
    wanted = ["runs", "when", "then"] if scope == "pair" else ["when", "then"]
    if list(parts) != wanted:
        problem = (
            f"{clause_id}: a {scope} law has {', '.join(wanted)}, in this order, not {', '.join(parts) or 'nothing'}"
        )
        raise SpecError.at(*where, problem)
    runs = one_of(parts["runs"], PAIRS, "way to make the second run", where) if scope == "pair" else ""
    try:
        return Law(clause_id, scope, parts["when"], parts["then"], runs)
    except LawError as error:
        raise SpecError.at(*where, str(error)) from None


def _law_parts(fence: Fence, name: str, clause_id: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for line in (x for x in fence.lines if x.text.strip()):
        match = re.match(r"(runs|when|then):\s*(.*)", line.text)
        if match and match[1] not in parts:
            parts[match[1]] = match[2]
        elif line.text.startswith(" ") and parts:
            parts[list(parts)[-1]] += " " + line.text.strip()
        else:
            problem = (
                f"{clause_id}: cannot read {line.text!r}: a law has one 'when:' and one 'then:', longer ones indented"
            )
            raise SpecError.at(name, line.number, problem)
    return parts


def _examples(fence: Fence, name: str, clause_id: str) -> Iterator[Example]:
    starts = [i for i, line in enumerate(fence.lines) if line.text.split(" ")[0] in KINDS]
    if not starts or any(line.text.strip() for line in fence.lines[: starts[0]]):
        raise SpecError.at(name, fence.number, f"{clause_id}: an example opens with a kind: {', '.join(KINDS)}")
    for start, end in zip(starts, [*starts[1:], len(fence.lines)], strict=True):
        text = "\n".join(line.text for line in fence.lines[start:end]).strip()
        yield _example(text, fence.lines[start].number, name, clause_id)


def _example(text: str, line: int, name: str, clause_id: str) -> Example:
    try:
        written = parse(text)
    except TraceError as error:
        raise SpecError.at(name, line, f"{clause_id}: {error}") from None
    if not (written.opening or any(written.claims)):
        raise SpecError.at(name, line, f"{clause_id}: the example claims nothing; write what is expected behind '->'")
    return Example(text, line)
