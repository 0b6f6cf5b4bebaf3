"""Groups of rows of other makes that keep the law, made by factories that take ``rows``."""

from typing import Any

from kvlaw.mlx_impl import make, make_rows, merge


class Merging:
    """One of our groups, with a merge of its own instead of a function beside it."""

    def __init__(self, group: Any) -> None:
        self.group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self.group, name)

    def clone(self) -> "Merging":
        return Merging(self.group.clone())

    @staticmethod
    def merge(sources: list[Any]) -> "Merging":
        return Merging(merge([s.group if isinstance(s, Merging) else s for s in sources]))


def group_or_cache(window: int | None = None, rows: int | None = None) -> Any:
    """Make a group of so many rows, or without a number a serial cache."""
    kind = "full" if window is None else "ring"
    if rows is None:
        return make(kind, window)
    return Merging(make_rows("full_rows" if window is None else "ring_rows", window, rows))
