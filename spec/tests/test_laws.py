"""Laws over records: what they see, when they do not apply, that a false one is seen as false, and what is refused."""

from typing import Any

import pytest
from attrs import evolve

from kvlaw.spec.calls import AppendDecode, AppendWindow, Call, LookAt, Trim
from kvlaw.spec.config import Config
from kvlaw.spec.laws import (
    HELPERS,
    Law,
    LawError,
    Unobserved,
    all_see,
    narrower,
    newest,
    queries,
    same_in,
    seen,
    window_of,
)
from kvlaw.spec.records import CacheRecord, ReadRecord, Record, Run, compared, same

RING = Config("ring", window=4, sinks=1)


def step(call: Call | None, **known: Any) -> Record:
    return Record(call, known.pop("outcome", "ok"), **known)


def run(*steps: Record, config: Config = RING) -> Run:
    return Run(config, "ok", steps)


def verdicts(when: str, then: str, told: Run, scope: Any = "step") -> list[tuple[int, bool]]:
    return list(Law("VIS-1", scope, when, then).over(told))


# a window of 2, then two decodes, told as a right ring tells it
WINDOW = step(
    AppendWindow(length=2),
    read=ReadRecord(visible=(((1,), (1, 2)),), width=2, mask="causal"),
    before=CacheRecord(offset=0),
    after=CacheRecord(offset=2, columns=2),
    live=(1, 2),
)
DECODE = step(
    AppendDecode(as_="r1"),
    read=ReadRecord(visible=(((1, 2, 3),),), width=3, mask="none", output="abc"),
    before=CacheRecord(offset=2, columns=2),
    after=CacheRecord(offset=3, columns=4),
    live_before=(1, 2),
    live=(1, 2, 3),
)
AGAIN = step(LookAt(on="r1"), read=ReadRecord(output="abc"), live_before=(1, 2, 3), live=(1, 2, 3))
TOLD = run(WINDOW, DECODE, AGAIN)


def test_a_step_law_is_asked_at_every_step_where_it_applies() -> None:
    assert verdicts("result.ok and L", "after.offset == before.offset + L", TOLD) == [(0, True), (1, True)]
    assert verdicts("call.is_decode", "after.offset == o + 1", TOLD) == [(1, True)]


def test_a_false_law_is_seen_as_false() -> None:
    assert verdicts("call.is_window", "after.offset == o", TOLD) == [(0, False)]
    wrong = run(WINDOW, evolve(DECODE, after=CacheRecord(offset=4)))
    assert verdicts("L", "after.offset == o + L", wrong) == [(0, True), (1, False)]


def test_a_step_law_knows_its_names() -> None:
    names = "(W, s, o, L, live, live_before, call.length, config.kind, result.outcome, read.width)"
    assert verdicts("call.is_window", f"{names} == (4, 1, 0, 2, (1, 2), (), 2, 'ring', 'ok', 2)", TOLD) == [(0, True)]


def test_generators_inside_a_law_see_its_names() -> None:
    then = "all(set(ids) == window_of(live, o + i, W, s) for _, i, ids in queries(read))"
    assert verdicts("result.ok and L", then, TOLD) == [(0, True), (1, True)]
    lost = run(evolve(WINDOW, read=ReadRecord(visible=(((1,), (2,)),))))
    assert verdicts("result.ok and L", then, lost) == [(0, False)]
    assert verdicts("L", "sum(1 for x in live if x > o and any(x == y for y in live)) == L", TOLD) == [
        (0, True),
        (1, True),
    ]


def test_an_unobserved_value_stops_a_law_instead_of_breaking_it() -> None:
    blind = run(step(AppendDecode(), before=CacheRecord(), after=CacheRecord(), live=(1,)))
    for then in (
        "after.offset == o + 1",
        "after.offset != 7",
        "after.columns <= W",
        "read.width == 1",
        "seen(read) == live",
        "same(before, after)",
        "same_in(before, after, 'offset', 'columns')",
        "result.answer == 0",
        "all(q for q in queries(read))",
    ):
        assert verdicts("True", then, blind) == [], then
        assert verdicts(then, "False", blind) == [], then


def test_whether_something_was_observed_may_be_asked() -> None:
    blind = run(step(AppendDecode(), after=CacheRecord()))
    assert verdicts("after.offset is None", "True", blind) == [(0, True)]
    assert verdicts("True", "after.offset is not None", blind) == [(0, False)]
    assert verdicts("L", "read is None", blind) == [(0, True)]
    assert verdicts("L and result.read is None", "before is None", blind) == [(0, True)]


def test_the_window_of_a_growing_cache_and_a_missing_argument_stop_a_law() -> None:
    told = run(WINDOW, config=Config("full"))
    assert verdicts("True", "len(live) <= W", told) == []
    assert verdicts("W is None", "narrower(W, call.window) is None", told) == [(0, True)]
    assert verdicts("call.window >= 1", "False", told) == []


