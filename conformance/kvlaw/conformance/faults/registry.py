"""What a planted fault is, and the register of them all.

A fault is a subclass of the reference's ``Cache``, ``Read``, ``RowGroup`` or ``Recurrent``, of ``RecurrentLayer`` or of
``ReferenceAdapter``, that overrides the smallest thing.  The first line of its docstring is the fault in one sentence;
``@fault`` names the clause that it breaks, the profile in which that must be seen, and the shortest trace that shows
it.  No MLX is needed.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.corpus import Entry
from kvlaw.conformance.faults.parts import Asked, GroupAdapter, WrongCache
from kvlaw.conformance.subjects.errors import FaultError
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.oracle_recurrent import RecurrentLayer
from kvlaw.reference.layout import Cache, Read
from kvlaw.reference.layout_group import RowGroup
from kvlaw.reference.oracle import Profile
from kvlaw.reference.recurrent import Recurrent
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace

Wrong = TypeVar(
    "Wrong",
    bound=type[Cache] | type[Read] | type[RowGroup] | type[Recurrent] | type[RecurrentLayer] | type[ReferenceAdapter],
)
_MODULES = (
    *("positions", "ring", "sight", "masks", "reads", "trims", "owned", "lists", "refusals", "laws"),
    *("precision", "precision_after", "precision_codes", "precision_kept", "precision_known", "precision_reads"),
    *("group_sight", "group_joins", "group_exits", "group_counts", "group_reads", "padding", "padding_ends"),
    *("group_precision", "group_boundary", "group_numbers"),
    *("rounds", "rounds_calls", "rounds_rows"),
    *("files", "reuse"),
    *("compiled", "recurrent"),
)
_registered: dict[str, "Fault"] = {}


@frozen
class Fault:
    """A planted fault.

    ``breaks`` is the clause, ``profile`` where it must be caught, ``text`` the shortest trace that shows it,
    ``report`` the public report that it is taken from, if any; ``kinds`` are the kinds of cache that have it.
    """

    name: str
    sentence: str
    breaks: str
    profile: Profile
    text: str
    report: str
    adapter: type[ReferenceAdapter] = field(repr=False)
    kinds: tuple[str, ...] = ()

    @property
    def trace(self) -> Trace:
        """The shortest trace that shows the fault."""
        return parse(self.text).trace

    @property
    def entry(self) -> Entry:
        """The fault as the corpus stores it."""
        note = f"{self.sentence} ({self.report})" if self.report else self.sentence
        return Entry(self.name, note, f"fault:{self.name}", self.breaks, self.trace)


def fault(
    name: str,
    *,
    breaks: str,
    trace: str,
    profile: Profile = "core",
    report: str = "",
    kinds: tuple[str, ...] = (),
) -> Callable[[Wrong], Wrong]:
    """Register the decorated class as a planted fault; ``kinds`` are those of the trace unless said otherwise."""

    def register(wrong: Wrong) -> Wrong:
        if name in _registered:
            raise FaultError(f"two planted faults are called {name!r}")
        sentence = (wrong.__doc__ or "").strip().split("\n")[0].rstrip(".")
        found = Fault(name, sentence, breaks, profile, trace, report, _adapter(wrong))
        _registered[name] = evolve(found, kinds=kinds or tuple(sorted(found.entry.kinds)))
        return wrong

    return register


def _adapter(wrong: Any) -> type[ReferenceAdapter]:
    """Make the adapter of a fault: of a read, of a cache, of a group, of a recurrent layer, or the class itself."""
    if issubclass(wrong, ReferenceAdapter):
        return wrong
    if issubclass(wrong, RowGroup):
        return type(f"{wrong.__name__}Adapter", (GroupAdapter,), {"group_type": wrong})
    if issubclass(wrong, Recurrent):
        wrong = type(f"{wrong.__name__}Layer", (RecurrentLayer,), {"rows_type": wrong})
    if issubclass(wrong, RecurrentLayer):
        return type(f"{wrong.__name__}Adapter", (ReferenceAdapter,), {"recurrent_type": wrong})
    cache_type = _reading(wrong) if issubclass(wrong, Read) else wrong
    return type(f"{wrong.__name__}Adapter", (ReferenceAdapter,), {"cache_type": cache_type})


def _reading(read_type: type[Read]) -> type[Cache]:
    """Make a cache whose reads are of ``read_type``."""

    class Reading(WrongCache):
        def act(self, asked: Asked) -> Read:
            read = super().act(asked)
            return read_type(read.keys, read.values, read.mask, read.length, read.dtype)

    return Reading


@cache
def load_faults() -> dict[str, Fault]:
    """Load every planted fault, by name."""
    for name in _MODULES:
        import_module(f"kvlaw.conformance.faults.planted_{name}")
    return dict(_registered)


def subject(name: str) -> Subject:
    """Give the wrong implementation of that name as a subject; raise ``KeyError`` that lists what there is."""
    known = load_faults()
    if name not in known:
        raise KeyError(f"no planted fault is called {name!r}; there are {', '.join(sorted(known))}")
    return AdapterSubject(known[name].adapter(), name=f"fault:{name}")


__all__ = ["Fault", "fault", "load_faults", "subject"]
