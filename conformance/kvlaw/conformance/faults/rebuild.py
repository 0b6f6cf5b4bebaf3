"""Write the corpus anew: ``python -m kvlaw.conformance.faults.rebuild`` (needs MLX; some minutes).

``faults.jsonl`` holds the hand-written trace of every planted fault.  ``mutants.jsonl`` holds, for every mutant that
none of those kills, the shortest trace that a search finds; what survives the search is printed, to be studied by hand.
"""

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

from kvlaw.conformance.corpus import Entry, save
from kvlaw.conformance.faults.mutants import Mutant, Named, control, first, is_of_groups, kill, listed, mutants, suited
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.faults.search import draw_many, shortest
from kvlaw.spec.clauses import Clauses, load_clauses
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace

Say = Callable[[str], None]


def rebuild(folder: Path, say: Say, seed: int = 0, most: int = 300) -> None:
    """Write both files of the corpus to ``folder``, searching ``most`` traces for a mutant that no other kills."""
    planted = [fault.entry for fault in load_faults().values()]
    save(planted, "faults.jsonl", folder)
    pool = tuple((entry.id, entry.trace) for entry in planted)
    save(_search(pool, load_clauses(), say, seed, most), "mutants.jsonl", folder)


def _search(pool: tuple[Named, ...], clauses: Clauses, say: Say, seed: int, most: int) -> Iterator[Entry]:
    drawn = {rows: dict(draw_many(seed, most * (1 + rows), rows=rows)) for rows in (False, True)}
    for traces in drawn.values():
        for name in control(traces.items(), clauses):
            say(f"the unchanged implementation fails {write(traces.pop(name))}")
    reasons, dense, number = listed(), listed("dense"), 0
    for mutant in mutants():
        known = kill(mutant, suited(mutant, pool, dense), clauses)
        if known.clause:
            pool = first(pool, known.trace)
            continue
        found = kill(mutant, suited(mutant, drawn[is_of_groups(mutant)].items(), dense), clauses)
        if found.found is None:
            say(f"{'equivalent' if mutant.name in reasons else 'SURVIVES'}: {mutant.name}")
            continue
        number += 1
        entry = _entry(mutant, number, found.found, clauses)
        pool = ((entry.id, entry.trace), *pool)
        say(f"{entry.id} {entry.expect}: {write(entry.trace)}  # {mutant.name}")
        yield entry


def _entry(mutant: Mutant, number: int, trace: Trace, clauses: Clauses) -> Entry:
    def fails(candidate: Trace) -> bool:
        one = [("", candidate)]
        return bool(kill(mutant, one, clauses).clause) and not control(one, clauses)

    trace = shortest(trace, fails)
    clause = kill(mutant, [("", trace)], clauses).clause
    return Entry(f"mutant-{number:02}", mutant.name, f"mutant:{mutant.module}", clause, trace)


if __name__ == "__main__":
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    rebuild(Path(str(files("kvlaw.conformance.corpus"))), lambda line: console.print(line, markup=False))
