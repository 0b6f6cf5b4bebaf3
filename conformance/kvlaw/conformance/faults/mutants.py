"""Mutants of our geometry, mask and precision modules: killed by a trace, or listed as equivalent with a reason.

A mutant is the MLX implementation with one module changed in memory (``changed``).  Its caches walk the stored traces
in the layout profile, the one that killed last first; whatever diverges, hangs, or fails with anything but a
``CacheError`` kills it.  ``equivalent_mutants.toml`` lists those that nothing can kill; an entry that is killed, or
that is no mutant any more, is wrong.  It also lists those on which MLX ends the process when it reads codes: they walk
dense traces alone.  Modules of groups walk the traces of groups.  The unchanged implementation must pass every trace
that is used (``control``).
"""

import tomllib
from collections.abc import Callable, Container, Iterable
from importlib.resources import files
from typing import Any, Literal, cast

from attrs import field, frozen

from kvlaw.conformance.corpus import load_corpus
from kvlaw.conformance.faults.changed import PACKAGE, load
from kvlaw.conformance.faults.hunt import binding
from kvlaw.conformance.faults.mutator import Mutation, mutations
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.spec.clauses import Clauses, load_clauses
from kvlaw.spec.trace import Trace

MODULES = (
    *("geometry", "masks", "precision", "codes", "codec"),
    *("group_geometry", "group_masks", "group_planes", "group_plans", "group_settle", "group_merge"),
    *("group_appends", "groups"),
)
"""The modules that are changed: those that decide in integers, and those that move codes by them."""

Named = tuple[str, Trace]
"""A trace under a name."""

_LISTED = "equivalent_mutants.toml"


@frozen(eq=False)
class Mutant:
    """One change of one module, by a name that says both."""

    module: str
    mutation: Mutation

    @property
    def name(self) -> str:
        """Module, function and change."""
        return f"{self.module}.{self.mutation.id}"


@frozen
class Kill:
    """What came of one mutant.

    ``clause`` is what killed it (a clause, or the exception at import), on the trace named ``trace``; ``reason`` why it
    is listed as one that cannot be killed.
    """

    name: str
    trace: str = ""
    clause: str = ""
    calls: int = 0
    reason: str = ""
    found: Trace | None = field(default=None, repr=False)

    @property
    def told(self) -> str:
        """Tell in a few words what was settled last."""
        return f"mutant {self.name}"

    @property
    def word(self) -> Literal["killed", "equivalent", "survived", "wrongly listed"]:
        """Say what came of it in one word; the last two are failures."""
        if self.reason:
            return "wrongly listed" if self.clause else "equivalent"
        return "killed" if self.clause else "survived"

    @property
    def fine(self) -> bool:
        """It was killed, or nothing can kill it."""
        return self.word in ("killed", "equivalent")


@frozen
class MutantHunt:
    """What came of all mutants.

    ``stale`` are listed names of no mutant, ``unfit`` traces that the unchanged implementation fails.
    """

    kills: tuple[Kill, ...] = field(converter=tuple)
    stale: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """Every mutant is killed or equivalent, every listed one exists, every trace is fit."""
        return all(kill.fine for kill in self.kills) and not self.stale and not self.unfit


def mutants() -> tuple[Mutant, ...]:
    """List every mutant of the modules."""
    sources = {name: (files(PACKAGE) / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    return tuple(Mutant(name, mutation) for name, source in sources.items() for mutation in mutations(source))


def kill(mutant: Mutant, traces: Iterable[Named], clauses: Clauses, reason: str = "") -> Kill:
    """Walk a mutant through traces until one kills it."""
    try:
        subject = load(mutant.module, mutant.mutation.code()).subject(mutant.name)
    except Exception as error:
        return Kill(mutant.name, "import", type(error).__name__, 0, reason)
    for name, trace in traces:
        steps = Lockstep(subject, "layout", binding(clauses, "layout", trace)).run(trace)
        if steps[-1].divergences:
            calls = min(len(steps) - 1, len(trace.calls))
            return Kill(mutant.name, name, steps[-1].divergences[0].clause, calls, reason, trace)
    return Kill(mutant.name, reason=reason)


def control(traces: Iterable[Named], clauses: Clauses) -> tuple[str, ...]:
    """Name the traces that the unchanged implementation fails: they kill whatever they meet, and show nothing."""
    subject = load().subject()
    walks = ((name, Lockstep(subject, "layout", binding(clauses, "layout", t)).run(t)) for name, t in traces)
    return tuple(name for name, steps in walks if steps[-1].divergences)


def listed(how: Literal["equivalent", "dense"] = "equivalent") -> dict[str, str]:
    """Read the mutants that nothing can kill, or those that are tried on dense traces, with the reason of each."""
    path = files(__name__.rpartition(".")[0]) / _LISTED
    groups = cast("list[dict[str, Any]]", tomllib.loads(path.read_text(encoding="utf-8")).get(how, []))
    return {str(name): str(group["reason"]) for group in groups for name in group["mutants"]}


def suited(mutant: Mutant, traces: Iterable[Named], dense: Container[str] = ()) -> tuple[Named, ...]:
    """Choose the traces that a mutant walks: in a module of groups those of groups, in another one the others.

    A mutant of ``dense`` walks those without codes.
    """
    fitting = tuple(named for named in traces if named[1].config.is_rows == is_of_groups(mutant))
    return tuple(named for named in fitting if named[1].config.bits is None) if mutant.name in dense else fitting


def is_of_groups(mutant: Mutant) -> bool:
    """Say whether a mutant changes a module of groups."""
    return mutant.module.startswith("group")


def stored() -> tuple[Named, ...]:
    """Give the corpus, the traces found for mutants first."""
    entries = sorted(load_corpus(), key=lambda entry: (not entry.target.startswith("mutant"), entry.id))
    return tuple((entry.id, entry.trace) for entry in entries)


def first(traces: tuple[Named, ...], name: str) -> tuple[Named, ...]:
    """Move the trace of that name to the front: what killed the last mutant often kills the next."""
    return (*(t for t in traces if t[0] == name), *(t for t in traces if t[0] != name))


def hunt_mutants(on_event: Callable[[Kill], None] | None = None) -> MutantHunt:
    """Kill every mutant with the stored traces, each time beginning with the trace that killed last."""
    clauses, reasons, dense = load_clauses(), listed(), listed("dense")
    traces = stored()
    unfit = control(traces, clauses)
    kills: list[Kill] = []
    for mutant in mutants():
        kills.append(kill(mutant, suited(mutant, traces, dense), clauses, reasons.get(mutant.name, "")))
        traces = first(traces, kills[-1].trace)
        if on_event is not None:
            on_event(kills[-1])
    names = {one.name for one in kills}
    return MutantHunt(kills, tuple(name for name in (*reasons, *dense) if name not in names), unfit)
