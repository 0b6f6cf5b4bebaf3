"""The conformance suite: any cache against the oracle, call by call, bit for bit.

* ``interface``: the ``Adapter`` to subclass for a cache of your own; ``adapter``, ``views``, ``guard``: how it becomes
  a subject that survives whatever the cache does; ``subjects``: the targets that it knows by name.
* ``stamps``, ``decode``, ``probes``: tensors from token ids, and token ids from what is shown.
* ``lockstep``, ``compare``: the one loop, and the exact comparison; ``machines``: who chooses the calls.
* ``minimise``, ``check``, ``cli``, ``reports``: shortest traces, the verdict, and what users see; ``pytest_items``: the
  same as plain pytest items in a vendor's own suite.
* ``faults``, ``proofs``: planted faults and mutants that must be caught, lemmas that are proved for all sizes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvlaw.conformance.interface import Adapter
    from kvlaw.conformance.pytest_items import conformance_tests

__all__ = ["Adapter", "conformance_tests"]

_HOMES = {"Adapter": "kvlaw.conformance.interface", "conformance_tests": "kvlaw.conformance.pytest_items"}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use: a pytest plugin loads this package in every session."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
