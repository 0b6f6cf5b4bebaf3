"""The laws of chapter 11 and of codes in chapters 3 and 7: a record that keeps each, and one that breaks it.

Every pair is worked out by hand from the prose of its clause.
"""

from typing import Any

import pytest

from kvlaw.spec.calls import AppendDecode, AppendKnown, AppendWindow, Attend, Clone, FetchDense, LookAt, Reset, Trim
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Config
from kvlaw.spec.records import CacheRecord, ReadRecord, Record, Run

FIRST = Config(kind="full", bits=4, start=5)  # 512 bytes of a dense position, 144 of codes
ZERO = Config(kind="full", bits=4, start=0)
NEVER = Config(kind="full", bits=4, start="never")
AFFINE = Config(kind="full", bits=4)
RING = Config(kind="ring", window=4, bits=4, start=2)
WIDE = Config(kind="full", bits=4, group=128)  # a head dim of 64 is no multiple of it


def state(storage: str, offset: int, **more: Any) -> CacheRecord:
    """Write the state of a cache; the numbers that no test is about are left out."""
    return CacheRecord(offset=offset, storage=storage, **more)


def sees(live: tuple[int, ...], offset: int, form: str, **more: Any) -> ReadRecord:
    """Write a read whose queries, from ``offset`` on, see everything up to themselves."""
    visible = tuple(live[: q + 1] for q in range(offset, len(live)))
    return ReadRecord(visible=(visible,), fetched=(live,), width=len(live), form=form, **more)  # pyright: ignore[reportArgumentType]  # a form is a word here


def step(call: Any, before: CacheRecord, after: CacheRecord, read: ReadRecord | None = None, **more: Any) -> Record:
    """Write a step whose tokens are t1, t2, ... at positions 0, 1, ..."""
    live_before = tuple(range(1, (before.offset or 0) + 1))
    live = tuple(range(1, (after.offset or 0) + 1))
    return Record(
        call,
        more.pop("outcome", "ok"),
        read=read,
        before=before,
        after=after,
        live_before=live_before,
        live=live,
        **more,
    )


def verdicts(clause: str, law: int, config: Config, *steps: Record) -> list[bool]:
    """Say what a law of a clause makes of the last step, if it applies there."""
    run = Run(config, steps=steps)
    last = len(steps) - 1
    return [holds for index, holds in load_clauses()[clause].laws[law - 1].over(run) if index == last]


W2, D, K2 = AppendWindow(length=2), AppendDecode(), AppendKnown(length=2)
DENSE3, DENSE4, AFFINE5 = state("dense", 3, floor=0), state("dense", 4), state("affine", 5)
T5 = (1, 2, 3, 4, 5)

