"""Mutants of our geometry, mask and precision modules: killed by a trace, or listed as equivalent with a reason.

A mutant is the MLX implementation with one module changed in memory (``changed``).  Its caches walk the stored traces
in the layout profile, the one that killed last first; whatever diverges, hangs, or fails with anything but a
``CacheError`` kills it.  ``equivalent_mutants.toml`` lists those that nothing can kill; an entry that is killed, or
that is no mutant any more, is wrong.  It also lists those on which MLX ends the process when it reads codes: they walk
dense traces alone.  Modules of groups walk the traces of groups, those of recurrent layers the traces of recurrent
layers.  The unchanged implementation must pass every trace that is used (``control``).
"""

import tomllib
from collections.abc import Callable, Container, Iterable
from importlib.resources import files
from typing import Any, Literal, cast

from attrs import evolve, field, frozen

from kvlaw.conformance.corpus import load_corpus
from kvlaw.conformance.faults.changed import PACKAGE, Loaded, load
from kvlaw.conformance.faults.changed_recurrent import recurrent_subject
from kvlaw.conformance.faults.hunt import binding
from kvlaw.conformance.faults.mutator import Mutation, mutations
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.processes import WorkerError, spread
from kvlaw.spec.clauses import Clauses, load_clauses
from kvlaw.spec.contract import Subject
from kvlaw.spec.trace import Trace

MODULES = (
    *("geometry", "masks", "precision", "codes", "codec", "caches"),
    *("group_geometry", "group_masks", "group_planes", "group_plans", "group_settle", "group_merge"),
    *("group_appends", "groups", "group_content"),
    *("recurrent", "recurrent_rows", "recurrent_state"),
)
"""The modules that are changed: those that decide in integers, those that move codes by them, recurrent layers."""

Named = tuple[str, Trace]
"""A trace under a name."""

Family = Literal["serial", "rows", "recurrent"]
"""Which traces go together: those of caches, of groups of rows, and of recurrent layers, rows or not."""

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
        subject = _subject(load(mutant.module, mutant.mutation.code()), is_recurrent(mutant), mutant.name)
    except Exception as error:
        return Kill(mutant.name, "import", type(error).__name__, 0, reason)
    for name, trace in traces:
        steps = Lockstep(subject, "layout", binding(clauses, "layout", trace)).run(trace)
        if steps[-1].divergences:
            calls = min(len(steps) - 1, len(trace.calls))
            return Kill(mutant.name, name, steps[-1].divergences[0].clause, calls, reason, trace)
    return Kill(mutant.name, reason=reason)


def _subject(loaded: Loaded, recurrent: bool, name: str = "mlx_impl") -> Subject:
    return recurrent_subject(loaded, name) if recurrent else loaded.subject(name)


def control(traces: Iterable[Named], clauses: Clauses) -> tuple[str, ...]:
    """Name the traces that the unchanged implementation fails: they kill whatever they meet, and show nothing."""
    subjects = {recurrent: _subject(load(), recurrent) for recurrent in (False, True)}
    walks = (
        (name, Lockstep(subjects[t.config.is_recurrent], "layout", binding(clauses, "layout", t)).run(t))
        for name, t in traces
    )
    return tuple(name for name, steps in walks if steps[-1].divergences)


def listed(how: Literal["equivalent", "dense"] = "equivalent") -> dict[str, str]:
    """Read the mutants that nothing can kill, or those that are tried on dense traces, with the reason of each."""
    path = files(__name__.rpartition(".")[0]) / _LISTED
    groups = cast("list[dict[str, Any]]", tomllib.loads(path.read_text(encoding="utf-8")).get(how, []))
    return {str(name): str(group["reason"]) for group in groups for name in group["mutants"]}


def suited(mutant: Mutant, traces: Iterable[Named], dense: Container[str] = ()) -> tuple[Named, ...]:
    """Choose the traces that a mutant walks: those of recurrent layers, of groups, or of other caches.

    A mutant of ``dense`` walks those without codes.
    """
    family = family_of(mutant)
    fitting = tuple(named for named in traces if family_of_trace(named[1]) == family)
    return tuple(named for named in fitting if named[1].config.bits is None) if mutant.name in dense else fitting


def family_of(mutant: Mutant) -> Family:
    """Say which traces a mutant walks."""
    return "recurrent" if is_recurrent(mutant) else "rows" if is_of_groups(mutant) else "serial"


def family_of_trace(trace: Trace) -> Family:
    """Say which mutants walk a trace."""
    return "recurrent" if trace.config.is_recurrent else "rows" if trace.config.is_rows else "serial"


def is_recurrent(mutant: Mutant) -> bool:
    """Say whether a mutant changes a module of recurrent layers."""
    return mutant.module.startswith("recurrent")


def is_of_groups(mutant: Mutant) -> bool:
    """Say whether a mutant changes a module of groups, or a method ``row`` of planes, which only groups ask."""
    return mutant.module.startswith("group") or ".row:" in mutant.name


def stored() -> tuple[Named, ...]:
    """Give the corpus, the traces found for mutants first."""
    entries = sorted(load_corpus(), key=lambda entry: (not entry.target.startswith("mutant"), entry.id))
    return tuple((entry.id, entry.trace) for entry in entries)


def first(traces: tuple[Named, ...], name: str) -> tuple[Named, ...]:
    """Move the trace of that name to the front: what killed the last mutant often kills the next."""
    return (*(t for t in traces if t[0] == name), *(t for t in traces if t[0] != name))


@frozen
class Batch:
    """Mutants that are hunted one after the other, each time beginning with the trace that killed last."""

    first: int
    last: int
    every: int = 1

    @property
    def name(self) -> str:
        """Say which mutants these are."""
        return f"mutants {self.first} to {self.last}"


BATCH = 120
"""How many mutants are hunted by one process before it takes others."""


def hunt_mutants(on_event: Callable[[Kill], None] | None = None, every: int = 1, jobs: int = 1) -> MutantHunt:
    """Kill each ``every``-th mutant with the stored traces, in batches, of which ``jobs`` are hunted side by side.

    A mutant that ends the process in which it is hunted is killed by that.
    """
    known = mutants()
    chosen = known[::every]
    batches = [Batch(first, min(first + BATCH, len(chosen)) - 1, every) for first in range(0, len(chosen), BATCH)]
    kills: list[list[Kill]] = [[] for _ in batches]

    def told(index: int, kill: Kill) -> None:
        kills[index].append(kill)
        if on_event is not None:
            on_event(kill)

    def recover(index: int, error: WorkerError) -> Batch:
        batch = batches[index]
        fatal = chosen[batch.first + len(kills[index])]
        told(index, Kill(fatal.name, "process", error.how, reason=listed().get(fatal.name, "")))
        return evolve(batch, first=batch.first + len(kills[index]))

    for _ in spread(hunt_batch, batches, jobs, told, recover):
        pass
    names = {mutant.name for mutant in known}
    stale = tuple(name for name in (*listed(), *listed("dense")) if name not in names)
    return MutantHunt([kill for part in kills for kill in part], stale, control(stored(), load_clauses()))


def hunt_batch(batch: Batch, tell: Callable[[Kill], None]) -> None:
    """Hunt the mutants of one batch, telling of each as it is done."""
    clauses, reasons, dense, traces = load_clauses(), listed(), listed("dense"), stored()
    for mutant in mutants()[:: batch.every][batch.first : batch.last + 1]:
        killed = kill(mutant, suited(mutant, traces, dense), clauses, reasons.get(mutant.name, ""))
        traces = first(traces, killed.trace)
        tell(killed)
