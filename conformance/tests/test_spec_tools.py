"""``kvlaw spec``: every problem is planted once and must be reported, and a spec in step must give none."""

import io
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from rich.console import Console

from kvlaw.conformance.pairs import Pair
from kvlaw.conformance.spec_tools.check import Problem, check
from kvlaw.conformance.spec_tools.citations import Citation, citations_in, citations_of, read_citations
from kvlaw.conformance.spec_tools.evidence import Evidence, FailedExample, Fault, Runs, laws_of, tally
from kvlaw.conformance.spec_tools.matrix import HEADINGS, render_matrix, trace_matrix, write_matrix
from kvlaw.conformance.spec_tools.show import SCOPES, show
from kvlaw.spec.calls import AppendDecode, Trim
from kvlaw.spec.clauses import Clauses, SpecError, load_clauses
from kvlaw.spec.config import Config
from kvlaw.spec.inventory import INVENTORY_IDS, Placement
from kvlaw.spec.records import CacheRecord, Record, Run

CHAPTER = """\
# 1. Positions

### POS-2: an append advances the offset
level: MUST · since: 1.0 · applies: full, ring

As TRIM-1 says, and [the other](#trim-1-a-trim-drops-the-newest) too; see [inventory](inventory.md).

```law step
when: call.is_decode and result.ok
then: after.offset == o + 1
```
```example
full ; decode -> offset 1
```
Rationale: positions are counted.

### TRIM-1: a trim drops the newest
level: LAYOUT · since: 1.0 · applies: full · needs: trim

It does (inv:TRIM-1).

```law pair
runs: retold
when: one.steps
then: one.steps[-1].after.offset == other.steps[-1].after.offset
```
```example
full ; decode x2 ; trim 1 -> offset 1
```
Rationale: asked for.
Seen in: mlx-lm#1

### TRIM-9: given up
level: MUST · since: 1.0 · applies: full · retired: 1.1

TRIM-9 said something.
"""


def read(folder: Path, text: str = CHAPTER) -> Clauses:
    (folder / "01-positions.md").write_text(text, encoding="utf-8")
    return load_clauses(folder)


def decode(offset: int) -> Run:
    """A run of one decode after which the cache claims this offset."""
    return Run(Config("full"), "ok", (Record(AppendDecode(), "ok", after=CacheRecord(offset=offset), live=(1,)),))


RIGHT, WRONG = decode(1), decode(2)
INVENTORY = {name: Placement(("POS-2",), "", 9) for name in INVENTORY_IDS}
CITATIONS = (
    Citation("POS-2", "reference", "oracle.py", 3, "Oracle.append", "clause"),
    Citation("TRIM-1", "conformance", "proofs/lemmas.py", 7, "trim_drops", "lemma"),
)
EVIDENCE = Evidence(
    Runs((RIGHT,), (Pair("retold", RIGHT, RIGHT),)),
    (Fault("counts_twice", "POS-2", frozenset({"POS-2"}), Runs((WRONG,), (Pair("retold", RIGHT, WRONG),))),),
    exercised={"POS-2": 12},
)


def problems(clauses: Clauses, **changed: Any) -> list[Problem]:
    given: dict[str, Any] = {"inventory": INVENTORY, "citations": CITATIONS, "evidence": EVIDENCE, **changed}
    return check(clauses, given["inventory"], given["citations"], given["evidence"])


def only(found: list[Problem]) -> str:
    assert len(found) == 1, [str(p) for p in found]
    return str(found[0])


