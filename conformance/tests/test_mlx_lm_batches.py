"""mlx-lm's groups of rows as subjects: that they keep the law as its generator drives them, and what they break.

Each fault is replayed on its shortest trace, and was read off mlx-lm 0.32.2's ``models/cache.py``; a release that mends
one turns its line red. The report (B22, ...) is that of ``shared/reports.md``.
"""

from functools import cache

import pytest

from kvlaw.conformance.check import Plan, applicable, check
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.subjects.targets import open_target, target_kinds
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse

GROWING, RING = "builtin:mlx_lm.BatchKVCache", "builtin:mlx_lm.BatchRotatingKVCache"
LIST = "builtin:mlx_lm.CacheList"
SHOWN = frozenset(
    "attend mask as_array window_argument dense planes columns nbytes trim can_trim clone state "  # noqa: SIM905
    "rows merge extract filter padding left_padding rounds".split()
)


@cache
def subject(target: str) -> Subject:
    return open_target(target)


@cache
def clauses(kind: str, target: str) -> frozenset[str]:
    able = subject(target).capabilities
    known = load_clauses().of_profile("core").by_id
    return frozenset(name for name, clause in known.items() if not applicable(clause, kind, able))


def walk(target: str, text: str) -> tuple[Step, ...]:
    """Replay a trace at the core profile, asking what ``kvlaw check`` asks of this kind."""
    trace = parse(text).trace
    return Lockstep(subject(target), "core", clauses(trace.config.kind, target)).run(trace)


def charged(steps: tuple[Step, ...], text: str) -> tuple[str, str, str]:
    """The clause that the last step is charged to, and both sides in words; all steps before kept the law."""
    assert len(steps) == len(parse(text).trace.calls) + 1, "the trace ended early"
    divergence = steps[-1].divergences[0]
    return divergence.clause, divergence.expected, divergence.observed


@pytest.mark.parametrize(("target", "more"), [(GROWING, set[str]()), (RING, {"sinks"}), (LIST, {"sinks", "files"})])
def test_what_groups_of_mlx_lm_show(target: str, more: set[str]) -> None:
    assert subject(target).capabilities == SHOWN | more


def test_kinds() -> None:
    assert target_kinds(GROWING) == ("full_rows",)
    assert target_kinds(RING) == ("ring_rows",)
    assert set(target_kinds(LIST)) == {"full", "ring", "full_rows", "ring_rows"}


KEPT = """
    window 5 ; decode x3 ; window 2 ; decode
    prepare lengths=5,2 right=0,3 ; window 5 ; finalize ; decode x6
    prepare lengths=7,3 right=0,4 ; window 3 ; window 2 ; window 2 ; finalize ; decode x2
    prepare left=3,0 ; window 5 ; decode x5 ; extract 0 as e1 ; window 3 on e1 ; decode on e1
    window 6 ; cache as s1 ; window 2 on s1 ; merge s1 as g1 ; decode on g1 ; merge c0 g1 s1 as g2 ; decode on g2 x5
    window 3 ; cache as s1 ; window 9 on s1 ; merge c0 s1 as g ; filter 2,0 on g ; decode on g x3 ; extract 1 on g as e1
    window 2 ; clone as c1 ; decode on c1 ; look c0 ; decode x4 ; look c1
    window 3 ; trim 1 ; decode x2
    dense 4 ; dense 1 ; dense 1 as d1
    window 3 ; mask 2 as m1 ; window 2 ; look m1
""".strip().splitlines()
"""Prompts padded on the right in chunks of more than one, left padding, joins, filters: as ``BatchGenerator`` does."""


@pytest.mark.parametrize("flow", KEPT)
@pytest.mark.parametrize(
    ("target", "opening"),
    [(GROWING, "full_rows"), (RING, "ring_rows window=4"), (LIST, "full_rows"), (LIST, "ring_rows window=4")],
)
def test_groups_of_mlx_lm_keep_the_law_as_its_generator_drives_them(target: str, opening: str, flow: str) -> None:
    text = f"{opening} ; {flow}"
    steps = walk(target, text)
    assert not steps[-1].divergences, steps[-1].divergences
    assert len(steps) == len(parse(text).trace.calls) + 1