def test_a_call_without_the_attribute_stops_a_law() -> None:
    assert verdicts("True", "call.n == 3", run(step(AppendDecode()), step(Trim(n=3)))) == [(1, True)]
    assert verdicts("True", "call.is_trim", run(step(None))) == []


def test_a_then_that_cannot_be_met_by_what_was_shown_is_false() -> None:
    empty = run(step(AppendDecode(), read=ReadRecord(visible=(((),),)), live=(1,)))
    assert verdicts("True", "min(seen(read)) == 1", empty) == [(0, False)]
    assert verdicts("True", "seen(read)[0] == 1", empty) == [(0, False)]
    assert verdicts("seen(read)[0] == 1", "False", empty) == []


def test_the_opening_is_a_step_without_a_call() -> None:
    when, then = "call is None", "result.refused == (config.problem is not None)"
    assert verdicts(when, then, Run(RING, "ok")) == [(-1, True)]
    assert verdicts(when, then, Run(Config("ring", 0), "refused")) == [(-1, True)]
    assert verdicts(when, then, Run(Config("ring", 0), "ok", (DECODE,))) == [(-1, False)]
    assert verdicts("True", "after.offset == 0", Run(RING, "ok")) == []


def test_a_trace_law_takes_any_two_moments() -> None:
    when = "first.call.is_decode and second.call.on == first.call.as_"
    assert verdicts(when, "first.read.output == second.read.output", TOLD, "trace") == [(2, True)]
    torn = run(WINDOW, DECODE, evolve(AGAIN, read=ReadRecord(output="xyz")))
    assert verdicts(when, "first.read.output == second.read.output", torn, "trace") == [(2, False)]
    assert verdicts("True", "len(between) < len(run.steps)", TOLD, "trace") == [(1, True), (2, True), (2, True)]
    assert verdicts("first.call.is_window", "all(x.call.is_decode for x in between)", TOLD, "trace") == [
        (1, True),
        (2, True),
    ]


def test_a_pair_law_compares_two_runs() -> None:
    law = Law("GROW-8", "pair", "one.steps", "seen(one.steps[-1].read) == seen(other.steps[-1].read)", "rechunked")
    rechunked = run(evolve(WINDOW, read=ReadRecord(visible=(((1,),),))), DECODE)
    assert law.over_pair(run(WINDOW, DECODE), rechunked) is True
    assert law.over_pair(run(WINDOW, DECODE), run(evolve(DECODE, read=ReadRecord(visible=(((2, 3),),))))) is False
    assert law.over_pair(run(WINDOW, DECODE), run(evolve(DECODE, read=None))) is None
    assert law.over_pair(run(), run()) is None
    assert list(law.over(TOLD)) == []


@pytest.mark.parametrize(
    ("scope", "text", "message"),
    [
        ("step", "result.ok and", "invalid syntax"),
        ("step", "", "invalid syntax"),
        ("step", "x = 3", "invalid syntax"),
        ("step", "befor.offset", "unknown name 'befor'; a step law knows config, W, s"),
        ("step", "first.call", "unknown name 'first'; a step law knows"),
        ("trace", "before.offset", "unknown name 'before'; a trace law knows config, W, s, first, second"),
        ("pair", "run.steps", "unknown name 'run'; a pair law knows config, W, s, one, other"),
        ("step", "open('x')", "unknown name 'open'"),
        ("step", "_observed(call, 'n')", "unknown name '_observed'"),
        ("step", "before.offsett", "before.offsett: unknown attribute 'offsett'; known are bytes_per_token, can_trim"),
        ("step", "result.after.ofset", "unknown attribute 'ofset'"),
        ("step", "result.refusd", "unknown attribute 'refusd'"),
        ("step", "call.is_decod", "unknown attribute 'is_decod'"),
        ("step", "call.lenght", "unknown attribute 'lenght'"),
        ("step", "after.colums is None", "unknown attribute 'colums'"),
        ("step", "same_in(before, after, 'ofset')", "unknown attribute 'ofset'"),
        ("trace", "all(x.outcom for x in between)", "unknown attribute 'outcom'"),
        ("trace", "run.steps[-1].outcom", "unknown attribute 'outcom'"),
        ("trace", "run.of('c1').stepss", "unknown attribute 'stepss'"),
        ("trace", "[x.outcom for x in run.steps[1:]]", "unknown attribute 'outcom'"),
        ("step", "call.__class__", "unknown attribute '__class__'"),
        ("step", "__import__('os')", "unknown name '__import__'"),
        ("step", "[__x for __x in live]", "unknown name '__x'"),
        ("step", "'{0.__class__}'.format(call)", "a double underscore has no place in a law"),
    ],
)
def test_a_law_that_cannot_mean_anything_is_refused(scope: Any, text: str, message: str) -> None:
    for when, then, side in ((text, "True", "when"), ("True", text, "then")):
        with pytest.raises(LawError) as caught:
            Law("RING-3", scope, when, then)
        assert str(caught.value).startswith(f"RING-3: {side}: ")
        assert message in str(caught.value)


