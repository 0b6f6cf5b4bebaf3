"""The text of the spec: what is read from it, and what is refused, with file and line."""

from pathlib import Path

import pytest

from kvlaw.spec.clauses import Clauses, SpecError, load_clauses
from kvlaw.spec.inventory import COUNTS, INVENTORY_IDS, load_inventory, read_inventory

GOOD = """\
# Trim

One sentence.

### TRIM-4: a trim that is not possible is refused
level: MUST · since: 1.0 · applies: ring · needs: trim, can_trim

A ring refuses.
It changes nothing.

```law step
when: call.is_trim and
  o >= W
then: result.refused
```
```law pair
runs: retold
when: True
then: one.steps == other.steps
```
```example
ring window=8 ; window 12 ; trim 2 -> refused
  decode -> sees t6..t13
full ; decode -> offset 1
```
Rationale: because.
It is so.
Seen in: mlx-lm#1776

### TRIM-5: given up
level: LAYOUT · since: 1.0 · applies: full, ring · retired: 1.1

It said something.

## Untested

### TRIM-7: another
level: LAYOUT · since: 1.0 · applies: full, ring

Text.
"""


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def load(folder: Path, text: str) -> Clauses:
    return load_clauses(write(folder, chapter=text))


def test_a_clause_is_read_whole(tmp_path: Path) -> None:
    clauses = load(tmp_path, GOOD)
    clause = clauses["TRIM-4"]
    assert (clause.family, clause.number, clause.title) == ("TRIM", 4, "a trim that is not possible is refused")
    assert (clause.level, clause.since, clause.where) == ("MUST", "1.0", "chapter.md:5")
    assert clause.applies == {"ring"}
    assert clause.needs == {"trim", "can_trim"}
    assert clause.prose == "A ring refuses.\nIt changes nothing."
    assert [(law.scope, law.when, law.then, law.runs) for law in clause.laws] == [
        ("step", "call.is_trim and o >= W", "result.refused", ""),
        ("pair", "True", "one.steps == other.steps", "retold"),
    ]
    assert [(e.text, e.line) for e in clause.examples] == [
        ("ring window=8 ; window 12 ; trim 2 -> refused\n  decode -> sees t6..t13", 22),
        ("full ; decode -> offset 1", 24),
    ]
    assert clause.rationale == "because.\nIt is so."
    assert clause.seen == "mlx-lm#1776"


def test_a_clause_binds_its_kinds_and_capabilities(tmp_path: Path) -> None:
    clause = load(tmp_path, GOOD)["TRIM-4"]
    assert clause.applicable("ring", frozenset({"trim", "can_trim", "mask"}))
    assert not clause.applicable("full", frozenset({"trim", "can_trim"}))
    assert not clause.applicable("ring", frozenset({"trim"}))


def test_retired_clauses_keep_their_id_but_are_not_in_force(tmp_path: Path) -> None:
    clauses = load(tmp_path, GOOD)
    assert list(clauses) == ["TRIM-4", "TRIM-7"]
    assert clauses.retired["TRIM-5"].retired == "1.1"
    assert clauses.find("TRIM-5").prose == "It said something."
    with pytest.raises(SpecError, match=r"two.md:1: TRIM-5 stands already at chapter.md:30"):
        load_clauses(write(tmp_path, two="### TRIM-5: x\nlevel: MUST · since: 1.0 · applies: full\n\nx\n"))


def test_profiles(tmp_path: Path) -> None:
    clauses = load(tmp_path, GOOD)
    assert list(clauses.of_profile("core")) == ["TRIM-4"]
    assert list(clauses.of_profile("layout")) == ["TRIM-4", "TRIM-7"]
    with pytest.raises(SpecError, match="unknown profile 'strict'; known are core, layout"):
        clauses.of_profile("strict")


def test_a_clause_that_is_not_there_is_answered_with_what_is(tmp_path: Path) -> None:
    clauses = load(tmp_path, GOOD)
    with pytest.raises(SpecError, match="no clause 'TRIM-99'; TRIM goes from TRIM-4 to TRIM-7"):
        clauses.find("TRIM-99")
    with pytest.raises(SpecError, match="no clause 'spam'; the families are TRIM"):
        clauses.find("spam")


