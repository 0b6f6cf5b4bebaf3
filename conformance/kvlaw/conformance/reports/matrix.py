"""Several targets side by side: for each clause what came out of each."""

import re
from collections.abc import Sequence
from itertools import takewhile

from attrs import frozen

from kvlaw.conformance.reports.run import RunReport


@frozen
class Row:
    """One clause, and its outcome for each target; empty where a target was not asked."""

    clause: str
    title: str
    cells: tuple[str, ...]


@frozen
class Matrix:
    """Targets by clauses: what they are known by, and how they are told.

    ``short`` are the titles without what they have in ``common`` at their beginning.
    """

    names: tuple[str, ...]
    titles: tuple[str, ...]
    short: tuple[str, ...]
    common: str
    verdicts: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def outcomes(self) -> frozenset[str]:
        """The outcomes that there are."""
        return frozenset(cell for row in self.rows for cell in row.cells)


def _common(names: Sequence[str]) -> str:
    """Give the letters with which all names begin."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike)


def matrix_of(run: RunReport) -> Matrix:
    """Lay out the clauses of all targets."""
    names = tuple(target.name for target in run.targets)
    told = tuple(target.title for target in run.targets)
    common = re.sub(r"(?:(?<=\d)\.|[^:.=])*$", "", _common(told)) if len(told) > 1 else ""  # no version is cut
    titles = {clause.clause: clause.title for target in run.targets for clause in target.clauses}
    found = [{clause.clause: clause.outcome for clause in target.clauses} for target in run.targets]
    rows = [Row(clause, title, tuple(one.get(clause, "") for one in found)) for clause, title in titles.items()]
    verdicts = tuple(target.end.verdict for target in run.targets)
    return Matrix(names, told, tuple(title.removeprefix(common) for title in told), common, verdicts, tuple(rows))


__all__ = ["Matrix", "Row", "matrix_of"]
