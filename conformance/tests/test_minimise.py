"""Shortening: known minima are reached, a passing trace is never returned, unsound traces are never asked."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.minimise import is_sound, minimise
from kvlaw.conformance.minimise_rows import fewer_rows
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.reference.oracle import UnknownObjectError
from kvlaw.spec.calls import AppendDecode, Clone, Filter, Merge, OpenList, Prepare, RollBack, Trim
from kvlaw.spec.text_form import parse, write
from kvlaw.spec.trace import Trace


def trace(text: str) -> Trace:
    return parse(text).trace


LONG = (
    "ring window=8 sinks=2 dtype=f16 batch=2 heads=4 groups=4 D=128 Dv=96 stamp=random look=last poison seed=7 ; "
    "window 17 w=9 array as r1 ; decode x3 ; clone as c1 ; window 5 on c1 unread ; attend r1 ; state as s1 ; "
    "decode on c1 ; trim 3 bypass ; mask 4 window as m1 ; dense 6 as d1 ; look m1 ; drop s1 ; look d1 ; reset ; decode"
)


def positions(candidate: Trace) -> int:
    return sum(call.appends for call in candidate.calls if call.on == "c0")


CASES: dict[str, tuple[Callable[[Trace], bool], str]] = {
    "anything": (lambda t: True, "ring window=1"),
    "four positions in c0": (lambda t: positions(t) >= 4, "ring window=1 ; window 4"),
    "a clone": (lambda t: any(c.verb == "clone" for c in t.calls), "ring window=1 ; clone as c1"),
    "a call on a clone": (
        lambda t: any(c.on == "c1" and isinstance(c, AppendDecode) for c in t.calls),
        "ring window=1 ; clone as c1 ; decode on c1",
    ),
    "a bypass": (
        lambda t: any(isinstance(c, Trim) and c.bypass for c in t.calls),
        "ring window=1 ; trim 1 bypass",
    ),
    "a window of five and its length again": (
        lambda t: (t.config.window or 0) >= 5 and positions(t) >= 10,
        "ring window=5 ; window 10",
    ),
    "a sink and a wrap": (
        lambda t: t.config.sinks >= 1 and t.config.problem is None and positions(t) > (t.config.window or 0),
        "ring window=2 sinks=1 ; window 3",
    ),
    "half precision": (lambda t: t.config.dtype == "f16", "ring window=1 dtype=f16"),
    "two rows and a decode": (
        lambda t: t.config.batch == 2 and any(isinstance(c, AppendDecode) for c in t.calls),
        "ring window=1 batch=2 ; decode",
    ),
    "looking at the end": (lambda t: t.config.look == "last", "ring window=1 look=last"),
}


def test_the_convolution_of_a_recurrent_layer_is_as_wide_as_usual():
    start = trace("recurrent_rows conv=5 ; advance 2 ; extract 0 as e1 ; advance 1 on e1")
    shortest = minimise(start, lambda t: any(call.verb == "extract" for call in t.calls)).trace
    assert write(shortest) == "recurrent_rows rows=1 ; extract 0 as e1"


def lengths(candidate: Trace) -> list[int]:
    return [call.appends for call in candidate.calls if call.appends]


def drops_all(candidate: Trace) -> bool:
    """A trim of all that was appended below the window, and an append behind it."""
    appended, emptied = 0, False
    for call in candidate.calls:
        emptied |= isinstance(call, Trim) and call.n == appended > 0 and appended < (candidate.config.window or 0)
        if emptied and call.appends:
            return True
        appended += call.appends
    return False


TOGETHER: list[tuple[str, Callable[[Trace], bool], str]] = [
    # What fails unless a length is a multiple of the window: halves and neighbours of 257 do not lead to 9.
    ("window 257 ; decode", lambda t: lengths(t)[0] > 8 and lengths(t)[0] % 8 > 0, "window 9"),
    ("window 17 ; window 9", lambda t: len(lengths(t)) == 2 and min(lengths(t)) > 8, "window 9 x2"),
    ("window 21", lambda t: lengths(t)[0] % 8 == 5, "window 5"),
    ("window 21", lambda t: lengths(t)[0] > 8 and lengths(t)[0] % 8 == 5, "window 13"),
    ("window 16 ; decode", lambda t: lengths(t)[0] >= 8 and lengths(t)[0] % 8 == 0, "window 8"),
    ("window 6 ; trim 6 ; window 4", drops_all, "decode ; trim 1 ; decode"),
    ("window 2 ; decode x3 ; trim 5 ; dense 2", drops_all, "decode ; trim 1 ; decode"),
]


@pytest.mark.parametrize(("text", "fails", "shortest"), TOGETHER)
def test_lengths_that_hang_together_are_lowered_together(text: str, fails: Callable[[Trace], bool], shortest: str):
    found = minimise(
        trace(f"ring window=8 ; {text}"), lambda t: bool(lengths(t)) and fails(t), fixed=frozenset({"window"})
    )
    assert found.complete
    assert write(found.trace) == f"ring window=8 ; {shortest}"


@pytest.mark.parametrize("what", CASES)
def test_known_minima_are_reached(what: str):
    fails, shortest = CASES[what]
    found = minimise(trace(LONG), fails)
    assert fails(found.trace)
    assert write(found.trace) == write(trace(shortest))
    assert found.complete


@pytest.mark.parametrize("most", [0, 1, 5, 20])
def test_the_limit_is_kept_and_told(most: int):
    asked: list[Trace] = []

    def fails(candidate: Trace) -> bool:
        asked.append(candidate)
        return positions(candidate) >= 4

    found = minimise(trace(LONG), fails, most)
    assert len(asked) == found.tried == most
    assert not found.complete
    assert positions(found.trace) >= 4


def test_a_passing_trace_is_never_returned_and_no_candidate_is_asked_twice():
    asked: list[Trace] = []

    def fails(candidate: Trace) -> bool:
        asked.append(candidate)
        return len(candidate.calls) % 2 == 0 and positions(candidate) >= 7  # a ragged predicate

    start = trace("full ; window 9 ; decode x4 ; trim 2")
    assert len(start.calls) % 2 == 0
    found = minimise(start, fails)
    assert len(found.trace.calls) % 2 == 0
    assert positions(found.trace) >= 7
    assert len(asked) == len(set(asked))
    assert start not in asked


def test_a_trace_that_cannot_be_shortened_stays():
    start = trace("full ; decode")
    found = minimise(start, lambda t: bool(t.calls))
    assert (found.trace, found.complete) == (start, True)


def test_every_candidate_is_sound():
    def fails(candidate: Trace) -> bool:
        assert is_sound(candidate)
        return len(candidate.calls) > 3

    assert is_sound(trace(LONG))
    minimise(trace(LONG), fails)


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("full ; decode on c1", False),
        ("full ; clone as c1 ; decode on c1", True),
        ("full ; decode as r ; attend r ; look r ; drop r", True),
        ("full ; decode as r ; drop r ; attend r", False),
        ("full ; decode as r ; decode on r", False),
        ("full ; attend c0", False),
        ("full ; state as s ; look s", True),
        ("full ; state as s ; attend s", False),
        ("full ; list full as l ; decode on l as r ; attend r", True),
        ("full ; list full as l ; clone as m on l ; trim 1 on m", True),
        ("full ; drop c0 ; decode", False),
    ],
)
def test_soundness(text: str, sound: bool):
    assert is_sound(trace(text)) is sound


def test_fixed_fields_stay():
    found = minimise(trace(LONG), lambda t: True, fixed=frozenset({"window", "sinks", "head_dim", "dtype"}))
    assert write(found.trace) == "ring window=8 sinks=2 dtype=f16 D=128"


CODED = "ring window=8 bits=6 value_bits=3 group=32 start=9 D=128 dtype=f16 ; window 12 as r1 ; decode ; attend r1"


def reaches(candidate: Trace, least: int) -> bool:
    """Tell whether a trace reaches its start, which is ``least`` or more."""
    start = candidate.config.start
    return isinstance(start, int) and least <= start <= positions(candidate)


POLICED: dict[str, tuple[Callable[[Trace], bool], str]] = {
    "anything": (lambda t: True, "ring window=1"),
    "codes": (lambda t: t.config.bits is not None, "ring window=1 bits=4"),
    "other bits for values": (lambda t: t.config.bits_of_values != t.config.bits, "ring window=1 bits=4 value_bits=3"),
    "groups of 32": (lambda t: t.config.group == 32, "ring window=1 bits=4 group=32"),
    "a start": (lambda t: t.config.policy == "bf16_first", "ring window=1 bits=4 start=0"),
    "a start that is reached": (lambda t: reaches(t, 1), "ring window=1 bits=4 start=1 ; decode"),
    "a late start that is reached": (lambda t: reaches(t, 3), "ring window=1 bits=4 start=3 ; window 3"),
    "six bits": (lambda t: t.config.bits == 6, "ring window=1 bits=6"),
}


@pytest.mark.parametrize("what", POLICED)
def test_storage_policies_are_taken_away_or_made_plainer(what: str):
    fails, shortest = POLICED[what]
    found = minimise(trace(CODED), fails)
    assert write(found.trace) == write(trace(shortest))
    assert found.complete


def test_a_start_of_never_is_lowered_to_no_other():
    found = minimise(trace(CODED.replace("start=9", "start=never")), lambda t: t.config.start == "never")
    assert write(found.trace) == "ring window=1 bits=4 start=never"


@pytest.mark.parametrize(
    ("fixed", "shortest"),
    [
        ({"bits"}, "ring window=1 bits=6"),
        ({"start"}, "ring window=1 bits=4 start=9"),
        ({"group"}, "ring window=1 bits=4 group=32"),
        ({"value_bits"}, "ring window=1 bits=4 value_bits=3"),
        ({"window", "bits", "start"}, "ring window=8 bits=6 start=9"),
    ],
)
def test_a_fixed_part_of_a_policy_stays_and_with_it_the_bits(fixed: set[str], shortest: str):
    found = minimise(trace(CODED), lambda t: True, fixed=frozenset(fixed))
    assert write(found.trace) == write(trace(shortest))


def test_lists_lose_layers():
    start = trace("full ; list full + ring window=4 + ring window=3 as l ; window 5 on l ; trim 2 on l")
    found = minimise(start, lambda t: any(c.verb == "trim" and c.on == "l" for c in t.calls))
    assert write(found.trace) == "full ; list ring window=3 as l ; trim 1 on l"


def test_odd_counts_become_small_ones():
    assert write(minimise(trace("full ; trim -7"), lambda t: "trim -" in write(t)).trace) == "full ; trim -1"
    assert write(minimise(trace("full ; trim 1.5"), lambda t: "1.5" in write(t)).trace) == "full ; trim 1.5"
    assert write(minimise(trace("full ; dense 4"), lambda t: positions(t) >= 2).trace) == "full ; window 2"


# Groups of rows.

GROUPED = (
    "ring_rows window=6 rows=3 ; prepare left=1,0,2 lengths=4,4,4 right=1,3,0 ; window 4 ; filter 2,0 ; window 3 ; "
    "finalize ; extract 1 as e1 ; decode on e1 ; cache as s1 ; window 4 on s1 ; merge c0 s1 e1 as g1 ; "
    "begin_prefill on g1 ; "
    "commit_prefill 0,3 on g1 ; decode on g1 ; hand_back 2 as h1 on g1"
)


def verbs(candidate: Trace) -> set[str]:
    return {call.verb for call in candidate.calls}


OF_GROUPS: dict[str, tuple[Callable[[Trace], bool], str]] = {
    "anything": (lambda t: True, "ring_rows window=1 rows=0"),
    "a row": (lambda t: t.config.row_count >= 1, "ring_rows window=1 rows=1"),
    "two rows": (lambda t: t.config.row_count >= 2, "ring_rows window=1 rows=2"),
    "a merge": (lambda t: "merge" in verbs(t), "ring_rows window=1 rows=0 ; merge c0 as g1"),
    "a row that joins": (
        lambda t: any(isinstance(c, Merge) and len(c.sources) > 1 for c in t.calls),
        "ring_rows window=1 rows=0 ; merge c0 c0 as g1",
    ),
    "a call on the merged group": (
        lambda t: any(c.on == "g1" and isinstance(c, AppendDecode) for c in t.calls),
        "ring_rows window=1 rows=0 ; merge c0 as g1 ; decode on g1",
    ),
    "right padding": (
        lambda t: any(isinstance(c, Prepare) and any(c.right or ()) for c in t.calls),
        "ring_rows window=1 rows=1 ; prepare right=1",
    ),
    "left padding of the last row but one": (
        lambda t: any(isinstance(c, Prepare) and c.left and len(c.left) > 1 and c.left[-2] > 0 for c in t.calls),
        "ring_rows window=1 rows=2 ; prepare left=1,0",
    ),
    "a filter that turns rows round": (
        lambda t: any(isinstance(c, Filter) and list(c.rows) != sorted(c.rows) for c in t.calls),
        "ring_rows window=1 rows=2 ; filter 1,0",
    ),
    "a cache made of a row": (
        lambda t: bool(verbs(t) & {"extract", "hand_back"}),
        "ring_rows window=1 rows=1 ; extract 0 as e1",
    ),
}


@pytest.mark.parametrize("what", OF_GROUPS)
def test_known_minima_of_groups_are_reached(what: str):
    fails, shortest = OF_GROUPS[what]
    found = minimise(trace(GROUPED), fails, 3000)
    assert fails(found.trace)
    assert write(found.trace) == write(trace(shortest))
    assert found.complete


def test_every_candidate_of_a_group_is_sound_and_can_be_played():
    asked = 0

    def fails(candidate: Trace) -> bool:
        nonlocal asked
        asked += 1
        assert is_sound(candidate)
        with suppress(UnknownObjectError):  # what a refused call would have made
            Lockstep(open_target("builtin:oracle"), "layout", frozenset()).run(candidate)
        return len(candidate.calls) > 9

    minimise(trace(GROUPED), fails)
    assert asked > 20


def test_a_row_is_dropped_wherever_it_is_named():
    start = trace(
        "full_rows rows=3 ; prepare left=1,2,3 ; filter 2,0,1 ; commit_prefill 0,2 ; extract 2 as e1 ; extract 0 as e2"
    )
    assert [write(t) for t in fewer_rows(start, frozenset())] == [
        "full_rows rows=2 ; prepare left=2,3 ; filter 1,0 ; commit_prefill 0,1 ; extract 1 as e1 ; extract 0 as e2",
        "full_rows rows=2 ; prepare left=1,3 ; filter 1,0 ; commit_prefill 0 ; extract 0 as e2",
        "full_rows rows=2 ; prepare left=1,2 ; filter 0,1 ; commit_prefill 1 ; extract 1 as e1",
    ]


def test_a_source_is_dropped_with_its_rows():
    start = trace("full_rows rows=1 ; cache as s1 ; merge s1 c0 as g1 ; filter 1,0 on g1 ; extract 0 as e1 on g1")
    wanted = (
        "full_rows rows=1 ; cache as s1 ; merge c0 as g1 ; filter 0 on g1 ; extract 0 as e1 on g1",
        "full_rows rows=1 ; cache as s1 ; merge s1 as g1 ; filter 0 on g1",
    )
    assert list(fewer_rows(start, frozenset({"rows"}))) == [trace(text) for text in wanted]


def test_rows_that_padding_makes_are_dropped_too():
    start = trace("full_rows rows=0 ; prepare lengths=1,2 right=1,0 ; filter 1")
    assert [write(t) for t in fewer_rows(start, frozenset())] == [
        "full_rows rows=0 ; prepare lengths=2 right=0 ; filter 0",
        "full_rows rows=0 ; prepare lengths=1 right=1 ; filter none",
    ]


def test_a_fixed_number_of_rows_stays():
    found = minimise(trace(GROUPED), lambda t: True, fixed=frozenset({"rows"}))
    assert found.trace.config.rows == 3


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("full_rows ; merge c0 c1 as g1", False),
        ("full_rows ; drop c0 ; cache as s1 ; decode on s1", True),
        ("full_rows ; merge c0 as g1 ; filter 0 on g1", True),
        ("full_rows ; extract 0 as e1 ; filter 0 on e1", False),
        ("full ; filter 0", False),
        ("full ; merge c0 as g1 ; extract 0 as e1 on g1 ; decode on e1", True),
        ("full_rows ; decode as r1 ; merge r1 as g1", False),
        ("full_rows ; clone as c1 ; finalize on c1", True),
    ],
)
def test_soundness_of_calls_on_groups(text: str, sound: bool):
    assert is_sound(trace(text)) is sound


ROUNDS = (
    "ring window=8 sinks=2 ; window 12 ; begin_round ; window 7 ; decode ; clone as c1 ; roll_back 5 on c1 ; "
    "roll_back 5 ; decode ; begin_round ; window 4 ; commit_round ; decode"
)


def rejects(candidate: Trace, least: int) -> bool:
    """Tell whether a round of the first cache appends so much more than it keeps, and keeps something."""
    appended = 0
    for call in candidate.calls:
        if call.verb == "begin_round" and call.on == "c0":
            appended = 0
        appended += call.appends if call.on == "c0" else 0
        if isinstance(call, RollBack) and call.on == "c0" and call.keep[0] >= 1 and appended - call.keep[0] >= least:
            return True
    return False


ROUND_CASES: dict[str, tuple[Callable[[Trace], bool], str]] = {
    "four positions in c0": (lambda t: positions(t) >= 4, "ring window=1 ; window 4"),
    "a roll back": (lambda t: "roll_back" in write(t), "ring window=1 ; roll_back 0"),
    "two positions taken back, and one kept": (lambda t: rejects(t, 2), "ring window=1 ; window 3 ; roll_back 1"),
}


@pytest.mark.parametrize("what", ROUND_CASES)
def test_rounds_are_shortened(what: str):
    fails, shortest = ROUND_CASES[what]
    found = minimise(trace(ROUNDS), fails)
    assert write(found.trace) == write(trace(shortest))
    assert found.complete


def test_a_round_of_rows_loses_the_keep_of_a_row_that_goes():
    start = trace("ring_rows window=4 rows=3 ; window 3 ; begin_round ; window 4 ; roll_back 1,0,3 ; decode")
    found = minimise(start, lambda t: any(isinstance(c, RollBack) and len(set(c.keep)) > 1 for c in t.calls))
    assert write(found.trace) == "ring_rows window=1 rows=2 ; roll_back 0,1"


def rolls_back_a_list(candidate: Trace) -> bool:
    """Tell whether a list, or a clone of one, is rolled back."""
    lists = set[str]()
    for call in candidate.calls:
        if isinstance(call, OpenList) or (isinstance(call, Clone) and call.on in lists):
            lists.add(call.as_)
    return any(isinstance(call, RollBack) and call.on in lists for call in candidate.calls)


def test_a_clone_is_taken_for_what_it_was_cloned_from():
    start = trace("full ; list full as l ; clone as m on l ; begin_round on m ; window 3 on m ; roll_back 1 on m")
    found = minimise(start, rolls_back_a_list)
    assert write(found.trace) == "full ; list full as l ; roll_back 0 on l"