CASES: list[tuple[str, int, Config, Record, Record]] = [
    ("PREC-1", 1, FIRST, step(W2, DENSE3, AFFINE5), step(W2, DENSE3, state("dense", 5))),
    ("PREC-1", 1, FIRST, step(D, DENSE3, DENSE4), step(D, DENSE3, state("affine", 4))),
    (
        "PREC-2",
        1,
        ZERO,
        step(LookAt(), state("dense", 0), state("dense", 0)),
        step(LookAt(), state("dense", 0), state("affine", 0)),
    ),
    (
        *("PREC-2", 2, ZERO),
        step(W2, state("dense", 0), state("affine", 2), sees((1, 2), 0, "dense")),
        step(W2, state("dense", 0), state("affine", 2), sees((1, 2), 0, "affine")),
    ),
    ("PREC-3", 1, NEVER, step(D, DENSE4, state("dense", 5)), step(D, DENSE4, AFFINE5)),
    (
        *("PREC-4", 1, FIRST),
        step(W2, DENSE3, AFFINE5, sees(T5, 3, "dense")),
        step(W2, DENSE3, AFFINE5, sees(T5, 3, "affine")),
    ),
    (
        *("PREC-5", 1, FIRST),
        step(AppendWindow(length=4), DENSE3, state("affine", 7, floor=7)),
        step(AppendWindow(length=4), DENSE3, state("affine", 7, floor=5)),
    ),
    (
        *("PREC-5", 1, ZERO),
        step(W2, state("dense", 0), state("affine", 2, floor=0)),
        step(W2, state("dense", 0), state("affine", 2, floor=2)),
    ),
    ("PREC-5", 2, AFFINE, step(D, AFFINE5, state("affine", 6, floor=0)), step(D, AFFINE5, state("affine", 6, floor=6))),
    (
        *("PREC-6", 1, FIRST),
        step(Trim(n=3), state("affine", 5, floor=5), state("affine", 2, floor=5)),
        step(Trim(n=3), state("affine", 5, floor=5), state("dense", 2, floor=5)),
    ),
    (
        *("PREC-6", 1, FIRST),
        step(D, state("affine", 5, floor=5), state("affine", 6, floor=5)),
        step(D, state("affine", 5, floor=5), state("affine", 6, floor=6)),
    ),
    (
        *("PREC-6", 2, FIRST),
        step(Reset(), state("affine", 5, floor=5), state("dense", 0, floor=0)),
        step(Reset(), state("affine", 5, floor=5), state("dense", 0, floor=5)),
    ),
    (
        *("PREC-7", 1, FIRST),
        step(D, AFFINE5, state("affine", 6, form="affine", held=(1, 2, 3, 4, 5, 6, 0))),
        step(D, AFFINE5, state("affine", 6, form="affine", held=(1, 2, 0, 4, 5, 6, 0))),  # t3 was quantized again
    ),
    (
        *("PREC-9", 1, FIRST),
        step(W2, state("dense", 3, columns=6, held=(1, 2, 3, 0, 0, 0)), state("affine", 5, columns=6, held=(*T5, 0))),
        step(W2, state("dense", 3, columns=6, held=(1, 2, 3, 0, 0, 0)), state("affine", 5, columns=5, held=T5)),
    ),
    (
        *("PREC-9", 2, RING),
        step(
            D,
            state("dense", 1, columns=4, write_index=1, held=(1, 0, 0, 0)),
            state("affine", 2, columns=4, write_index=2, held=(1, 2, 0, 0)),
        ),
        step(
            D,
            state("dense", 1, columns=4, write_index=1, held=(1, 0, 0, 0)),
            state("affine", 2, columns=2, write_index=2, held=(1, 2)),
        ),
    ),
    (
        *("PREC-10", 1, FIRST),
        step(D, DENSE3, state("dense", 4, max_append=1)),
        step(D, DENSE3, state("dense", 4, max_append=2)),
    ),
    (
        *("PREC-10", 1, FIRST),
        step(Trim(n=3), AFFINE5, state("affine", 2, max_append="unbounded")),
        step(Trim(n=3), AFFINE5, state("affine", 2, max_append=3)),
    ),
    (
        *("PREC-10", 2, FIRST),
        step(W2, state("dense", 3, max_append=2), AFFINE5),
        step(W2, state("dense", 3, max_append=2), state("dense", 5)),
    ),
    (
        *("PREC-10", 2, FIRST),
        step(D, state("dense", 3, max_append=2), DENSE4),
        step(D, state("dense", 3, max_append=2), state("affine", 4)),
    ),
    (
        "PREC-11",
        1,
        AFFINE,
        step(D, state("affine", 0), state("affine", 1)),
        step(D, state("dense", 0), state("dense", 1)),
    ),
    (
        *("PREC-11", 2, AFFINE),
        step(W2, state("affine", 0), state("affine", 2), sees((1, 2), 0, "affine")),
        step(W2, state("affine", 0), state("affine", 2), sees((1, 2), 0, "dense")),
    ),
    (
        *("PREC-12", 1, FIRST),
        step(W2, DENSE3, state("affine", 5, identity="full(bits=4,group=64,start=5)")),
        step(W2, DENSE3, state("affine", 5, identity="full(bits=4,group=64)")),
    ),
    (
        *("PREC-13", 2, WIDE),
        step(W2, state("affine", 0), state("affine", 0), outcome="refused"),
        step(W2, state("affine", 0), state("affine", 2), outcome="refused"),
    ),
    (
        *("PREC-15", 1, FIRST),
        step(
            D,
            DENSE3,
            state("dense", 4, max_append=1),
            layers=(
                step(D, DENSE3, state("dense", 4, max_append=1)),
                step(D, DENSE3, state("dense", 4, max_append="unbounded")),
            ),
        ),
        step(
            D,
            DENSE3,
            state("dense", 4, max_append="unbounded"),
            layers=(
                step(D, DENSE3, state("dense", 4, max_append="unbounded")),
                step(D, DENSE3, state("dense", 4, max_append=1)),
            ),
        ),
    ),
    (
        *("GROW-9", 1, FIRST),
        step(W2, DENSE3, state("affine", 5, bytes_per_token=144)),
        step(W2, DENSE3, state("affine", 5, bytes_per_token=512)),
    ),
    (
        *("READ-10", 1, AFFINE),
        step(W2, state("affine", 3), AFFINE5, sees(T5, 3, "affine")),
        step(W2, state("affine", 3), AFFINE5, sees(T5, 3, "affine", torn=((0, 2, "value of t4"),))),
    ),
    (
        *("READ-11", 1, AFFINE),
        step(W2, state("affine", 3), AFFINE5, sees(T5, 3, "affine", output="x")),
        step(W2, state("affine", 3), AFFINE5, sees(T5, 2, "affine", output="x")),
    ),
    (
        *("READ-12", 1, AFFINE),
        step(K2, state("affine", 3), AFFINE5, sees(T5, 3, "affine")),
        step(
            K2, state("affine", 3), AFFINE5, ReadRecord(visible=((T5, T5),))
        ),  # the first query sees the second's token
    ),
    (
        *("READ-13", 1, AFFINE),
        step(K2, state("affine", 3), AFFINE5, sees(T5, 3, "affine", apart=())),
        step(K2, state("affine", 3), AFFINE5, sees(T5, 3, "affine", apart=(1,))),  # the second query has other bits
    ),
    (
        *("READ-13", 2, AFFINE),
        step(K2, state("affine", 3), AFFINE5, sees(T5, 3, "affine", output="x")),
        step(K2, state("affine", 3), AFFINE5, ReadRecord(visible=((T5, T5),), output="x")),  # both in the last row
    ),
    (
        *("READ-14", 1, AFFINE),
        step(FetchDense(length=2), state("affine", 3), AFFINE5, ReadRecord(fetched=(T5,), form="restored")),
        step(
            FetchDense(length=2), state("affine", 3), AFFINE5, ReadRecord(fetched=((1, 2, 3, 0, 0),), form="restored")
        ),
    ),
]


