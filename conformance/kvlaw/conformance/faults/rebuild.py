"""Write the corpus anew: ``python -m kvlaw.conformance.faults.rebuild`` (needs MLX; some minutes).

``faults.jsonl`` holds the hand-written trace of every planted fault.  ``mutants.jsonl`` holds, for every mutant that
none of those kills, a trace of ``by_hand``, or else the shortest that a search finds; what survives the search is
printed, to be studied by hand.  What is listed as equivalent is not searched.

With names of modules (``... rebuild recurrent recurrent_rows``) it adds to ``mutants.jsonl`` what the mutants of these
modules need beside all that is stored.
"""

import sys
from collections.abc import Callable, Container, Iterator, Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path

from attrs import frozen

from kvlaw.conformance.corpus import Entry, load_corpus, save
from kvlaw.conformance.faults.by_hand import by_hand
from kvlaw.conformance.faults.mutants import (
    Family,
    Kill,
    Mutant,
    Named,
    control,
    family_of,
    family_of_trace,
    first,
    kill,
    listed,
    mutants,
    suited,
)
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.faults.search import draw_many, shortest
from kvlaw.spec.clauses import Clauses, load_clauses
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace

Say = Callable[[str], None]


@frozen
class Found:
    """A trace that kills a mutant which nothing else kills, and the clause that it breaks."""

    name: str
    module: str
    clause: str
    trace: Trace


def rebuild(folder: Path, say: Say, seed: int = 0, most: int = 300) -> None:
    """Write both files of the corpus to ``folder``, searching ``most`` traces for a mutant that no other kills."""
    planted = [fault.entry for fault in load_faults().values()]
    save(planted, "faults.jsonl", folder)
    pool = tuple((entry.id, entry.trace) for entry in planted)
    found = _search(pool, mutants(), load_clauses(), say, seed, most)
    save((_entry(f"mutant-{n:02}", kill) for n, kill in enumerate(found, 1)), "mutants.jsonl", folder)


def extend(folder: Path, modules: Sequence[str], say: Say, seed: int = 0, most: int = 300) -> None:
    """Add to ``mutants.jsonl`` of ``folder`` what the mutants of these modules need beside all that is stored."""
    stored = load_corpus(folder)
    entries = [entry for entry in stored if entry.target.startswith("mutant:")]
    pool = tuple((entry.id, entry.trace) for entry in stored)
    ids = {entry.id for entry in stored}
    free = {module: _names(module, ids) for module in modules}
    hunted = [mutant for mutant in mutants() if mutant.module in modules]
    found = _search(pool, hunted, load_clauses(), say, seed, most)
    entries += [_entry(next(free[kill.module]), kill) for kill in found]
    save(entries, "mutants.jsonl", folder)


def _names(module: str, taken: Container[str]) -> Iterator[str]:
    """Give ids that no entry has."""
    return (name for n in count(1) if (name := f"mutant-{module}-{n:02}") not in taken)


def _search(
    pool: tuple[Named, ...], hunted: Sequence[Mutant], clauses: Clauses, say: Say, seed: int, most: int
) -> Iterator[Found]:
    reasons, dense, tried = listed(), listed("dense"), dict[Family, tuple[Named, ...]]()
    for mutant in hunted:
        known = kill(mutant, suited(mutant, pool, dense), clauses)
        if known.clause:
            pool = first(pool, known.trace)
            continue
        if mutant.name in reasons:
            continue
        family = family_of(mutant)
        if family not in tried:
            tried[family] = _tried(family, clauses, say, seed, most)
        found = kill(mutant, suited(mutant, tried[family], dense), clauses)
        if found.found is None:
            say(f"SURVIVES: {mutant.name}")
            continue
        killed = _shortened(mutant, found, clauses)
        pool = ((killed.name, killed.trace), *pool)
        say(f"{killed.clause}: {write(killed.trace)}  # {mutant.name}, from {found.trace}")
        yield killed


def _tried(family: Family, clauses: Clauses, say: Say, seed: int, most: int) -> tuple[Named, ...]:
    """Give the traces of a family that may be stored: those written by hand, then drawn ones."""
    drawn = draw_many(seed, most if family == "serial" else 2 * most, family)
    traces = dict((*(named for named in by_hand() if family_of_trace(named[1]) == family), *drawn))
    for name in control(traces.items(), clauses):
        say(f"the unchanged implementation fails {name}: {write(traces.pop(name))}")
    return tuple(traces.items())


def _shortened(mutant: Mutant, found: Kill, clauses: Clauses) -> Found:
    def fails(candidate: Trace) -> bool:
        one = [("", candidate)]
        return bool(kill(mutant, one, clauses).clause) and not control(one, clauses)

    assert found.found is not None  # asked for what killed
    trace = found.found if found.trace in dict(by_hand()) else shortest(found.found, fails)
    return Found(mutant.name, mutant.module, kill(mutant, [("", trace)], clauses).clause, trace)


def _entry(name: str, found: Found) -> Entry:
    return Entry(name, found.name, f"mutant:{found.module}", found.clause, found.trace)


if __name__ == "__main__":
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, emoji=False)
    corpus = Path(str(files("kvlaw.conformance.corpus")))
    if sys.argv[1:]:
        extend(corpus, sys.argv[1:], lambda line: console.print(line, markup=False))
    else:
        rebuild(corpus, lambda line: console.print(line, markup=False))
