"""One chapter: how a clause is written, and ``read_chapter``, which reads the clauses of a file.

    ### RING-3: title
    level: LAYOUT · since: 1.0 · applies: ring · needs: planes, trim

    prose, one sentence per line; then law and example blocks (``blocks``); then

    Rationale: why
    Seen in: where it went wrong

``needs`` is left out when empty, ``retired: 1.1`` closes the line of a clause that was given up.  Other headings are
free text.  Everything malformed is refused with file, line and what would be right (``SpecError``).
"""

import re
from typing import Literal, get_args

from attrs import frozen

from kvlaw.spec.blocks import Example, one_of, read_blocks
from kvlaw.spec.config import KINDS
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.laws import Law
from kvlaw.spec.markdown import Fence, Line, Section, SpecError, sections

Level = Literal["MUST", "LAYOUT"]
LEVELS: tuple[Level, ...] = get_args(Level)
FAMILIES = (
    *("ID", "POS", "GROW", "RING", "VIS", "MASK", "PREC", "READ", "TRIM", "ROUND"),
    *("ROWS", "PAD", "DEC", "REC", "PERS", "REUSE", "OWN", "ERR"),
)
"""The families of clause ids, in the order of the chapters."""

CLAUSE_ID = re.compile(r"([A-Z]+)-([1-9]\d*)")
_FIELDS = ("level", "since", "applies", "needs", "retired")
_ORDER = ("prose", "blocks", "Rationale", "Seen in")


@frozen
class Clause:
    """One clause, as the text says it.

    ``applies`` holds the kinds of cache, ``needs`` the capabilities without which the clause is not applicable;
    ``chapter`` is the file name, ``line`` that of the heading; ``retired`` the version that gave it up, or empty.
    """

    id: str
    family: str
    number: int
    title: str
    level: Level
    since: str
    applies: frozenset[str]
    needs: frozenset[str]
    prose: str
    laws: tuple[Law, ...]
    examples: tuple[Example, ...]
    rationale: str
    seen: str
    chapter: str
    line: int
    retired: str = ""

    @property
    def where(self) -> str:
        """File and line, as messages write them."""
        return f"{self.chapter}:{self.line}"

    def applicable(self, kind: str, capabilities: frozenset[str]) -> bool:
        """Tell whether the clause binds a subject of this kind with these capabilities."""
        return kind in self.applies and self.needs <= capabilities


def read_chapter(text: str, name: str) -> tuple[Clause, ...]:
    """Read the clauses of one chapter.

    Args:
        text: the whole file.
        name: its name, for messages and for ``Clause.chapter``.

    Raises:
        SpecError: for a clause that is malformed in any way.
    """
    return tuple(_clause(section, name) for section in sections(text, name) if _is_clause(section, name))


def _is_clause(section: Section, name: str) -> bool:
    if not CLAUSE_ID.match(section.title):
        return False
    match = re.fullmatch(CLAUSE_ID.pattern + r": \S.*", section.title)
    if section.level != 3 or match is None:
        heading = f"{'#' * section.level} {section.title}"
        raise SpecError.at(name, section.number, f"a clause heading reads '### TRIM-4: title', not {heading!r}")
    if match[1] not in FAMILIES:
        raise SpecError.at(name, section.number, f"unknown family {match[1]!r}; known are {', '.join(FAMILIES)}")
    return True


def _clause(section: Section, name: str) -> Clause:
    clause_id, _, title = section.title.partition(": ")
    family, _, number = clause_id.partition("-")
    fields_line, body = _open(section, name, clause_id)
    fields = _fields(fields_line, name)
    where = (name, fields_line.number)
    texts = _texts(body, name, clause_id)
    if not texts["prose"]:
        raise SpecError.at(name, section.number, f"{clause_id} says nothing: prose stands below its fields")
    laws, examples = read_blocks(tuple(part for part in body if isinstance(part, Fence)), name, clause_id)
    return Clause(
        id=clause_id,
        family=family,
        number=int(number),
        title=title.strip(),
        level=one_of(fields["level"], LEVELS, "level", where),
        since=fields["since"],
        applies=frozenset(one_of(word, KINDS, "kind of cache", where) for word in _words(fields["applies"])),
        needs=frozenset(one_of(word, tuple(CAPABILITIES), "capability", where) for word in _words(fields["needs"])),
        prose=texts["prose"],
        laws=laws,
        examples=examples,
        rationale=texts["Rationale"],
        seen=texts["Seen in"],
        chapter=name,
        line=section.number,
        retired=fields["retired"],
    )


def _open(section: Section, name: str, clause_id: str) -> tuple[Line, tuple[Line | Fence, ...]]:
    """Take the line of fields off the body."""
    for index, part in enumerate(section.body):
        if isinstance(part, Line) and not part.text:
            continue
        if isinstance(part, Line) and part.text.startswith("level:"):
            return part, section.body[index + 1 :]
        break
    problem = f"{clause_id}: no level; below the heading stands 'level: MUST · since: 1.0 · applies: full, ring'"
    raise SpecError.at(name, section.number + 1, problem)


def _fields(line: Line, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in line.text.split("·"):
        key, colon, value = (part.strip() for part in piece.partition(":"))
        if key not in _FIELDS or not colon or not value:
            raise SpecError.at(name, line.number, f"cannot read {piece.strip()!r}; the fields are {', '.join(_FIELDS)}")
        if key in found:
            raise SpecError.at(name, line.number, f"{key!r} is given twice")
        found[key] = value
    missing = [key for key in _FIELDS[:3] if key not in found]
    if missing:
        raise SpecError.at(name, line.number, f"{missing[0]!r} is missing; the fields are {', '.join(_FIELDS)}")
    if list(found) != [key for key in _FIELDS if key in found]:
        problem = f"wrong order of fields: {', '.join(found)}; the order is {', '.join(_FIELDS)}"
        raise SpecError.at(name, line.number, problem)
    for key in ("since", "retired"):
        if key in found and not re.fullmatch(r"\d+\.\d+", found[key]):
            raise SpecError.at(name, line.number, f"{key}: {found[key]!r} is no version, such as 1.0")
    return {key: found.get(key, "") for key in _FIELDS}


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _texts(body: tuple[Line | Fence, ...], name: str, clause_id: str) -> dict[str, str]:
    """Sort a clause's lines into prose, rationale and sightings, and see that the parts come in their order."""
    found: dict[str, list[str]] = {part: [] for part in _ORDER}
    now = "prose"
    for part in body:
        marker = re.match(r"(Rationale|Seen in):\s*(.*)", part.text) if isinstance(part, Line) else None
        following = "blocks" if isinstance(part, Fence) else marker[1] if marker else now
        text = marker[2] if marker else part.text if isinstance(part, Line) else ""
        repeated = marker is not None and following == now
        if repeated or _ORDER.index(following) < _ORDER.index(now) or (now == following == "blocks" and text):
            problem = (
                f"{clause_id}: wrong order; a clause has prose, then laws and examples, then Rationale:, then Seen in:"
            )
            raise SpecError.at(name, part.number, problem)
        now = following
        found[now].append(text)
    return {part: "\n".join(lines).strip("\n") for part, lines in found.items()}
