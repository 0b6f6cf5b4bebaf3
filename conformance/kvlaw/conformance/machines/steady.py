"""Draws that depend on the seed alone.

Hypothesis takes one number in twenty out of the constants in the source of whatever modules are loaded.  Then the same
seed draws other traces in another process, or after another import; here all numbers come of the seed.
"""

from collections.abc import Generator
from contextlib import contextmanager

from hypothesis.internal.conjecture import providers

_POOL = "_maybe_draw_constant"
"""Where Hypothesis takes a number out of its pool; versions before 6.131 have none."""


def _no_constant(*_: object, **__: object) -> None:
    """Take no number out of the pool."""


@contextmanager
def drawn_by_seed() -> Generator[None]:
    """Let Hypothesis draw without its pool of constants while the context lasts."""
    provider = providers.HypothesisProvider
    pool = vars(provider).get(_POOL)
    if pool is None:
        yield
        return
    setattr(provider, _POOL, _no_constant)
    try:
        yield
    finally:
        setattr(provider, _POOL, pool)


__all__ = ["drawn_by_seed"]
