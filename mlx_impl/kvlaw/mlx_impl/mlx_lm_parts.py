"""What drop-ins of caches, groups and recurrent layers have alike."""

from typing import Any

from kvlaw.spec.cite import clause


class TakesRounds:
    """Rounds of a drop-in are those of its ``cache``; each ends them by a ``roll_back`` of its own."""

    __slots__ = ()

    cache: Any

    @property
    def in_round(self) -> bool:
        """Say whether a round is open."""
        return self.cache.in_round

    @clause("ROUND-7", "ROUND-16")
    def begin_round(self) -> None:
        """Open a round: what is appended from here on can be taken back, in a ring that has evicted as well.

        What a recurrent layer takes in must be within ``recording``.

        Raises:
            RoundError: if one is open.
            PaddingError: if padding is pending in a group.
        """
        self.cache.begin_round()

    @clause("ROUND-1")
    def commit_round(self) -> None:
        """Close the round and keep all of it.

        Raises:
            RoundError: if no round is open.
        """
        self.cache.commit_round()


class HandsOutCodes:
    """``bits`` and ``group_size`` are there only while what was last handed out were codes: mlx-lm asks ``hasattr``."""

    __slots__ = ()

    _codes: tuple[int, int] | None

    @property
    @clause("READ-10")
    def bits(self) -> int:
        """Return the bits of a code, while the last fetch were codes."""
        return self._code_shape("bits")[0]

    @property
    def group_size(self) -> int:
        """Return how many elements share a scale, while the last fetch were codes."""
        return self._code_shape("group_size")[1]

    def _code_shape(self, name: str) -> tuple[int, int]:
        if self._codes is None:
            raise AttributeError("the last fetch were no codes", name=name, obj=self)
        return self._codes