LEVEL = "level: MUST · since: 1.0 · applies: ring · needs: trim, can_trim"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("### TRIM-4: a", "#### TRIM-4: a", 5, "a clause heading reads"),
        ("### TRIM-4: a", "### TRIM-4 a", 5, "a clause heading reads"),
        ("### TRIM-4: a", "### TRIMM-4: a", 5, "unknown family 'TRIMM'"),
        ("### TRIM-7: ", "### TRIM-4: ", 37, "TRIM-4 stands already at chapter.md:5"),
        (LEVEL, "A ring.", 6, "TRIM-4: no level"),
        (LEVEL, "", 6, "TRIM-4: no level"),
        (LEVEL, "level: SHOULD · since: 1.0 · applies: ring", 6, "unknown level 'SHOULD'; known are MUST, LAYOUT"),
        (LEVEL, "level: MUST · applies: ring", 6, "'since' is missing"),
        (LEVEL, "level: MUST · since: 1.0", 6, "'applies' is missing"),
        (LEVEL, "level: MUST · since: one · applies: ring", 6, "since: 'one' is no version"),
        (LEVEL, "level: MUST · since: 1.0 · applies: rings", 6, "unknown kind of cache 'rings'; known are full, ring"),
        (LEVEL, "level: MUST · since: 1.0 · applies: ring · needs: trimming", 6, "unknown capability 'trimming'"),
        (LEVEL, "level: MUST · since: 1.0 · applies: ring · needs:", 6, "cannot read 'needs:'"),
        (LEVEL, "level: MUST · applies: ring · since: 1.0", 6, "wrong order of fields: level, applies, since"),
        (LEVEL, "level: MUST · since: 1.0 · since: 1.0 · applies: ring", 6, "'since' is given twice"),
        (LEVEL, "level: MUST · since: 1.0 · applies: ring · colour: red", 6, "cannot read 'colour: red'"),
        ("A ring refuses.\nIt changes nothing.", "", 5, "TRIM-4 says nothing"),
        ("```law step", "```law stop", 11, "unknown scope of a law 'stop'; known are step, group, trace, pair"),
        ("```law step", "```python", 11, "unknown block 'python'"),
        ("when: call.is_trim and", "if: call.is_trim and", 12, "cannot read 'if: call.is_trim and'"),
        ("then: result.refused", "when: result.refused", 14, "cannot read 'when: result.refused'"),
        ("then: result.refused", "", 11, "a step law has when, then, in this order, not when"),
        ("runs: retold\n", "", 16, "a pair law has runs, when, then"),
        ("runs: retold", "runs: twice", 16, "unknown way to make the second run 'twice'"),
        ("then: result.refused", "then: result.refused)", 11, "TRIM-4: then: unmatched"),
        ("then: result.refused", "then: outcome.refused", 11, "unknown name 'outcome'"),
        ("then: result.refused", "then: result.refusd", 11, "unknown attribute 'refusd'"),
        ("trim 2 -> refused", "trim two -> refused", 22, "TRIM-4: 'trim two'"),
        ("full ; decode -> offset 1", "full ; decode", 24, "the example claims nothing"),
        ("ring window=8 ; window 12 ; trim 2 -> refused", "window 12", 21, "an example opens with a kind"),
        ("Rationale: because.", "```example\nfull -> ok\n```\nSo it is.\nRationale: because.", 29, "wrong order"),
        ("Seen in: mlx-lm#1776", "Seen in: mlx-lm#1776\nRationale: again", 29, "wrong order"),
        ("decode -> offset 1\n```", "decode -> offset 1\n", 21, "the block ```example is never closed"),
    ],
)
def test_what_is_malformed_is_refused_with_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    if "never closed" in message:
        text = text.split("Rationale:")[0]
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"chapter.md:{line}: ")
    assert message in str(caught.value)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no chapter"):
        load_clauses(tmp_path)
    with pytest.raises(SpecError, match="there is no chapter"):
        load_clauses(tmp_path / "missing")


def test_the_shipped_text_is_read_once() -> None:
    assert load_clauses() is load_clauses()


def test_the_inventory_has_286_ids() -> None:
    # behaviour.md, section 3, counts them
    assert len(INVENTORY_IDS) == len(set(INVENTORY_IDS)) == 286
    assert len(COUNTS) == 18
    assert {"inv:ID-1", "inv:PREC-29", "inv:ERR-22"} <= set(INVENTORY_IDS)
    assert "inv:REUSE-9" not in INVENTORY_IDS


def test_inventory_rows_are_read() -> None:
    table = read_inventory(
        "# Table\n| id | place | note |\n|---|---|---|\n"
        "| inv:RING-3 | RING-4, RING-5 | as is |\n"
        "| `inv:GROW-1` | choice: decision 17, and 18; GROW-3 | |\n"
        "| inv:PREC-1 | later: issue 3 | |\n"
        "| inv:PREC-2 | | |\n",
        "inventory.md",
    )
    assert list(table) == ["inv:RING-3", "inv:GROW-1", "inv:PREC-1", "inv:PREC-2"]
    assert table["inv:RING-3"].places == ("RING-4", "RING-5")
    assert (table["inv:RING-3"].note, table["inv:RING-3"].line) == ("as is", 4)
    assert table["inv:GROW-1"].places == ("choice: decision 17, and 18", "GROW-3")
    assert table["inv:GROW-1"].clauses == ("GROW-3",)
    assert table["inv:PREC-2"].places == ()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("| inv:RING-99 | RING-4 | x |", "inventory.md:1: 'inv:RING-99' is no id of the inventory"),
        ("| inv:RING-1 | RING-4 |", "inventory.md:1: a row reads"),
        ("| inv:RING-1 | somewhere | x |", "inventory.md:1: cannot read the place 'somewhere'"),
        ("| inv:RING-1 | RING-4 RING-5 | x |", "cannot read the place 'RING-4 RING-5'"),
        ("| inv:RING-1 | choice: | x |", "cannot read the place 'choice:'"),
        (
            "| inv:RING-1 | RING-4 | x |\n| inv:RING-1 | RING-5 | x |",
            "inventory.md:2: inv:RING-1 stands already at line 1",
        ),
    ],
)
def test_inventory_rows_that_cannot_be_read(rows: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_inventory(rows, "inventory.md")
    assert message in str(caught.value)


def test_a_missing_inventory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no inventory table"):
        load_inventory(tmp_path)
