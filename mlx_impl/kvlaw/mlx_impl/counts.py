"""Integers that callers hand in: a ``bool`` is not one, a NumPy integer is."""

import operator

from kvlaw.mlx_impl.errors import CountError


def as_count(value: object, what: str, *clauses: str, least: int = 0) -> int:
    """Return ``value`` as an ``int`` that is at least ``least``.

    Raises:
        CountError: if it is a ``bool``, no integer (``2.0`` is none), or smaller; ``clauses`` are cited.
    """
    number = as_integer(value)
    if number is None or number < least:
        raise CountError(f"{what} {value!r}", f"an integer of at least {least} is needed", *clauses)
    return number


def as_integer(value: object) -> int | None:
    """Return ``value`` as an ``int``, or None if it is none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # pyright: ignore[reportArgumentType]  # what has no __index__ is the question
    except TypeError:
        return None