@pytest.mark.parametrize(
    "text",
    ["full ; window 300 ; decode x3 ; trim 2 ; window 2", "ring window=4 ; window 6 ; decode x5 ; window 2 ; decode"],
)
def test_a_list_of_one_cache_is_that_cache(text: str) -> None:
    steps = walk(LIST, text)
    assert not steps[-1].divergences
    assert len(steps) == len(parse(text).trace.calls) + 1


FAULTS = {
    # make_mask: ``trim_size`` comes of ``_idx``, which is small once the ring has turned, so that ``left_padding`` is
    # not lowered by the column that the append evicts
    "B108": (RING, "ring_rows window=2 rows=1 ; prepare left=2 ; window 2 ; decode ; window 2", "MASK-16"),
    "B108 by a merge": (
        RING,
        "ring_rows window=2 rows=1 ; cache as s1 ; window 2 on s1 ; merge c0 s1 as g1 ; decode on g1 ; window 2 on g1",
        "MASK-16",
    ),
    # update_and_fetch: one column is always _update_in_place, which raises while ``_lengths`` are set
    "B39": (RING, "ring_rows window=1 rows=1 ; prepare lengths=1 right=1 ; window 1", "PAD-5"),
    # merge: ``keep`` of the RotatingKVCaches is not looked at, and BatchRotatingKVCache has none
    "B22": (RING, "ring_rows window=2 rows=1 sinks=1 ; window 2 ; decode", "ROWS-7"),
    "B22 by a merge": (
        RING,
        "ring_rows window=2 ; cache ring window=2 sinks=1 as s1 ; window 2 on s1 ; merge s1 s1 as g1 ; decode on g1",
        "ROWS-7",
    ),
    # trim: ``n = min(self._idx, n)`` bounds it by the columns, not by the shortest row
    "B43": (GROWING, "full_rows ; prepare left=1,0 ; window 2 ; trim 2", "ROWS-19"),
    "B43 of a ring": (RING, "ring_rows window=4 ; prepare left=1,0 ; window 2 ; trim 2", "ROWS-19"),
    # ... nor from below: a negative count moves the offsets forward
    "B79": (GROWING, "full_rows ; trim -1", "TRIM-9"),
    "B79 of a ring": (RING, "ring_rows window=2 ; trim -1", "TRIM-9"),
    # trim: a turned ring lowers its counters and keeps what it dropped (is_trimmable is not asked)
    "B09": (RING, "ring_rows window=2 rows=1 ; window 2 ; decode ; trim 2 ; window 2", "TRIM-8"),
    # extract: ``self.keys[...]`` of keys that are None
    "B42": (GROWING, "full_rows rows=1 ; extract 0 as e1", "ROWS-14"),
    "B42 of a ring": (RING, "ring_rows window=2 rows=1 ; extract 0 as e1", "ROWS-14"),
    "B42 of a list": (LIST, "full_rows rows=1 ; extract 0 as e1", "ROWS-14"),
    # filter: ``self._idx -= min_left_pad`` even where there are no columns yet, so that it is below 0
    "B37": (GROWING, "full_rows rows=1 ; prepare left=1 ; filter 0 ; window 2", "PAD-5"),
    # prepare: ``self.left_padding += left_padding`` in place, on the array that ``state`` handed out
    "B40 in prepare": (GROWING, "full_rows rows=1 ; state as s1 ; prepare left=1 ; look s1", "OWN-4"),
    # _update_in_place: ``self.left_padding -= S`` likewise, as the ring turns
    "B40 in decodes": (RING, "ring_rows window=1 rows=1 ; state as s1 ; window 2 ; decode ; look s1", "OWN-4"),
    # filter: neither ``_right_padding`` nor ``_lengths`` go with the rows; finalize brings the dropped one back
    "ends stay": (GROWING, "full_rows ; prepare lengths=1,2 right=1,0 ; filter 0 ; window 2 ; finalize", "ROWS-25"),
    "ends stay in a ring": (
        RING,
        "ring_rows window=2 ; prepare lengths=1,2 right=1,0 ; filter 0 ; window 2 ; finalize",
        "ROWS-25",
    ),
    # finalize: rolls by all announced padding, processed or not
    "early finalize": (GROWING, "full_rows rows=1 ; prepare lengths=1 right=1 ; window 1 ; finalize", "PAD-7"),
    # finalize: dynamic_roll of keys that are None
    "finalize of nothing": (GROWING, "full_rows rows=1 ; prepare lengths=1 right=1 ; finalize", "PAD-7"),
    # update_and_fetch: the offset is raised before the write can fail
    "offset first": (GROWING, "full_rows ; window 2 ; decode malformed=heads", "ERR-1"),
    # make_mask: ``window_size or self.max_size``, so that a wider argument widens
    "wider argument": (RING, "ring_rows window=2 ; window 4 w=3", "MASK-9"),
    # as in the serial caches: state and dense fetches hand out live arrays, a first window is kept as the caller's own
    "live state": (GROWING, "full_rows ; window 2 ; state as s1 ; decode ; look s1", "OWN-4"),
    "live fetch": (RING, "ring_rows window=1 ; dense 1 as d1 ; dense 1 ; look d1", "OWN-5"),
    "kept arrays": (RING, "ring_rows window=4 poison ; window 2", "OWN-8"),
}
"""By report, or in words where there is none: target, trace, and the clause that its last step is charged to."""