def test_a_spec_in_step_has_no_problem(tmp_path: Path) -> None:
    assert problems(read(tmp_path)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "```law step\nwhen: call.is_decode and result.ok\nthen: after.offset == o + 1\n```\n",
            "",
            "01-positions.md:3: no law: POS-2 has no law",
        ),
        ("```example\nfull ; decode -> offset 1\n```\n", "", "01-positions.md:3: no example: POS-2 has no example"),
        ("Rationale: asked for.\n", "", "01-positions.md:17: no rationale: TRIM-1 does not say why"),
        ("As TRIM-1 says", "As TRIM-7 says", "01-positions.md:6: unknown id: there is no clause TRIM-7"),
        ("As TRIM-1 says", "As TRIM-9 says", "01-positions.md:6: retired id: TRIM-9 was given up in 1.1"),
        ("(inventory.md)", "(inventry.md)", "broken link: 'inventry.md': there is no chapter inventry.md"),
        (
            "(#trim-1-a",
            "(#trim-2-a",
            "broken link: '#trim-2-a-trim-drops-the-newest': 01-positions.md has no such heading",
        ),
        ("call.is_decode and", "call.is_window and", "law never applied: POS-2, law 1 (step): no run of the oracle"),
        ("== o + 1", "== o + 3", "law false on the oracle: POS-2, law 1 (step): full ; decode"),
        ("== o + 1", "in (1, 2)", "law never broken: POS-2, law 1 (step): every planted fault kept it"),
        ("runs: retold", "runs: unread", "law never applied: TRIM-1, law 1 (pair)"),
    ],
)
def test_problems_of_the_text(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert CHAPTER.count(old) == 1
    text = CHAPTER.replace(old, new)
    found = problems(read(tmp_path, text))
    # a law that never applies is never broken either
    wanted = found[:1] if "never applied" in expected else found
    assert expected in only(wanted)


def test_a_link_out_of_the_spec_is_not_followed(tmp_path: Path) -> None:
    text = CHAPTER.replace("(inventory.md)", "(https://example.org/x.md)").replace("As TRIM-1", "`[x](y.md)`")
    assert problems(read(tmp_path, text)) == []


def test_an_inventory_id_needs_a_place(tmp_path: Path) -> None:
    clauses = read(tmp_path)
    without = {name: row for name, row in INVENTORY.items() if name != "inv:PAD-3"}
    assert only(problems(clauses, inventory=without)) == "inventory.md: inventory: inv:PAD-3 has no row"
    empty = {**INVENTORY, "inv:PAD-3": Placement((), "", 44)}
    assert only(problems(clauses, inventory=empty)) == "inventory.md:44: inventory: inv:PAD-3 has no place"
    elsewhere = {**INVENTORY, "inv:PAD-3": Placement(("choice: decision 3", "PAD-4"), "", 44)}
    assert only(problems(clauses, inventory=elsewhere)) == "inventory.md:44: unknown id: there is no clause PAD-4"
    retired = {**INVENTORY, "inv:PAD-3": Placement(("TRIM-9",), "", 44)}
    assert only(problems(clauses, inventory=retired)) == "inventory.md:44: retired id: TRIM-9 was given up in 1.1"


@pytest.mark.parametrize(
    ("clause_id", "form", "expected"),
    [
        ("POS-77", "clause", "mlx_impl/caches.py:5: unknown id: there is no clause POS-77"),
        ("POS-77", "constant", "mlx_impl/caches.py:5: unknown id: there is no clause POS-77"),
        ("POS-77", "mention", "mlx_impl/caches.py:5: unknown id: there is no clause POS-77"),
        ("TRIM-9", "clause", "mlx_impl/caches.py:5: retired id: TRIM-9 was given up in 1.1"),
    ],
)
def test_ids_that_the_code_cites_wrongly(tmp_path: Path, clause_id: str, form: Any, expected: str) -> None:
    wrong = Citation(clause_id, "mlx_impl", "caches.py", 5, "Cache.trim", form)
    assert only(problems(read(tmp_path), citations=(*CITATIONS, wrong))) == expected


def test_an_id_cited_twice_by_one_function(tmp_path: Path) -> None:
    found = problems(read(tmp_path), citations=(*CITATIONS, evolve(CITATIONS[0], line=4)))
    assert only(found) == "reference/oracle.py:4: repeated id: Oracle.append cites POS-2 twice"


@pytest.mark.parametrize("changed", [{"room": "mlx_impl"}, {"form": "mention"}, {"form": "lemma"}])
def test_a_must_clause_needs_oracle_code(tmp_path: Path, changed: Any) -> None:
    found = problems(read(tmp_path), citations=(evolve(CITATIONS[0], **changed), CITATIONS[1]))
    assert only(found) == "01-positions.md:3: no check: POS-2 is MUST, but no code of the oracle cites it"


def test_a_must_clause_needs_a_fault_that_it_catches(tmp_path: Path) -> None:
    clauses, fault = read(tmp_path), EVIDENCE.faults[0]
    elsewhere = evolve(EVIDENCE, faults=(evolve(fault, clause="TRIM-1", caught_by=frozenset({"TRIM-1"})),))
    missing = "01-positions.md:3: no fault: POS-2 is MUST, but catches no planted fault that names it"
    assert only(problems(clauses, evidence=elsewhere)) == missing
    missed = evolve(EVIDENCE, faults=(evolve(fault, caught_by=frozenset({"TRIM-1"})),))
    assert [str(p) for p in problems(clauses, evidence=missed)] == [
        "fault counts_twice: fault not caught: it names POS-2, but is caught by TRIM-1 only",
        missing,
    ]
    unseen = evolve(EVIDENCE, faults=(evolve(fault, caught_by=frozenset()),))
    assert "it names POS-2, but is caught by nothing" in str(problems(clauses, evidence=unseen)[0])


def test_a_fault_that_names_no_clause(tmp_path: Path) -> None:
    stray = Fault("stray", "POS-77", frozenset({"POS-77"}))
    found = problems(read(tmp_path), evidence=evolve(EVIDENCE, faults=(*EVIDENCE.faults, stray)))
    assert only(found) == "fault stray: unknown id: there is no clause POS-77"


def test_a_false_example(tmp_path: Path) -> None:
    failed = FailedExample("TRIM-1", 28, "trim 1: offset 1 is claimed, the oracle says 2")
    found = problems(read(tmp_path), evidence=evolve(EVIDENCE, failed_examples=(failed,)))
    assert only(found).startswith("01-positions.md:28: false example: TRIM-1: trim 1: offset 1 is claimed")


def test_a_law_is_tallied_over_all_runs(tmp_path: Path) -> None:
    laws = laws_of(read(tmp_path))
    found = tally(
        laws, [Runs((RIGHT, WRONG, RIGHT)), Runs((), (Pair("retold", RIGHT, WRONG), Pair("unread", RIGHT, WRONG)))]
    )
    step, pair = found[("POS-2", 0)], found[("TRIM-1", 0)]
    assert (step.applied, step.false, step.example) == (3, 1, "full ; decode")
    assert (pair.applied, pair.false) == (1, 1)


# ----------------------------------------------------------------------------------------------------------------------
# Citations

SOURCE = '''\
"""Rings (RING-3), from inv:RING-4 and UTF-8; not XRING-3 or RING-3b."""

LIMIT = "TRIM-6"


@clause("POS-1", "POS-2")
class Cache:
    """A cache (ID-1)."""

    @property
    @cite.clause("POS-3")
    def offset(self):
        """Say POS-4,
        and POS-5."""

        def inner():
            return ("VIS-1", "a VIS-2 b")

        return "VIS-3" if inner() else f"VIS-4"


@lemma("RING-1")
async def proof(): ...
'''


def test_citations_are_read_from_the_source() -> None:
    found = [(c.clause, c.line, c.name, c.form) for c in citations_of(SOURCE, "reference", "caches.py")]
    assert found == [
        ("RING-3", 1, "(module)", "mention"),
        ("TRIM-6", 3, "(module)", "constant"),
        ("POS-1", 6, "Cache", "clause"),
        ("POS-2", 6, "Cache", "clause"),
        ("ID-1", 8, "Cache", "mention"),
        ("POS-3", 11, "Cache.offset", "clause"),
        ("POS-4", 13, "Cache.offset", "mention"),
        ("POS-5", 14, "Cache.offset", "mention"),
        ("VIS-1", 17, "Cache.offset.inner", "constant"),
        ("VIS-3", 19, "Cache.offset", "constant"),
        ("VIS-4", 19, "Cache.offset", "constant"),
        ("RING-1", 22, "proof", "lemma"),
    ]


def test_citations_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.py").write_text('X = "POS-1"\n', encoding="utf-8")
    (tmp_path / "deep" / "a.md").write_text('X = "POS-2"\n', encoding="utf-8")
    assert [c.where for c in citations_in(tmp_path, "reference")] == ["reference/deep/a.py:1"]


def test_the_rooms_are_read_where_they_are_installed() -> None:
    found = read_citations()
    assert {c.room for c in found} >= {"reference", "mlx_impl", "conformance"}
    assert read_citations(["nowhere"]) == ()


# ----------------------------------------------------------------------------------------------------------------------
# Show and trace


def plain(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in console.file.getvalue().split("\n"))  # type: ignore[attr-defined] # a StringIO


def test_a_clause_is_shown_whole(tmp_path: Path) -> None:
    assert plain(show("trim-1", read(tmp_path), CITATIONS, EVIDENCE)) == (
        "TRIM-1: a trim drops the newest " + "─" * 68 + "\n"
        """\
LAYOUT · since 1.0 · for full · needs trim · 01-positions.md:17

  It does (inv:TRIM-1).

law, of two runs
  runs: retold
  when: one.steps
  then: one.steps[-1].after.offset == other.steps[-1].after.offset

example
  full ; decode x2 ; trim 1 -> offset 1

why
  asked for.

seen in
  mlx-lm#1

cited by
  conformance/proofs/lemmas.py:7  trim_drops (lemma)
"""
    )


def test_every_shipped_clause_can_be_shown() -> None:
    clauses = load_clauses()
    assert {law.scope for clause in clauses.values() for law in clause.laws} == set(SCOPES)
    for clause in clauses.values():
        shown = plain(show(clause.id, clauses, (), None))
        assert all(f"law, {SCOPES[law.scope]}" in shown for law in clause.laws)


def test_faults_and_retirement_are_shown(tmp_path: Path) -> None:
    clauses = read(tmp_path)
    assert "  reference/oracle.py:3  Oracle.append\n  fault counts_twice\n" in plain(
        show("POS-2", clauses, CITATIONS, EVIDENCE)
    )
    assert "for full · RETIRED in 1.1 · 01-positions.md:" in plain(show("TRIM-9", clauses, ()))
    with pytest.raises(SpecError, match="no clause 'POS-9'; POS goes from POS-2 to POS-2"):
        show("POS-9", clauses)


def test_the_matrix(tmp_path: Path) -> None:
    rows = trace_matrix(read(tmp_path), CITATIONS, EVIDENCE)
    assert [row.cells for row in rows] == [
        ("POS-2", "MUST", "1", "1", "1", "12", "counts_twice", ""),
        ("TRIM-1", "LAYOUT", "", "1", "1", "", "", "trim_drops"),
    ]
    assert rows[0].oracle == ("Oracle.append",)
    assert write_matrix(rows).split("\n")[0] == f"| {' | '.join(HEADINGS)} |"
    assert "| TRIM-1 | LAYOUT |  | 1 | 1 |  |  | trim_drops |" in write_matrix(rows)
    assert "counts_twice" in plain(render_matrix(rows))


def test_a_trim_in_a_run_is_described_as_text(tmp_path: Path) -> None:
    told = evolve(WRONG, steps=(*WRONG.steps, Record(Trim(n=1), "refused")))
    found = tally(laws_of(read(tmp_path)), [Runs((told,))])
    assert found[("POS-2", 0)].example == "full ; decode ; trim 1"