def test_laws_with_the_same_text_are_equal() -> None:
    assert Law("VIS-1", "step", "L", "result.ok") == Law("VIS-1", "step", "L", "result.ok")
    assert Law("VIS-1", "step", "L", "result.ok") != Law("VIS-1", "step", "L", "result.refused")


# ----------------------------------------------------------------------------------------------------------------------
# Helpers and records


@pytest.mark.parametrize(
    ("position", "window", "sinks", "expected"),
    [
        (6, None, 0, {1, 2, 3, 4, 5, 6, 7}),
        (2, 4, 0, {1, 2, 3}),
        (3, 4, 0, {1, 2, 3, 4}),
        (6, 4, 0, {4, 5, 6, 7}),
        (6, 4, 1, {1, 5, 6, 7}),
        (4, 4, 3, {1, 2, 3, 5}),
        (6, 1, 0, {7}),
    ],
)
def test_window_of(position: int, window: int | None, sinks: int, expected: set[int]) -> None:
    # by hand: a query at position p sees its newest W positions, s pinned ones counted in
    assert window_of((1, 2, 3, 4, 5, 6, 7), position, window, sinks) == expected


def test_newest() -> None:
    assert newest((1, 2, 3, 4, 5), 3) == (3, 4, 5)
    assert newest((1, 2, 3, 4, 5), 3, sinks=1) == (1, 4, 5)
    assert newest((1, 2), 3, sinks=1) == (1, 2)
    assert newest((1, 2, 3), 0) == ()
    assert newest((1, 2, 3, 4), 1, sinks=2) == (1,)


def read_of(*rows: tuple[tuple[int, ...], ...]) -> ReadRecord:
    return ReadRecord(visible=rows)


def test_all_see() -> None:
    # a window append of 2 at offset 2, in any order; W = 3: positions 0..2 and 1..3
    live = (1, 2, 3, 4)
    right = ((3, 1, 2), (2, 3, 4))
    assert all_see(read_of(right, right), live, 2, 3)
    assert not all_see(read_of(right, ((1, 2, 3), (1, 2, 3, 4))), live, 2, 3)
    assert not all_see(read_of(right), live, 2, 4)
    assert not all_see(read_of(((2, 3), (2, 3, 4))), live, 2, 3)
    assert all_see(read_of(((1, 2, 3), (1, 2, 3, 4))), live, 2, None)
    assert all_see(read_of(((1, 2, 3), (1, 3, 4))), live, 2, 3, 1)
    with pytest.raises(Unobserved):
        all_see(ReadRecord(), live, 2, 3)


def test_narrower() -> None:
    assert [narrower(4, 2), narrower(4, 9), narrower(4, None), narrower(None, 3), narrower(None, None)] == [
        2,
        4,
        4,
        3,
        None,
    ]


def test_what_a_read_shows() -> None:
    read = ReadRecord(visible=(((1,), (1, 2)), ((3,), (3, 4))))
    assert seen(read) == (1, 2)
    assert queries(read) == ((0, 0, (1,)), (0, 1, (1, 2)), (1, 0, (3,)), (1, 1, (3, 4)))
    for helper in (seen, queries):
        for nothing in (None, ReadRecord()):
            with pytest.raises(Unobserved):
                helper(nothing)


def test_same_compares_what_both_observed() -> None:
    one = CacheRecord(offset=3, columns=4, held=(1, 2, 3, 0))
    assert same(one, CacheRecord(offset=3, size=3))
    assert not same(one, CacheRecord(offset=4))
    assert not same(one, evolve(one, torn=((0, 1, "value"),)))
    assert same(one, None)
    assert compared(one, CacheRecord(offset=9, size=3)) == ("offset",)
    assert HELPERS["same"](one, CacheRecord(offset=3))
    with pytest.raises(Unobserved):
        HELPERS["same"](one, CacheRecord(size=3))


def test_same_in_compares_the_named_fields() -> None:
    one, other = CacheRecord(offset=3, columns=4), CacheRecord(offset=3, columns=5)
    assert same_in(one, other, "offset", "size")
    assert not same_in(one, other, "offset", "columns")
    for pair in ((one, None), (None, one)):
        with pytest.raises(Unobserved):
            same_in(*pair, "offset")


def test_a_run_can_be_cut_to_one_object() -> None:
    other = step(AppendDecode(on="c1"))
    assert run(WINDOW, other, step(None)).of("c1").steps == (other,)
    assert list(TOLD) == [WINDOW, DECODE, AGAIN]
