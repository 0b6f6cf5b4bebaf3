"""The text form: what its words mean, that it is read as it was written, and what is said of unreadable text."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    Attend,
    Clone,
    Drop,
    FetchDense,
    LookAt,
    MakeMask,
    OpenList,
    Reset,
    TakeState,
    Trim,
)
from kvlaw.spec.claims import CLAIMS, MASKS, NUMBERS
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.text_form import SHOWN_BY, Claim, Written, format_tokens, parse, parse_tokens, write
from kvlaw.spec.trace import Trace, TraceError

ids = st.lists(st.integers(0, 12), max_size=8).map(tuple)
counts = st.lists(st.integers(0, 12), max_size=8).map(tuple)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "refused": st.none(),
    "ok": st.none(),
    "answer": st.integers(-3, 300),
    "sees": st.lists(ids, min_size=1, max_size=3).map(tuple),
    "order": st.lists(ids, min_size=1, max_size=3).map(tuple),
    "fetches": ids,
    "holds": ids,
    **dict.fromkeys(("tail", "slots", "reads"), ids),
    "mask": st.sampled_from(MASKS),
    "can_trim": counts,
    "identity": st.sampled_from(["full", "ring(window=8,sinks=2)", "full(bits=4,group=64)"]),
    "storage": st.sampled_from(["dense", "affine"]),
    "form": st.sampled_from(["dense", "affine"]),
    "round": st.sampled_from(["open", "none"]),
    "max_append": st.just("unbounded") | st.integers(0, 300),
    **{name: st.integers(0, 10_000) for name in NUMBERS},
}


def claim_lists(verb: str) -> st.SearchStrategy[tuple[Claim, ...]]:
    """Draw claims of what a call shows; a claim of anything else is refused."""
    able = [what for what in CLAIMS if verb in SHOWN_BY.get(what, (verb,))]
    claims = st.sampled_from(able).flatmap(lambda what: st.builds(Claim, st.just(what), VALUES[what]))
    return st.lists(claims, max_size=3).map(tuple)


some_calls = st.sampled_from([AppendDecode(), AppendWindow(length=3), Trim(n=1), Reset(), AppendDecode(window=2)])


@st.composite
def written(draw: st.DrawFn) -> Written:
    calls = draw(st.lists(some_calls, max_size=6))
    told = [draw(claim_lists(call.verb)) for call in calls]
    return Written(Trace(Config("ring_rows", 8), tuple(calls)), draw(claim_lists("the opening")), tuple(told))


@given(written())
def test_what_was_written_is_read_again(told: Written) -> None:
    assert parse(write(told)) == told


@given(written())
def test_writing_is_a_fixpoint(told: Written) -> None:
    text = write(told)
    assert write(parse(text)) == text


def test_every_claim_is_drawn() -> None:
    assert set(VALUES) == set(CLAIMS)


def test_the_example_of_the_design() -> None:
    text = "ring window=8 sinks=0 ; window 12 ; trim 2 -> refused ; decode -> sees t6..t13 ; decode x5"
    told = parse(text)
    assert told.trace.config == Config("ring", 8)
    assert told.trace.calls == (AppendWindow(length=12), Trim(n=2), *[AppendDecode()] * 6)
    assert told.claims == (
        (),
        (Claim("refused"),),
        (Claim("sees", ((6, 7, 8, 9, 10, 11, 12, 13),)),),
        *[()] * 5,
    )
    assert write(told) == text.replace(" sinks=0", "")


def test_claims_of_a_repeated_call_are_those_of_the_last() -> None:
    assert parse("full ; decode x3 -> offset 3").claims == ((), (), (Claim("offset", 3),))


def test_equal_calls_are_joined_only_where_nothing_is_claimed_between() -> None:
    text = "full ; decode x2 -> offset 2 ; decode ; trim 1 ; decode x2"
    assert write(parse("full ; decode ; decode -> offset 2 ; decode ; trim 1 ; decode ; decode")) == text


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("full", Config("full")),
        ("ring window=8 sinks=2 dtype=f16", Config("ring", 8, 2, dtype="f16")),
        (
            "ring window=8 heads=1 groups=4 D=128 Dv=32",
            Config("ring", 8, kv_heads=1, groups=4, head_dim=128, value_dim=32),
        ),
        ("full look=last poison seed=7 batch=3", Config("full", look="last", poison=True, seed=7, batch=3)),
        ("ring w=8", Config("ring", 8)),
        ("ring window=none", Config("ring")),
        ("ring window=0 sinks=-1", Config("ring", 0, -1)),
    ],
)
def test_openings(text: str, config: Config) -> None:
    assert parse(text).trace.config == config


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("decode", AppendDecode()),
        ("decode w=4 array unread as r1", AppendDecode(window=4, array=True, unread=True, as_="r1")),
        ("window 5 on c1 malformed=heads", AppendWindow(length=5, on="c1", malformed="heads")),
        ("dense 3 as d1", FetchDense(length=3, as_="d1")),
        ("mask 3", MakeMask(length=3)),
        ("mask 1 decode w=2 as m1", MakeMask(length=1, phase="decode", window=2, as_="m1")),
        ("attend r1", Attend(on="r1")),
        ("attend r1 malformed=dtype", Attend(on="r1", malformed="dtype")),
        ("look d1", LookAt(on="d1")),
        ("look on d1", LookAt(on="d1")),
        ("look", LookAt()),
        ("look x5", LookAt(on="x5")),
        ("drop c1", Drop(on="c1")),
        ("trim 2", Trim(n=2)),
        ("trim -1 on c1", Trim(n=-1, on="c1")),
        ("trim 1.5 bypass", Trim(n=1.5, bypass=True)),
        ("trim 1e-07", Trim(n=1e-07)),
        ("clone as c1", Clone(as_="c1")),
        ("clone on c1 as c2", Clone(on="c1", as_="c2")),
        ("state as s1", TakeState(as_="s1")),
        ("reset", Reset()),
        (
            "list full + ring window=4 sinks=1 as l0",
            OpenList(layers=(LayerSpec("full"), LayerSpec("ring", 4, 1)), as_="l0"),
        ),
    ],
)
def test_calls(text: str, call: Any) -> None:
    assert parse(f"full ; {text}").trace.calls == (call,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ok", [Claim("ok")]),
        ("2", [Claim("answer", 2)]),
        ("0 and offset 13", [Claim("answer", 0), Claim("offset", 13)]),
        ("sees t1", [Claim("sees", ((1,),))]),
        ("sees t1 | t1..t2 | nothing", [Claim("sees", ((1,), (1, 2), ()))]),
        ("order t9,t2..t4", [Claim("order", ((9, 2, 3, 4),))]),
        ("fetches t9,t2..t4", [Claim("fetches", (9, 2, 3, 4))]),
        ("holds t5, t2..4 _ _", [Claim("holds", (5, 2, 3, 4, 0, 0))]),
        ("holds nothing", [Claim("holds", ())]),
        ("can_trim 0..3", [Claim("can_trim", (0, 1, 2, 3))]),
        ("can_trim 0,2", [Claim("can_trim", (0, 2))]),
        ("can_trim none", [Claim("can_trim", ())]),
        ("mask array", [Claim("mask", "array")]),
        ("identity ring(window=8,sinks=2)", [Claim("identity", "ring(window=8,sinks=2)")]),
        (
            "columns 8 and nbytes 64 and write_index 1",
            [Claim("columns", 8), Claim("nbytes", 64), Claim("write_index", 1)],
        ),
    ],
)
def test_claims(text: str, expected: list[Claim]) -> None:
    call = "trim 0" if expected[0].what == "answer" else "decode"
    assert parse(f"full ; {call} -> {text}").claims == (tuple(expected),)


def test_claims_about_one_layer_of_a_list() -> None:
    text = (
        "full ; list full + ring window=4 as l ; decode on l -> layer 1 sees t3..t4 and layer 0 offset 4 and offset 4"
    )
    expected = (Claim("sees", ((3, 4),), 1), Claim("offset", 4, 0), Claim("offset", 4))
    assert parse(text).claims[-1] == expected
    assert write(parse(text)).endswith("decode on l -> layer 1 sees t3..t4 and layer 0 offset 4 and offset 4")
    for more in ("clone as m on l ; decode on m", "decode as r on l ; attend r", "state as s on l ; look s"):
        assert parse(f"full ; list full as l ; {more} -> layer 0 offset 4").claims[-1] == (Claim("offset", 4, 0),)


def test_claims_about_one_row_of_a_group() -> None:
    text = "ring_rows window=8 rows=2 ; window 2 -> row 1 sees t3 | t3..t4 and row 0 offset 2 and rows 2 and offset 2"
    expected = (Claim("sees", ((3,), (3, 4)), row=1), Claim("offset", 2, row=0), Claim("rows", 2), Claim("offset", 2))
    assert parse(text).claims[-1] == expected
    assert write(parse(text)) == text
    assert parse("full_rows ; prepare left=3,0 -> row 0 offset -3").claims[-1] == (Claim("offset", -3, row=0),)


@pytest.mark.parametrize(
    "text",
    [
        "full_rows rows=3 ; filter 2,0 ; filter none ; commit_prefill 0,1 ; extract 0 as e1 ; hand_back 1 as h1",
        "ring_rows window=4 ; prepare left=2,0 lengths=3,4 right=1,0 ; finalize ; begin_prefill ; end_prefill on c1",
        "full_rows ; cache as s1 ; cache ring window=5 as s2 ; merge c0 s1 s2 as g1 ; merge as g2",
        "full_rows rows=2 ; begin_round ; roll_back 1,0 ; begin_round ; commit_round ; roll_back none",
        "full ; clone as c1 ; begin_round on c1 ; roll_back -1 on c1 ; commit_round on c1",
    ],
)
def test_the_calls_of_a_group_are_written_as_they_are_read(text: str) -> None:
    assert write(parse(text)) == text


def test_claims_on_the_opening_lines_and_comments() -> None:
    told = parse("# sinks beyond the window\nring window=2 sinks=2 -> refused\n\n  decode  # nothing to decode into\n")
    assert told.opening == (Claim("refused"),)
    assert told.trace.calls == (AppendDecode(),)


@given(st.lists(st.integers(0, 12), max_size=9).map(tuple))
def test_tokens_and_back(tokens: tuple[int, ...]) -> None:
    assert parse_tokens(format_tokens(tokens)) == tokens


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ((), "nothing"),
        ((1, 7, 8, 9), "t1,t7..t9"),
        ((9, 2, 3, 0, 0), "t9,t2..t3,_,_"),
        ((0, 1, 2), "_,t1..t2"),
        ((3, 3, 2), "t3,t3,t2"),
    ],
)
def test_tokens_are_written_in_runs(tokens: tuple[int, ...], text: str) -> None:
    assert format_tokens(tokens) == text


@pytest.mark.parametrize(
    ("text", "part", "message"),
    [
        ("", "an empty trace", "it opens with a kind"),
        (" ; # nothing", "an empty trace", "it opens with a kind"),
        ("spam", "'spam'", "kind: 'spam' is not one of full, ring"),
        ("ring win=8", "'ring win=8'", "unknown field win; did you mean 'window'?; known are"),
        ("ring window=", "'ring window='", "cannot read 'window='; options are written name=value"),
        ("ring =8", "'ring =8'", "cannot read '=8'"),
        ("ring 8", "'ring 8'", "cannot read '8'"),
        ("ring window=8 w=9", "'ring window=8 w=9'", "window is given twice"),
        ("ring window=8.5", "'ring window=8.5'", "8.5 is not an integer or null"),
        ("ring window=" + "9" * 5000, "'ring window=", "is not an integer or null"),
        ("full batch=0", "'full batch=0'", "'batch' must be >= 1: 0"),
        (
            "full ; append 3",
            "'append 3'",
            "unknown call 'append'; did you mean 'attend'?; known are decode, window, known",
        ),
        ("full ; window", "'window'", "length is missing"),
        ("full ; window two", "'window two'", "'two' is not an integer"),
        ("full ; window 2 3", "'window 2 3'", "cannot read '3'"),
        ("full ; decode w=2 w=3", "'decode w=2 w=3'", "window is given twice"),
        ("full ; decode on c0 on c1", "'decode on c0 on c1'", "on is given twice"),
        ("full ; decode bypass", "'decode bypass'", "unknown field bypass"),
        ("full ; decode as", "'decode as'", "cannot read 'as'"),
        ("full ; decode as a=b", "'decode as a=b'", "'as' must be a word"),
        ("full ; decode malformed=spam", "'decode malformed=spam'", "'spam' is not one of rank"),
        ("full ; decode x0", "'decode x0'", "'x0' is no number of repetitions from 1 to 999,999"),
        ("full ; decode x99999999999", "'decode x99999999999'", "is no number of repetitions"),
        ("full ; clone", "'clone'", "as is missing"),
        ("full ; look a b", "'look a b'", "cannot read 'b'"),
        ("full ; list as l0", "'list as l0'", "a layer is missing"),
        ("full ; list full + as l0", "'list full + as l0'", "a layer is missing"),
        ("full ; list fall as l0", "'list fall as l0'", "layers[0].kind: 'fall' is not one of full, ring"),
        ("full ; trim x", "'trim x'", "'x' is not an integer or a number"),
        ("full ; decode ->", "'decode ->'", "something must stand after '->'"),
        ("full ; -> ok", "'-> ok'", "a call must stand before '->'"),
        ("full ; decode -> spam", "'decode -> spam'", "cannot read the expectation 'spam'; it may claim refused, ok"),
        ("full ; decode -> ok and", "'decode -> ok and'", "cannot read the expectation ''"),
        ("full ; decode -> sees", "'decode -> sees'", "cannot read the expectation 'sees'"),
        ("full ; decode -> sees 3", "'decode -> sees 3'", "'3' is no token"),
        ("full ; decode -> sees t0", "'decode -> sees t0'", "'t0' is no token"),
        ("full ; decode -> sees t1 |", "'decode -> sees t1 |'", "no token is named"),
        ("full ; decode -> sees t5..t2", "'decode -> sees t5..t2'", "a range goes up"),
        ("full ; decode -> sees t1..t99999999", "'decode -> sees t1..t99999999'", "by at most 1,000,000"),
        ("full ; decode -> can_trim few", "'decode -> can_trim few'", "'few' is no count"),
        ("full ; decode -> can_trim 0..", "'decode -> can_trim 0..'", "'0..' is no count"),
        ("full ; decode -> can_trim 3..1", "'decode -> can_trim 3..1'", "a range goes up"),
        ("full ; decode -> offset one", "'decode -> offset one'", "'one' is no number"),
        ("full ; decode -> size -1", "'decode -> size -1'", "'-1' is no number"),
        ("full ; decode -> mask diagonal", "'decode -> mask diagonal'", "a mask is one of none, causal, array"),
        ("full ; decode -> identity a b", "'decode -> identity a b'", "one word is wanted"),
        ("full ; dense 3 -> sees t1..t3", "'dense 3 -> sees t1..t3'", "a dense fetch has no queries"),
        ("full ; dense 3 -> 3 and order t1..t3", "'dense 3 -> 3 and order t1..t3'", "a dense fetch has no queries"),
        ("full ; decode -> 5", "'decode -> 5'", "only trim, reuse can"),
        ("full ; decode ; look c0 -> sees t1", "'look c0 -> sees t1'", "only decode, compiled, window, known"),
        ("full ; clone as b -> fetches t1", "'clone as b -> fetches t1'", "known, attend, dense can"),
        ("full ; trim 1 -> mask none", "'trim 1 -> mask none'", "known, attend, mask can"),
        ("full -> sees t1 ; decode", "'full -> sees t1'", "the opening shows nothing"),
        (
            "full ; decode -> layer 0 sees t1",
            "'decode -> layer 0 sees t1'",
            "there are no layers: the call acts on one",
        ),
        ("full -> layer 0 offset 0", "'full -> layer 0 offset 0'", "there are no layers"),
        ("full ; list full as l -> layer 1 offset 0", "'list full as l -> layer 1", "the list has layers 0 to 0"),
        ("full ; decode -> layer one sees t1", "'decode -> layer one", "cannot read the expectation 'layer one"),
        ("full ; decode -> layer 0 refused", "'decode -> layer 0 refused'", "'refused' is no such claim"),
        (
            "full ; decode -> layer 0 layer 1 offset 1",
            "'decode -> layer 0 layer",
            "'layer 1 offset 1' is no such claim",
        ),
        ("full ; decode -> row 0 offset 1", "'decode -> row 0 offset 1'", "there are no rows"),
        ("full_rows ; decode -> row 0 rows 1", "'decode -> row 0 rows 1'", "'rows 1' is no such claim"),
        ("full_rows ; filter 1,a", "'filter 1,a'", "rows is a list of integers such as 1,0, or none, not '1,a'"),
        ("full ; roll_back", "'roll_back'", "keep is missing"),
        ("full ; roll_back 1,x", "'roll_back 1,x'", "keep is a list of integers"),
        ("full ; begin_round 2", "'begin_round 2'", "cannot read '2'"),
        ("full_rows ; prepare left=x", "'prepare left=x'", "left is a list of integers"),
        ("full_rows ; cache ring window=x as s", "'cache ring window=x as s'", "'x' is not an integer or null"),
        ("full ; dense 3 -> fetches", "'dense 3 -> fetches'", "cannot read the expectation 'fetches'"),
    ],
)
def test_the_message_quotes_the_part_that_cannot_be_read(text: str, part: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse(text)
    assert str(caught.value).startswith(part)
    assert message in str(caught.value)


WORDS = (
    *(
        "full",
        "ring",
        "window=8",
        "w=2",
        "decode",
        "window",
        "trim",
        "mask",
        "list",
        "look",
        "3",
        "-1",
        "x2",
        "on",
        "as",
    ),
    *("c1", "r1", "->", "ok", "sees", "t1..t4", "holds", "|", "_", "and", ";", "+", "#", "can_trim", "0..3", "offset"),
    *("layer", "1", "l0", "attend", "clone"),
    *("bypass", "array", "malformed=rank", "t9..t1", "=", "1.5", "\n", ""),
)
words = st.sampled_from(WORDS)


@given(st.lists(words, max_size=12).map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        told = parse(text)
    except TraceError:
        return
    assert parse(write(told)) == told