@pytest.mark.parametrize("fault", FAULTS)
def test_what_groups_of_mlx_lm_are_known_to_break(fault: str) -> None:
    target, text, clause = FAULTS[fault]
    steps = walk(target, text)
    assert steps[-1].divergences, steps[-1]
    assert charged(steps, text)[0] == clause


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "found"),
    [
        (RING, {"MASK-16": "B108", "PAD-5": "B39", "ROWS-7": "B22", "ROWS-14": "B42", "OWN-4": "B40"}),
        (GROWING, {"ROWS-19": "B43", "PAD-5": "B37", "ROWS-14": "B42", "OWN-4": "B40"}),
    ],
)
def test_a_check_finds_these_by_itself(target: str, found: dict[str, str]) -> None:
    result = check(Plan(target, target_kinds(target), "core", "ci"), subject(target))
    assert found.keys() <= {failed.clause.id for failed in result.failed}


def test_the_hidden_token_is_named() -> None:
    """Two columns of padding, then t3: the window t4,t5 of a ring of 2 fetches t3..t5, and t4 must see t3."""
    _, text, _ = FAULTS["B108"]
    steps = walk(RING, text)
    assert charged(steps, text) == ("MASK-16", "sees t3..t4", "sees t4")
    assert (steps[-1].divergences[0].row, steps[-1].divergences[0].query) == (0, 0)


def test_the_same_without_the_decode_is_right() -> None:
    """The fault of B108 needs the turn: the same tokens as one more window keep the law."""
    text = "ring_rows window=2 rows=1 ; prepare left=2 ; window 3 ; window 2"
    assert not walk(RING, text)[-1].divergences


def test_a_group_that_grows_has_no_such_mask() -> None:
    text = "full_rows rows=1 ; prepare left=2 ; window 2 ; decode ; window 2"
    assert not walk(GROWING, text)[-1].divergences


def test_one_column_does_not_matter_to_a_group_that_grows() -> None:
    """B39 is the ring's: there a padded prompt may end with a chunk of one column."""
    text = "full_rows ; prepare lengths=3,1 right=0,2 ; window 2 ; window 1 ; finalize ; decode"
    assert not walk(GROWING, text)[-1].divergences


@pytest.mark.parametrize("rows", ["rows=0", "rows=1 ; filter none", "rows=1 ; window 2 ; filter 1"])
def test_what_the_generator_never_asks_is_not_asked(rows: str) -> None:
    steps = walk(GROWING, f"full_rows {rows}")
    assert steps[-1].record.outcome == "unsupported"
    assert not steps[-1].divergences


def test_lists_are_saved_and_loaded() -> None:
    """Report B94: a list of a ring and what comes of it; mlx-lm 0.30.7 lost the caches of the list."""
    steps = walk(LIST, "ring window=8 ; decode x12 ; save as f1 ; load f1 as c1 ; decode on c1 ; look c0")
    assert not steps[-1].divergences
    last = steps[-2].record
    assert last.read is not None
    assert last.read.visible is not None
    assert sorted(last.read.visible[0][0]) == list(range(6, 14))
