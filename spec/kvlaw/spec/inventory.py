"""The inventory table: where every requirement of ``behaviour.md`` found its place in the spec.

``text/inventory.md`` has rows ``| inv:RING-3 | RING-4, RING-5 | note |``.  A place is a clause id, ``choice: why``,
``later: when`` or ``out of scope: why``.  ``load_inventory`` reads the rows; that every id has a place and that every
place exists is seen by ``kvlaw spec check``.
"""

import re
from collections.abc import Mapping
from importlib.resources.abc import Traversable

from attrs import frozen

from kvlaw.spec.chapter import CLAUSE_ID
from kvlaw.spec.clauses import INVENTORY_FILE, text_folder
from kvlaw.spec.markdown import SpecError

_COUNTED = (
    "ID 12, POS 13, GROW 12, RING 15, VIS 13, MASK 20, PREC 29, READ 22, TRIM 13, "
    "SPEC 22, ROWS 22, PAD 15, DEC 13, REC 13, PERS 14, REUSE 8, OWN 8, ERR 22"
)
COUNTS: dict[str, int] = {pair.split()[0]: int(pair.split()[1]) for pair in _COUNTED.split(", ")}
"""How many requirements each family of the inventory has."""

INVENTORY_IDS: tuple[str, ...] = tuple(f"inv:{family}-{i}" for family, n in COUNTS.items() for i in range(1, n + 1))
"""Every id of the inventory, in its order."""

WORDS = ("choice", "later", "out of scope")
_PLACE = re.compile(rf"\s*(?:({CLAUSE_ID.pattern})\s*(?:[,;]|$)|((?:{'|'.join(WORDS)}): [^;]*\S)\s*(?:;|$))")


@frozen
class Placement:
    """Where one requirement went: clause ids, ``choice: ..``, ``later: ..``, ``out of scope: ..``; a note; the line."""

    places: tuple[str, ...]
    note: str
    line: int

    @property
    def clauses(self) -> tuple[str, ...]:
        """The places that are clause ids."""
        return tuple(place for place in self.places if CLAUSE_ID.fullmatch(place))


def load_inventory(folder: Traversable | None = None) -> Mapping[str, Placement]:
    """Read the table: inventory id (``inv:RING-3``) to its placement.

    Raises:
        SpecError: for a missing table, a row that is no row, an unknown or repeated id, a place that cannot be read.
    """
    path = (text_folder() if folder is None else folder) / INVENTORY_FILE
    if not path.is_file():
        raise SpecError(f"{path}: there is no inventory table")
    return read_inventory(path.read_text(encoding="utf-8"), INVENTORY_FILE)


def read_inventory(text: str, name: str) -> dict[str, Placement]:
    """Read the rows of one table; lines that do not open with ``| inv:`` are free text."""
    found: dict[str, Placement] = {}
    for line, row in enumerate(text.split("\n"), 1):
        if not re.match(r"\|\s*`?inv:", row):
            continue
        inventory_id, placement = _row(row, name, line)
        if inventory_id in found:
            raise SpecError.at(name, line, f"{inventory_id} stands already at line {found[inventory_id].line}")
        found[inventory_id] = placement
    return found


def _row(row: str, name: str, line: int) -> tuple[str, Placement]:
    cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
    if len(cells) != 3:
        raise SpecError.at(name, line, f"a row reads '| inv:RING-3 | RING-4 | note |', not {row.strip()!r}")
    inventory_id = cells[0].strip("`")
    if inventory_id not in INVENTORY_IDS:
        raise SpecError.at(name, line, f"{inventory_id!r} is no id of the inventory (inv:ID-1 to inv:ERR-22)")
    return inventory_id, Placement(_places(cells[1], name, line), cells[2], line)


def _places(cell: str, name: str, line: int) -> tuple[str, ...]:
    places: list[str] = []
    at = 0
    while at < len(cell):
        match = _PLACE.match(cell, at)
        if match is None:
            words = ", ".join(f"{word}: ..." for word in WORDS)
            problem = f"cannot read the place {cell[at:].strip()!r}; write clause ids, or {words}"
            raise SpecError.at(name, line, problem)
        places.append(match[1] or match[4])
        at = match.end()
    return tuple(places)
