"""Groups of mlx-lm's duck type as ``py:`` targets: our drop-ins keep the law where mlx-lm's own groups break it."""

from typing import Any

import pytest

from kvlaw.conformance.check import applicable
from kvlaw.conformance.corpus import entries_for, needed
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.subjects.errors import TargetError
from kvlaw.conformance.subjects.targets import open_object, open_target
from kvlaw.mlx_impl import FullCache, RingCache
from kvlaw.mlx_impl.mlx_lm import DropIn, QuantizedDropIn
from kvlaw.mlx_impl.mlx_lm_rows import RowsDropIn
from kvlaw.mlx_impl.precision import make_precision
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Kind
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse


def growing() -> DropIn:
    """Make a serial drop-in."""
    return DropIn(FullCache())


def ring(window: int) -> DropIn:
    """Make a serial drop-in of a window."""
    return DropIn(RingCache(window))


def coded(bits: int, start: int | None = None, group: int = 64) -> DropIn:
    """Make a serial drop-in of codes."""
    return QuantizedDropIn(FullCache(policy=make_precision(bits, None, group, start)))


def rows_of(make: Any, kind: Kind) -> Subject:
    return open_object(make, "py:mine", {"kind": kind, "clone": "deepcopy"})


def walk(subject: Subject, text: str) -> tuple[Step, ...]:
    trace = parse(text).trace
    able, known = subject.capabilities, load_clauses().of_profile("core").by_id
    asked = frozenset(n for n, clause in known.items() if not applicable(clause, trace.config.kind, able))
    return Lockstep(subject, "core", asked).run(trace)


FLOWS = """
    prepare left=2,0 ; window 2 ; decode ; window 2 ; decode x5
    prepare lengths=1,0 right=0,1 ; window 1 ; finalize ; decode x2
    prepare left=1,0 ; window 2 ; look c0 ; decode x4 ; trim 0
    prepare left=2,1 ; filter 0 ; window 3 ; decode
    extract 0 as e1 ; window 3 on e1 ; decode on e1 ; window 2 ; extract 1 as e2 ; decode on e2 ; look c0
    state as s1 ; prepare left=1,0 ; window 2 ; look s1 ; state as s2 ; decode x5 ; look s2
    prepare lengths=1,2 right=1,0 ; filter 0 ; window 2 ; finalize ; decode
    prepare lengths=3,1 right=0,2 ; window 1 ; finalize ; window 2 ; decode
    window 2 ; decode malformed=heads ; window 2 malformed=dtype ; decode
    window 4 w=3 ; mask 2 as m1 ; decode w=2 ; look m1 ; dense 1 as d1 ; dense 2 ; look d1
    window 3 ; cache as s1 ; window 9 on s1 ; merge c0 s1 as g ; filter 2,0 on g ; decode on g x3 ; extract 1 on g as e1
    window 2 ; clone as c1 ; decode on c1 ; look c0 ; decode x4 ; look c1 ; merge c0 c1 c0 as g ; window 3 on g
    window 5 ; begin_round ; window 3 ; roll_back 2,0 ; decode x5 ; begin_round ; decode ; filter 1,0 ; commit_round
""".strip().splitlines()


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(
    "opening", ["full_rows", "full_rows poison", "ring_rows window=4", "ring_rows window=2 poison"]
)
def test_our_drop_ins_keep_the_law(opening: str, flow: str) -> None:
    make, kind = (growing, "full_rows") if opening.startswith("full") else (ring, "ring_rows")
    steps = walk(rows_of(make, kind), f"{opening} ; {flow}")
    assert not steps[-1].divergences, steps[-1].divergences
    assert len(steps) == len(parse(f"{opening} ; {flow}").trace.calls) + 1


@pytest.mark.parametrize(
    "opening", ["full_rows bits=8", "full_rows bits=4 start=3", "full_rows bits=4 start=0 group=32"]
)
def test_groups_of_codes_are_read_as_they_are_handed_out(opening: str) -> None:
    """Codes where every row has them, else half precision."""
    text = f"{opening} ; prepare lengths=4,2 right=0,2 ; window 4 ; finalize ; decode x3 ; window 2"
    steps = walk(rows_of(coded, "full_rows"), text)
    assert not steps[-1].divergences, steps[-1].divergences
    forms = [row.read.form for step in steps for row in step.record.rows if row.read]
    assert forms[-2:] == ["affine", "affine"]


def test_a_serial_target_stays_serial() -> None:
    """Groups are checked where they are asked for."""
    assert terms_of(open_object(growing, "py:mine", {"clone": "deepcopy"})).kinds == ("full",)
    assert terms_of(rows_of(growing, "full_rows")).kinds == ("full_rows",)


def test_a_cache_without_merge_has_no_groups() -> None:
    with pytest.raises(TargetError, match="merge"):
        open_target("py:mlx_lm.models.cache:ConcatenateKVCache", {"kind": "full_rows"})


def test_a_group_that_is_let_go_of_when_it_has_no_rows_is_not_asked_to_have_none() -> None:
    """Clauses of groups without rows do not apply; all else that binds groups of mlx-lm's kind does."""
    able, known = rows_of(ring, "ring_rows").capabilities, load_clauses().of_profile("core").by_id
    assert "empty_group" not in able
    lacking = [name for name in ("ROWS-10", "ROWS-16", "ROWS-17") if applicable(known[name], "ring_rows", able)]
    assert lacking == ["ROWS-10", "ROWS-17"]
    assert not any(needed(entry.trace) & {"empty_group"} for entry in entries_for("ring_rows", able))
    for text in ("ring_rows window=4 ; filter none", "ring_rows window=4 rows=0"):
        assert needed(parse(text).trace) >= {"rows", "empty_group"}
        assert walk(rows_of(ring, "ring_rows"), text)[-1].record.outcome == "unsupported"


class FirstRows(RowsDropIn):
    """A group that keeps its first rows, whichever it is asked to keep."""

    def filter(self, batch_indices: Any) -> None:
        super().filter(range(len(batch_indices)))


class MergesIntoFirstRows(DropIn):
    """A cache that is merged into such groups."""

    @classmethod
    def merge(cls, caches: Any) -> RowsDropIn:
        return FirstRows(super().merge(caches).cache)


def test_a_group_that_keeps_another_row_is_found() -> None:
    """The comparison is not blind."""
    subject = rows_of(lambda: MergesIntoFirstRows(FullCache()), "full_rows")
    assert not walk(subject, "full_rows ; window 2 ; filter 0 ; decode")[-1].divergences
    wrong = walk(subject, "full_rows ; window 2 ; filter 1 ; decode")[-1].divergences
    assert wrong[0].clause == "ROWS-16"