@pytest.mark.parametrize(
    ("clause", "law", "config", "right", "wrong"), CASES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_law_tells_right_from_wrong(clause: str, law: int, config: Config, right: Record, wrong: Record) -> None:
    assert verdicts(clause, law, config, right) == [True]
    assert verdicts(clause, law, config, wrong) == [False]


def test_a_policy_that_cannot_be_built_is_refused() -> None:
    law = load_clauses()["PREC-13"].laws[0]
    bad = Config(kind="full", bits=7)
    assert list(law.over(Run(bad, opened="refused"))) == [(-1, True)]
    assert list(law.over(Run(bad, opened="ok"))) == [(-1, False)]
    assert list(law.over(Run(AFFINE, opened="ok"))) == []


def test_a_read_keeps_its_form_when_it_is_asked_again() -> None:
    first = step(AppendWindow(length=2, as_="r1"), DENSE3, AFFINE5, sees(T5, 3, "dense"))
    again = [Record(Attend(on="r1"), "ok", read=sees(T5, 3, form)) for form in ("dense", "affine")]
    assert verdicts("PREC-4", 2, FIRST, first, again[0]) == [True]
    assert verdicts("PREC-4", 2, FIRST, first, again[1]) == [False]


def test_the_query_after_a_conversion_misses_nothing() -> None:
    first = step(W2, DENSE3, AFFINE5)
    whole = (*T5, 6)
    assert verdicts("PREC-8", 1, FIRST, first, step(D, AFFINE5, state("affine", 6), sees(whole, 5, "affine"))) == [True]
    holed = ReadRecord(visible=(((1, 2, 4, 5, 6),),), form="affine")
    assert verdicts("PREC-8", 1, FIRST, first, step(D, AFFINE5, state("affine", 6), holed)) == [False]


def test_converting_a_source_does_not_convert_its_clone() -> None:
    clone = step(Clone(as_="c1"), DENSE4, DENSE4)
    source = step(D, DENSE4, AFFINE5)
    kept, moved = (step(LookAt(on="c1"), state(s, 4), state(s, 4)) for s in ("dense", "affine"))
    assert verdicts("PREC-14", 1, FIRST, clone, source, kept) == [True]
    assert verdicts("PREC-14", 1, FIRST, clone, source, moved) == [False]
