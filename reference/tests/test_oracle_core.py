"""Caches of another design, in the core profile: what they choose is judged first and then followed."""

import pytest

from kvlaw.reference.expectation import Expectation
from kvlaw.reference.history import Sight
from kvlaw.reference.oracle import Oracle, Seen
from kvlaw.spec.calls import Trim
from kvlaw.spec.text_form import parse

YES, NO = (True,) * 14, (False,) * 14
"""What can_trim said for 0 to 13."""


class Walk:
    """The oracle in core, told what another design did."""

    def __init__(self, text: str) -> None:
        trace = parse(text).trace
        self.oracle, self.token = Oracle("core"), 1
        self.oracle.open(trace.config)
        for call in trace.calls:
            self.oracle.step(call, self.tokens(call.appends))

    def tokens(self, count: int) -> tuple[int, ...]:
        self.token += count
        return tuple(range(self.token - count, self.token))

    def trim(self, count: float, seen: Seen, *, bypass: bool = False) -> Expectation:
        return self.oracle.step(Trim(n=count, bypass=bypass), (), seen)

    def append(self, text: str) -> Expectation:
        call = parse(f"full ; {text}").trace.calls[0]
        return self.oracle.step(call, self.tokens(call.appends))


def keeps(expectation: Expectation, seen: Seen) -> bool:
    """Tell whether what was answered keeps the law, as far as the outcome, the answer and the offset tell."""
    if expectation.ends and seen.outcome in expectation.outcomes:
        return True
    values = {"answer": seen.answer, "offset": seen.offset}
    right = all(e.value == values[e.field] for e in expectation.expected if values.get(e.field) is not None)
    return seen.outcome in expectation.outcomes and right


FULL_RING = "ring window=8 ; window 12"


def test_a_full_ring_may_refuse():
    walk = Walk(FULL_RING)
    seen = Seen("refused", None, 12, able=NO)
    assert keeps(walk.trim(2, seen), seen)
    assert walk.append("decode").sights[0] == Sight(tuple(range(6, 14)), tuple(range(6, 14)))


def test_a_full_ring_may_answer_that_it_dropped_nothing():
    walk = Walk(FULL_RING)
    seen = Seen("ok", 0, 12, able=NO)
    assert keeps(walk.trim(2, seen), seen)
    assert walk.append("decode").sights[0].required == tuple(range(6, 14))


def test_a_full_ring_may_be_unrolled_and_cut():
    walk = Walk(FULL_RING)
    seen = Seen("ok", 2, 10, able=YES)
    assert keeps(walk.trim(2, seen), seen)
    # t1..t4 had been evicted; the next query sees positions 3 to 10, of which t4 may be gone
    assert walk.append("decode").sights[0] == Sight((5, 6, 7, 8, 9, 10, 13), (4, 5, 6, 7, 8, 9, 10, 13))


def test_a_cut_may_be_smaller_than_asked_but_must_be_true():
    walk = Walk(FULL_RING)
    assert keeps(walk.trim(5, Seen("ok", 1, 11)), Seen("ok", 1, 11))
    assert walk.oracle.step(parse("full ; look c0").trace.calls[0], ()).value("offset") == 11


@pytest.mark.parametrize(
    ("seen", "clause"),
    [
        (Seen("ok", 2, 12), "TRIM-3"),  # says two, drops none
        (Seen("ok", 3, 9), "TRIM-3"),  # more than asked
        (Seen("ok", -1, 13), "TRIM-3"),
        (Seen("ok", 2, 10, able=NO), "TRIM-4"),
        (Seen("ok", 1, 11, able=YES), "TRIM-5"),
        (Seen("ok", 0, 12, able=YES), "TRIM-5"),
        (Seen("refused", None, 12, able=YES), "TRIM-5"),
        (Seen("refused", None, 10), "ERR-1"),  # refuses and drops
    ],
)
def test_a_lie_is_charged_to_the_clause_that_it_breaks(seen: Seen, clause: str):
    found = Walk(FULL_RING).trim(2, seen)
    assert not keeps(found, seen)
    values = {"answer": seen.answer, "offset": seen.offset}
    wrong = [e for e in found.expected if values.get(e.field) is not None and e.value != values[e.field]]
    cited = wrong[0].clauses if seen.outcome in found.outcomes else found.charged
    assert clause in cited


@pytest.mark.parametrize(
    ("text", "count", "seen", "clause"),
    [
        ("full ; window 5", 2, Seen("refused", None, 5), "TRIM-1"),
        ("full ; window 5", 2, Seen("ok", 1, 4), "TRIM-1"),
        ("ring window=8 ; window 5", 2, Seen("refused", None, 5), "TRIM-2"),
        ("ring window=8 ; window 5", 2, Seen("ok", 0, 5), "TRIM-2"),
    ],
)
def test_a_trim_below_the_limit_is_owed(text: str, count: int, seen: Seen, clause: str):
    found = Walk(text).trim(count, seen)
    assert not keeps(found, seen)
    assert clause in found.charged


