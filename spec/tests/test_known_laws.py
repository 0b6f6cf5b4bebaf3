"""The laws that speak of every append, or of window appends, on known appends: a record that keeps each, and one not.

Chapter 7: a known append stores, masks and counts as a window append of the same length. Worked out by hand: five
tokens t1 .. t5, of which the known append brings t4 and t5.
"""

from typing import Any

import pytest

from kvlaw.spec.calls import AppendKnown, Attend, Reset
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Config
from kvlaw.spec.records import CacheRecord, ReadRecord, Record, Run, Tokens

FULL, RING = Config(kind="full"), Config(kind="ring", window=3)
PINNED = Config(kind="ring", window=3, sinks=1)
T3, T4, T5 = (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)


def known(*seen: Tokens, call: AppendKnown | None = None, held: Tokens | None = None, **read: Any) -> Record:
    """Write the step of a known append at offset 3, whose queries see the tokens given."""
    count = len(held) if held is not None else None
    return Record(
        call or AppendKnown(length=2),
        "ok",
        read=ReadRecord(visible=(seen,), fetched=(T5,), output="x", **read),
        before=CacheRecord(offset=3, columns=3, write_index=3, held=T3),
        after=CacheRecord(offset=5, columns=count, write_index=count, held=held),
        live_before=T3,
        live=T5,
        tokens=(4, 5),
    )


def masked(rows: int) -> Record:
    """Write a known append whose mask is an array of so many rows."""
    return known(T4, T5, mask="array", mask_shape=(rows, 5), width=5)


def verdicts(clause: str, config: Config, *steps: Record) -> list[bool]:
    """Say what the laws of a clause make of the last step, as far as they apply."""
    run = Run(config, steps=steps)
    found = [pair for law in load_clauses()[clause].laws if law.scope != "pair" for pair in law.over(run)]
    return [holds for index, holds in found if index == len(steps) - 1]


W2, W9 = AppendKnown(length=2, window=2), AppendKnown(length=2, window=9)
ASKED = AppendKnown(length=2, array=True)
CASES: list[tuple[str, Config, Record, Record]] = [
    ("GROW-1", FULL, known(T4, T5), known(T4, (2, 3, 4, 5))),
    ("GROW-2", FULL, known(T4, T5, held=(*T5, 0)), known((1, 2, 3, 0), (*T3, 0, 5), held=(*T5, 0))),
    ("GROW-4", Config(kind="full", dtype="f32"), known(T4, T5), known(T4, (0, 0, 0, 4, 5))),
    ("RING-1", RING, known((2, 3, 4), (3, 4, 5)), known((3, 4), (3, 4, 5))),
    ("RING-4", RING, known((2, 3, 4), (3, 4, 5), held=(2, 3, 4, 5)), known((2, 3, 4), (3, 4, 5), held=(4, 5, 3))),
    ("RING-9", RING, known((2, 3, 4), (3, 4, 5), held=(2, 3, 4, 5)), known((2, 3, 4), (3, 4, 5), held=(3, 4, 5))),
    ("RING-10", Config(kind="ring", window=1), known((4,), (5,)), known((4,), (4, 5))),
    ("RING-12", PINNED, known((1, 3, 4), (1, 4, 5)), known((1, 3, 4), (3, 4, 5))),
    ("RING-13", PINNED, known((1, 3, 4), held=(1, 3, 4, 5)), known((1, 3, 4), held=(3, 1, 4, 5))),
    ("VIS-2", RING, known((2, 3, 4), (3, 4, 5)), known((1, 2, 3, 4), (3, 4, 5))),
    ("VIS-3", FULL, known(T4, T5), known((*T4, 4), T5)),
    ("VIS-4", FULL, known(T4, T5), known(T5, T5)),
    ("VIS-5", FULL, known(T4, T5), known(T3, T4)),
    ("VIS-6", FULL, known(T4, T5), known(T4, T5, torn=((0, 1, "value of t3"),))),
    ("VIS-7", FULL, known(T4, T5), known(T4, (4, 5, 1, 2, 3))),
    ("VIS-9", PINNED, known((1, 3, 4), (1, 4, 5)), known((2, 3, 4), (3, 4, 5))),
    ("VIS-10", Config(kind="full", batch=2), known(T4, T5), known(T4, (1, 2, 3, 5))),
    ("MASK-1", FULL, masked(2), masked(1)),
    ("MASK-3", FULL, known(T4, T5, mask="causal"), known(T4, T5, mask="none")),
    ("MASK-4", FULL, known((3, 4), (4, 5), call=W2), known(T4, T5, call=W2)),
    ("MASK-5", FULL, known((3, 4), (4, 5), call=W2, mask="array"), known((3, 4), (4, 5), call=W2, mask="causal")),
    ("MASK-7", RING, known((2, 3, 4), (3, 4, 5), mask="array"), known((2, 3, 4), (3, 4, 5), mask="causal")),
    ("MASK-8", RING, known((3, 4), (4, 5), call=W2), known((2, 3, 4), (3, 4, 5), call=W2)),
    ("MASK-9", RING, known((2, 3, 4), (3, 4, 5), call=W9), known((2, 3, 4), (2, 3, 4, 5), call=W9)),
    ("MASK-11", FULL, known(T4, T5, call=ASKED), known(T5, T5, call=ASKED)),
    ("READ-3", FULL, known(T4, T5), known(T4, T4)),
    ("READ-4", FULL, known(T4, T5), known(T4, T4)),
    ("TRIM-8", FULL, known(T4, T5), known(T4, (*T5, 9))),
    ("OWN-8", Config(kind="full", poison=True), known(T4, T5), known(T4, (1, 2, 3, 0, 5))),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "config", "right", "wrong"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_law_of_all_appends_judges_known_ones(clause: str, config: Config, right: Record, wrong: Record) -> None:
    assert set(verdicts(clause, config, right)) == {True}
    assert False in verdicts(clause, config, wrong)


def test_a_read_of_a_known_append_can_be_asked_again_and_later() -> None:
    first = known(T4, T5, call=AppendKnown(length=2, as_="r1"))
    same, other = (
        Record(Attend(on="r1"), "ok", read=ReadRecord(visible=(seen,), fetched=(T5,))) for seen in ((T4, T5), (T4, T4))
    )
    assert verdicts("READ-2", FULL, first, same) == [True]
    assert verdicts("READ-2", FULL, first, other) == [False]
    moved = Record(Reset(), "ok", live_before=T5)
    assert verdicts("OWN-1", FULL, first, moved, same) == [True]
    assert verdicts("OWN-1", FULL, first, moved, other) == [False]


def test_what_was_there_before_a_reset_is_not_seen_by_a_known_append() -> None:
    reset = Record(Reset(), "ok", after=CacheRecord(offset=0), live_before=(7, 8))
    assert verdicts("OWN-7", FULL, reset, known(T4, T5)) == [True]
    assert verdicts("OWN-7", FULL, reset, known(T4, (*T5, 7))) == [False]


def test_what_a_law_says_of_window_appends_it_says_of_known_ones() -> None:
    for clause in load_clauses().values():
        for law in clause.laws:
            text = f"{law.when} {law.then}"
            assert "is_window" not in text or "is_known" in text, f"{clause.id}: {text}"
