"""What a cache refuses, and how it says so.

A refusal is raised before anything changed.  It names what was asked, what is possible, and the clauses that say so;
``CacheError`` is the class to catch, the others say which part of the call was at fault:

* ``ConfigError``: a cache, or a list of caches, that cannot be built;
* ``ShapeError``, ``DTypeError``: arrays of an append or of a query;
* ``CountError``: a count, a window argument or a phase that is not one;
* ``WindowError``: a window argument that this cache cannot honour;
* ``TrimError``: a trim that is not possible now;
* ``FileError``: a file that is not as it was written, or of something else;
* ``RowError``: rows of a group that are not there, or that cannot stand in one group;
* ``PaddingError``: padding that cannot be, or a call that has to wait until announced padding is dealt with.
"""


class CacheError(ValueError):
    """Refuse a call: nothing has changed, and ``clauses`` names the clauses that refuse it."""

    def __init__(self, asked: str, possible: str, *clauses: str) -> None:
        super().__init__(asked, possible, *clauses)
        self.asked = asked
        self.possible = possible
        self.clauses = clauses

    def __str__(self) -> str:
        return f"{self.asked}: {self.possible} [{', '.join(self.clauses)}]"


class ConfigError(CacheError):
    """Refuse a configuration that no cache can have."""


class ShapeError(CacheError):
    """Refuse arrays of a wrong rank or of sizes that fit neither each other nor what the cache holds."""


class DTypeError(CacheError):
    """Refuse arrays that are no ``mx.array`` of a floating dtype, or not of the dtype that the cache holds."""


class CountError(CacheError):
    """Refuse a count that is negative, zero where it may not be, or no integer at all."""


class WindowError(CacheError):
    """Refuse a window argument that cannot be honoured by this cache."""


class TrimError(CacheError):
    """Refuse a trim that cannot drop exactly what it was asked to drop."""


class RowError(CacheError):
    """Refuse rows that a group does not have, or that cannot be one group."""


class RoundError(CacheError):
    """Refuse a round that cannot begin or end so, and what is not possible while one is open."""


class FileError(CacheError):
    """Refuse a file that is not as it was written, or of something else, and what cannot be saved."""


class PaddingError(CacheError):
    """Refuse padding that cannot be, and what is not possible while padding is announced."""
