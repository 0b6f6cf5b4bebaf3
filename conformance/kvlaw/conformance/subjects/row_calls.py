"""Rows of groups that have ``extract``, ``filter``, ``prepare`` and ``finalize`` by these names, as in our contract."""

from collections.abc import Sequence
from typing import Any

from kvlaw.conformance.interface import Adapter


class RowCalls(Adapter):
    """The part of an adapter that takes rows out, keeps some, and announces padding by the group's own calls."""

    def extract(self, group: Any, row: int) -> Any:
        """Take a row out."""
        return group.extract(row)

    def filter(self, group: Any, rows: Sequence[int]) -> None:
        """Keep rows."""
        group.filter(list(rows))

    def prepare(
        self, group: Any, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
    ) -> None:
        """Announce padding."""
        group.prepare(*(None if counts is None else list(counts) for counts in (left, lengths, right)))

    def finalize(self, group: Any) -> None:
        """End a padded prefill."""
        group.finalize()


__all__ = ["RowCalls"]