@pytest.mark.parametrize(("answer", "offset"), [(5, 0), (0, 5), (2, 3)])
def test_beyond_the_offset_a_cache_may_clamp(answer: int, offset: int):
    for able in (None, (True,) * 6 + (False,), YES):  # a cache that is trimmable as a whole promises nothing about six
        seen = Seen("ok", answer, offset, able)
        assert keeps(Walk("full ; window 5").trim(6, seen), seen)


def test_beyond_the_offset_a_cache_may_refuse_whatever_it_said():
    for able in (None, NO, YES):
        seen = Seen("refused", None, 5, able)
        assert keeps(Walk("full ; window 5").trim(6, seen), seen)


def test_a_clamp_drops_no_count_that_the_cache_denied():
    seen = Seen("ok", 5, 0, NO)
    assert Walk("full ; window 5").trim(6, seen).charged == ("TRIM-4",)


@pytest.mark.parametrize("text", ["full ; window 5", FULL_RING])
def test_a_negative_count_adds_nothing(text: str):
    before = Walk(text)
    offset = len(before.oracle.world["c0"].row.tokens)  # type: ignore[union-attr] # a cache
    for seen in (Seen("refused", None, offset), Seen("ok", 0, offset)):
        assert keeps(Walk(text).trim(-2, seen), seen)
    for seen in (Seen("ok", -2, offset + 2), Seen("ok", None, offset + 2)):
        found = Walk(text).trim(-2, seen)
        assert not keeps(found, seen)
        assert found.charged == ("TRIM-9",)


def test_a_trim_of_nothing_changes_nothing():
    walk = Walk(FULL_RING)
    found = walk.trim(0, Seen("refused", None, 12))
    assert [e.clauses[0] for e in found.expected if e.field == "offset"] == ["TRIM-10"]
    assert not keeps(found, Seen("refused", None, 11))


def test_what_was_dropped_is_read_off_the_offset_where_nothing_is_answered():
    walk = Walk("full ; window 5")
    assert walk.trim(2, Seen("ok", None, 3)).answer == 2
    assert walk.append("decode").sights[0].allowed == (1, 2, 3, 6)


def test_where_neither_is_shown_nothing_more_can_be_said():
    assert Walk("full ; window 5").trim(2, Seen("ok", None, None)).ends


def test_half_a_position_may_be_refused_or_ends_the_trace():
    refused = Seen("refused", None, 5)
    assert keeps(Walk("full ; window 5").trim(1.5, refused), refused)
    assert Walk("full ; window 5").trim(1.5, Seen("ok", 1, 4)).ends


def test_can_trim_says_nothing_about_a_bypass():
    seen = Seen("ok", 2, 10, able=NO)
    assert keeps(Walk(FULL_RING).trim(2, seen, bypass=True), seen)


def test_a_ring_of_sinks_alone_must_at_least_see_its_own_token():
    oracle = Oracle("core")
    config = parse("ring window=2 sinks=2").trace.config
    assert not oracle.open(config, Seen("ok")).ends
    found = oracle.step(parse("full ; window 3").trace.calls[0], (1, 2, 3))
    assert found.sights == (Sight((1,), (1,)), Sight((2,), (1, 2)), Sight((3,), (1, 2, 3)))
    assert [e.clauses[0] for e in found.expected if e.field == "sights"] == ["RING-14"]
    assert oracle.step(Trim(n=1), (), Seen("refused")).ends
    assert Oracle("core").open(config, Seen("refused")).ends


def test_spoilt_tensors_that_are_accepted_end_the_trace():
    walk = Walk("full ; window 5")
    call = parse("full ; window 2 malformed=heads").trace.calls[0]
    assert walk.oracle.step(call, (90, 91), Seen("ok")).ends
    kept = Walk("full ; window 5").oracle.step(call, (90, 91), Seen("refused"))
    assert (kept.outcomes, kept.value("offset")) == (("refused",), 5)


def test_the_bytes_of_a_ring_that_was_cut_cover_what_is_left():
    walk = Walk("ring window=8 ; decode x12")
    walk.trim(5, Seen("ok", 5, 7))
    left = walk.oracle.step(parse("full ; look c0").trace.calls[0], ())
    assert left.value("nbytes_min") == 3 * walk.oracle.judge.config.token_bytes  # t5 to t7; t1 to t4 were evicted


@pytest.mark.parametrize(
    ("seen", "right"),
    [
        (Seen("ok", 2, 10), True),
        (Seen("refused", None, 12), True),
        (Seen("ok", 0, 12), True),
        (Seen("ok", 3, 9), False),
    ],
)
def test_a_list_trims_by_its_answer_in_every_layer(seen: Seen, right: bool):
    walk = Walk("full ; list full + ring window=8 as l")
    walk.append("window 12 on l")
    found = walk.oracle.step(Trim(n=2, on="l"), (), seen)
    assert keeps(found, seen) is right
    if right:
        assert [layer.value("offset") for layer in found.layers] == [seen.offset, seen.offset]
        assert all(layer.outcomes == (seen.outcome,) for layer in found.layers)


def test_a_list_owes_a_trim_that_every_layer_owes():
    walk = Walk("full ; list full + ring window=8 as l")
    walk.append("window 5 on l")
    found = walk.oracle.step(Trim(n=2, on="l"), (), Seen("refused", None, 5))
    assert found.outcomes == ("ok",)
