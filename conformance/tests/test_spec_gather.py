"""Evidence: examples on the oracle and planted faults on their traces; and that the shipped text can be gathered."""

import io
import subprocess
import sys
from pathlib import Path

from attrs import frozen
from rich.console import Console

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.spec_tools.check import Problem
from kvlaw.conformance.spec_tools.evidence import laws_of, tally
from kvlaw.conformance.spec_tools.gate import collect, print_check
from kvlaw.conformance.spec_tools.gather import gather
from kvlaw.conformance.spec_tools.matrix import trace_matrix
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Cache
from kvlaw.reference.oracle import Profile
from kvlaw.spec.clauses import Clauses, load_clauses
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace

CHAPTER = """\
### POS-4: a trim lowers the offset
level: MUST · since: 1.0 · applies: full, ring · needs: trim

It does.

```law step
when: call.is_trim and result.ok
then: after.offset == before.offset - result.answer
```
```law pair
runs: retold
when: one.steps[-1].ok
then: set(seen(one.steps[-1].read)) == set(seen(other.steps[-1].read))
```
```example
full ; window 3 ; trim 2 -> 2 and offset 1
```
Rationale: honest.

### TRIM-1: a trim drops the newest
level: MUST · since: 1.0 · applies: full · needs: trim

It does.

```law step
when: call.is_trim
then: result.ok
```
```example
full ; window 3 ; trim 2 -> offset 2
```
Rationale: honest.
"""


class KeepsTheOffset(Cache):
    """Answer a trim and drop nothing."""

    def trim(self, count: int, bypass: bool = False) -> int:
        del bypass
        return count


class KeepsTheOffsetAdapter(ReferenceAdapter):
    cache_type = KeepsTheOffset


@frozen
class Planted:
    name: str = "keeps-the-offset"
    breaks: str = "POS-4"
    profile: Profile = "core"
    trace: Trace = parse("full ; window 2 ; trim 1").trace


def read(folder: Path) -> Clauses:
    (folder / "01.md").write_text(CHAPTER, encoding="utf-8")
    return load_clauses(folder)


def test_examples_faults_and_pairs_are_played(tmp_path: Path) -> None:
    clauses = read(tmp_path)
    fault = AdapterSubject(KeepsTheOffsetAdapter())
    evidence = gather(clauses, AdapterSubject(ReferenceAdapter()), [(Planted(), fault)])
    assert [(f.clause, f.line) for f in evidence.failed_examples] == [("TRIM-1", 30)]
    assert "the oracle says 1" in evidence.failed_examples[0].message
    assert evidence.exercised["POS-4"] >= 3
    (found,) = evidence.faults
    assert (found.name, found.clause) == ("keeps-the-offset", "POS-4")
    assert "POS-4" in found.caught_by
    on_oracle = tally(laws_of(clauses), [evidence.oracle])
    assert {key: seen.false for key, seen in on_oracle.items()} == {("POS-4", 0): 0, ("POS-4", 1): 0, ("TRIM-1", 0): 0}
    assert min(seen.applied for seen in on_oracle.values()) > 0
    on_fault = tally(laws_of(clauses), [found.seen])
    assert on_fault[("POS-4", 0)].false > 0
    assert on_fault[("POS-4", 1)].false > 0  # the trimmed token is still seen, the retold run never had it
    assert on_fault[("TRIM-1", 0)].false == 0


def test_without_the_laws_the_same_is_exercised_and_caught(tmp_path: Path) -> None:
    clauses = read(tmp_path)
    planted = [(Planted(), AdapterSubject(KeepsTheOffsetAdapter()))]
    whole = gather(clauses, AdapterSubject(ReferenceAdapter()), planted)
    short = gather(clauses, AdapterSubject(ReferenceAdapter()), planted, for_laws=False)
    assert short.exercised == whole.exercised
    assert short.failed_examples == whole.failed_examples
    assert [(f.name, f.caught_by) for f in short.faults] == [(f.name, f.caught_by) for f in whole.faults]
    assert (len(short.oracle.pairs), len(short.faults[0].seen.runs)) == (0, 0)


def test_the_shipped_spec_is_in_step_and_is_checked_without_mlx() -> None:
    code = (
        "import sys; sys.modules['mlx'] = sys.modules['mlx_lm'] = None\n"  # an import of either fails
        "from kvlaw.conformance.spec_tools.gate import run_spec_check\n"
        "print(*run_spec_check(), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)


def test_what_is_behind_every_shipped_must_clause() -> None:
    clauses = load_clauses()
    rows = trace_matrix(clauses, *collect(for_laws=False))
    assert [row.clause.id for row in rows] == list(clauses)
    assert [row.clause.id for row in rows if row.clause.level == "MUST" and not (row.oracle and row.faults)] == []
    assert [row.clause.id for row in rows if not row.checked] == []


def test_problems_are_printed_one_a_line_and_fail() -> None:
    console = Console(file=io.StringIO(), width=40)
    problem = Problem("no law", "01.md:3", "POS-2 has no law at all, said in more than forty columns")
    assert print_check(console, [problem]) == 1
    assert console.file.getvalue() == f"{problem}\nspec check: 1 problems\n"  # type: ignore[attr-defined] # a StringIO


def test_nothing_out_of_step_is_said_so() -> None:
    console = Console(file=io.StringIO(), width=200)
    assert print_check(console, []) == 0
    assert "text, code, faults and inventory are in step" in console.file.getvalue()  # type: ignore[attr-defined] # as above
