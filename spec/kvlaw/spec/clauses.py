"""The clauses: ``text/*.md``, read, checked for form, and handed out as values.

``load_clauses`` reads every chapter in the order of its file name (``chapter`` reads one).  An id is never reused: a
clause that is given up keeps its heading and gets ``retired: 1.1``; it then stands in ``Clauses.retired`` only.
Anything malformed is a ``SpecError`` (``file:line: what is wrong``).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal, get_args

from attrs import field, frozen

from kvlaw.spec.blocks import Example
from kvlaw.spec.chapter import FAMILIES, LEVELS, Clause, Level, read_chapter
from kvlaw.spec.markdown import SpecError

Profile = Literal["core", "layout"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
INVENTORY_FILE = "inventory.md"


@frozen
class Clauses(Mapping[str, Clause]):
    """The clauses in force by id, in the order of the text.

    ``retired`` holds those given up, by id; ``chapters`` the text of each file by its name.
    """

    by_id: dict[str, Clause]
    retired: dict[str, Clause] = field(factory=dict[str, Clause])
    chapters: dict[str, str] = field(factory=dict[str, str])

    def __getitem__(self, key: str) -> Clause:
        return self.by_id[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def families(self) -> tuple[str, ...]:
        """The families that have a clause in force, in the order of the text."""
        return tuple(dict.fromkeys(clause.family for clause in self.by_id.values()))

    def of_profile(self, profile: str) -> "Clauses":
        """Keep what a profile holds a cache to: ``core`` the MUST clauses, ``layout`` all of them."""
        if profile not in PROFILES:
            raise SpecError(f"unknown profile {profile!r}; known are {', '.join(PROFILES)}")
        kept = {i: clause for i, clause in self.by_id.items() if profile == "layout" or clause.level == "MUST"}
        return Clauses(kept, self.retired, self.chapters)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions in which clauses came or went, the oldest first."""
        every = (*self.by_id.values(), *self.retired.values())
        found = {clause.since for clause in every} | {clause.retired for clause in every if clause.retired}
        return tuple(sorted(found, key=_number))

    def of_version(self, version: str = "") -> "Clauses":
        """Keep the clauses that a version had, as far as they are in force; without one all of them.

        Raises:
            SpecError: for a version in which no clause came or went.
        """
        if not version:
            return self
        if version not in self.versions:
            raise SpecError(f"unknown version {version!r} of the specification; known are {', '.join(self.versions)}")
        kept = {i: clause for i, clause in self.by_id.items() if _number(clause.since) <= _number(version)}
        return Clauses(kept, self.retired, self.chapters)

    def find(self, clause_id: str) -> Clause:
        """Give a clause, in force or retired; raise ``SpecError`` that says what there is instead."""
        found = self.by_id.get(clause_id) or self.retired.get(clause_id)
        if found is not None:
            return found
        family = clause_id.partition("-")[0]
        kin = [i for i, clause in self.by_id.items() if clause.family == family]
        hint = f"{family} goes from {kin[0]} to {kin[-1]}" if kin else f"the families are {', '.join(self.families)}"
        raise SpecError(f"there is no clause {clause_id!r}; {hint}")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def load_clauses(folder: Traversable | None = None) -> Clauses:
    """Read all chapters of a folder; without one those that came with the package, once.

    Raises:
        SpecError: for anything malformed, with file and line.
    """
    return _shipped() if folder is None else _load(folder)


@cache
def _shipped() -> Clauses:
    return _load(text_folder())


def text_folder() -> Traversable:
    """Give the folder of the chapters, in a checkout or in an installed wheel."""
    return files("kvlaw.spec") / "text"


def _load(folder: Traversable) -> Clauses:
    found: dict[str, Clause] = {}
    chapters = _chapters(folder)
    for name, text in chapters.items():
        for clause in read_chapter(text, name):
            first = found.setdefault(clause.id, clause)
            if first is not clause:
                raise SpecError.at(name, clause.line, f"{clause.id} stands already at {first.where}")
    return Clauses(
        {i: clause for i, clause in found.items() if not clause.retired},
        {i: clause for i, clause in found.items() if clause.retired},
        chapters,
    )


def _chapters(folder: Traversable) -> dict[str, str]:
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".md")) if folder.is_dir() else []
    chapters = {name: (folder / name).read_text(encoding="utf-8") for name in names if name != INVENTORY_FILE}
    if not chapters:
        raise SpecError(f"{folder}: there is no chapter (*.md) here")
    return chapters


__all__ = [
    "FAMILIES",
    "INVENTORY_FILE",
    "LEVELS",
    "PROFILES",
    "Clause",
    "Clauses",
    "Example",
    "Level",
    "Profile",
    "SpecError",
    "load_clauses",
    "text_folder",
]
