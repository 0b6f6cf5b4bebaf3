"""The one loop: small wrong caches are found at the call where they part from the law, in both looks, with poison."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.faults.registry import load_faults, subject
from kvlaw.conformance.interface import UnsupportedError
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.questions import spoilt_from, stamper_of
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.reference.oracle import Profile, UnknownObjectError
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Config
from kvlaw.spec.text_form import parse


def adapted(cache: type[Cache]) -> Callable[[], ReferenceAdapter]:
    return type("Adapted", (ReferenceAdapter,), {"cache_type": cache})


def run(
    text: str, adapter: Callable[[], ReferenceAdapter] = ReferenceAdapter, profile: Profile = "layout"
) -> tuple[Step, ...]:
    trace = parse(text).trace
    kind = trace.config.kind
    counted = frozenset(c.id for c in load_clauses().of_profile(profile).values() if kind in c.applies)
    return Lockstep(AdapterSubject(adapter()), profile, counted).run(trace)


def charged(steps: tuple[Step, ...]) -> tuple[int, str] | None:
    """Give the number of the step that diverges (0 is the opening) and its clause."""
    found = steps[-1].divergences
    assert not any(step.divergences for step in steps[:-1])
    return (len(steps) - 1, found[0].clause) if found else None


ODD = [
    "full ; window 2 as r ; drop c0 ; attend r ; look r",
    "ring window=3 ; window 5 as r ; decode x4 ; reset ; attend r",
    "full ; window 2 ; clone as a ; clone as b on a ; decode on b ; decode on a ; decode ; look b ; drop a ; look b",
    "full ; list full + full as l ; window 2 on l as r ; decode on l ; attend r ; drop l ; attend r",
    "full ; list full + ring window=2 as l ; clone as m on l ; window 3 on l ; decode on m ; look l ; look m",
    "full ; clone as c0 ; window 2 ; state as s ; reset ; look s ; look c0",
    "full ; window 2 as c0 ; attend c0",
    "full ; state as s ; look s ; window 1 ; look s",
    "ring window=2 ; window 0 ; window 3 ; trim 0 ; trim 3 bypass ; window 1",
    "full ; dense 1 ; dense 3 as d ; dense 0 ; trim 4 ; look d ; decode",
    "ring window=1 ; window 1 ; decode ; mask 1 decode array as m ; window 3 w=1 ; look m",
    "full D=32 Dv=32 ; window 3 ; decode x2 ; trim 4",
    "ring window=3 D=32 Dv=96 dtype=f32 heads=1 groups=1 ; window 5 ; decode",
    "full ; window 300 unread ; decode ; trim 100 ; window 57 ; decode",
    "ring window=300 dtype=f16 ; window 256 unread ; decode ; window 50 ; decode",
    "full ; window 2 malformed=heads",
    "full ; drop c0",
]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("profile", ["core", "layout"])
@pytest.mark.parametrize("look", ["every", "last"])
@pytest.mark.parametrize("stamp", ["code", "random"])
def test_the_reference_keeps_the_law_on_odd_traces(text: str, profile: Profile, look: str, stamp: str):
    head, _, rest = text.partition(" ;")
    steps = run(f"{head} look={look} stamp={stamp} poison ;{rest}", profile=profile)
    assert charged(steps) is None
    assert all(step.record.outcome in ("ok", "refused") for step in steps)


class Lazy(Cache):
    """Reads and states show the planes as they are when they are looked at, not as they were."""

    def _append(self, *arguments: Any) -> Read:  # pyright: ignore[reportIncompatibleMethodOverride] # all are handed on
        made = super()._append(*arguments)
        cache = self

        class Later(Read):
            @property
            def now(self) -> Planes:
                assert cache.planes is not None
                width = made.keys.shape[2]
                return cache.planes.each(lambda plane: plane[:, :, :width])

        return Later(made.keys, made.values, made.mask, made.length, made.dtype)


class LazyAdapter(ReferenceAdapter):
    cache_type = Lazy

    def fetched(self, read: Any) -> tuple[Any, Any] | None:
        return read.now.keys, read.now.values

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        now = read.now
        return Read(now.keys, now.values, read.mask, read.length, read.dtype).attend(queries.bits, scale)


def test_a_lazy_read_shows_in_last_look_only():
    calls = "decode x3 ; decode x2"
    assert charged(run(f"ring window=3 look=every ; {calls}", LazyAdapter)) is None
    found = run(f"ring window=3 look=last ; {calls}", LazyAdapter)
    assert charged(found) is not None
    assert found[-1].divergences[0].clause == "OWN-1"
    first = found[-1].divergences[0]
    assert (first.expected, first.observed) == ("sees t1", "sees t4")


def test_with_last_look_nothing_is_shown_before_the_end():
    steps = run("full look=last ; window 2 ; decode ; clone as c ; state as s")
    calls = [(step.call.verb, step.call.on) for step in steps if step.call is not None]
    assert calls[4:] == [("look", "c0"), ("attend", "read1"), ("attend", "read2"), ("look", "c"), ("look", "s")]
    assert all(step.record.after is None and step.record.read is None for step in steps[1:5])
    assert steps[5].record.after is not None
    assert steps[6].record.read is not None


class Borrower(Cache):
    """Keeps the caller's own arrays when the cache is empty."""

    def _append(self, *arguments: Any) -> Read:  # pyright: ignore[reportIncompatibleMethodOverride] # all are handed on
        keys, values = arguments[0], arguments[1]
        empty = self.planes is None
        read = super()._append(*arguments)
        if empty:
            self.planes = Planes(keys, values)
        return read


@pytest.mark.parametrize("look", ["every", "last"])
def test_borrowed_arrays_show_with_poison_only(look: str):
    text = "ring window=4 look={} {} ; window 3 ; window 1"
    assert charged(run(text.format(look, ""), adapted(Borrower))) is None
    found = run(text.format(look, "poison"), adapted(Borrower))
    assert charged(found) is not None  # a session tells by control runs that it is OWN-8


class Shifted(Cache):
    """Shifts keys and values by one column when it is asked for a third position."""

    def _append(self, *arguments: Any) -> Read:  # pyright: ignore[reportIncompatibleMethodOverride] # all are handed on
        read = super()._append(*arguments)
        if self.offset == 3 and self.planes is not None:
            return Read(np.roll(read.keys, 1, 2), np.roll(read.values, 1, 2), read.mask, read.length, read.dtype)
        return read


def test_a_walk_stops_at_the_first_divergence():
    steps = run("full ; window 2 ; decode ; decode ; decode", adapted(Shifted))
    assert charged(steps) == (2, "VIS-7")
    assert charged(run("full ; window 2 ; decode ; decode", adapted(Shifted), "core")) is None


class HalfHearted(ReferenceAdapter):
    """Trims the layers of a list one by one, whatever comes of it, and cannot be cloned."""

    capabilities = ReferenceAdapter.capabilities - {"clone"}

    def trim_layers(self, caches: Any, n: Any) -> int | None:
        return min([cache.trim(n) for cache in caches])

    def clone(self, cache: Any) -> Any:
        raise UnsupportedError


def test_a_list_that_stops_half_way_is_found():
    text = "full ; list full + ring window=2 as l ; window 3 on l ; trim 1 on l"
    assert charged(run(text)) is None
    found = run(text, HalfHearted)
    assert charged(found) is not None
    assert found[-1].divergences[0].clause in {"ERR-8", "POS-7", "TRIM-13"}
    assert found[-1].divergences[0].layer == 0


def test_a_call_that_the_subject_lacks_ends_the_trace_without_a_verdict():
    steps = run("full ; window 2 ; clone as c ; decode on c", HalfHearted)
    assert (len(steps), steps[-1].record.outcome, steps[-1].ends) == (3, "unsupported", True)
    assert (steps[-1].divergences, steps[-1].exercised) == ((), frozenset())


def test_tokens_count_on_but_not_over_refused_appends():
    steps = run("ring window=4 sinks=1 ; window 3 ; decode w=3 ; decode malformed=lengths ; decode")
    assert [step.record.tokens for step in steps[1:]] == [(1, 2, 3), (4,), (1000,), (4,)]
    assert steps[-1].record.live == (1, 2, 3, 4)


def test_spoilt_tokens_stand_far_above_good_ones():
    assert [spoilt_from(tokens) for tokens in (1, 899, 900, 8899, 8900)] == [1000, 1000, 9000, 9000, 9900]


class Greedy(ReferenceAdapter):
    """Stores what it refuses."""

    def append(self, cache: Any, keys: Any, values: Any, phase: Any, window: Any, array: Any) -> Any:
        if window == 0:
            super().append(cache, keys, values, phase, None, array)
        return super().append(cache, keys, values, phase, window, array)


def test_a_refused_call_that_changes_something_is_found_at_once():
    assert charged(run("full ; window 2 ; decode w=0", Greedy)) == (2, "ERR-1")
    late = run("full look=last ; window 2 ; decode w=0", Greedy)
    assert late[-1].divergences
    assert late[-1].call is not None
    assert late[-1].call.verb == "look"


class Forgetful(Cache):
    """Hands out the planes themselves as its state, and writes into them."""

    def take_state(self) -> Any:
        assert self.planes is not None
        return {"keys": self.planes.keys, "values": self.planes.values}

    def _append(self, *arguments: Any) -> Read:  # pyright: ignore[reportIncompatibleMethodOverride] # all are handed on
        held = self.planes
        read = super()._append(*arguments)
        if held is not None and self.planes is not None and held.keys.shape == self.planes.keys.shape:
            held.keys[...], held.values[...] = self.planes.keys, self.planes.values
            self.planes = held
        return read


def test_a_state_that_changes_is_found_when_it_is_looked_at_again():
    assert charged(run("ring window=4 ; decode ; state as s ; decode ; look s", adapted(Forgetful))) == (4, "OWN-4")
    steps = run("ring window=4 look=last ; decode ; state as s ; decode", adapted(Forgetful))
    assert "OWN-4" not in frozenset().union(*(step.exercised for step in steps))  # nothing to compare with


class LiveMasks(ReferenceAdapter):
    """Hands out masks that it flips with the next append."""

    handed: Any = None

    def mask(self, cache: Any, length: Any, phase: Any, window: Any, array: Any) -> Any:
        self.handed = super().mask(cache, length, phase, window, array)
        return self.handed

    def append(self, cache: Any, keys: Any, values: Any, phase: Any, window: Any, array: Any) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        if self.handed is not None:
            self.handed[...] = ~self.handed
        return read


@pytest.mark.parametrize("look", ["every", "last"])
def test_a_mask_that_changes_is_found_in_both_looks(look: str):
    steps = run(f"ring window=2 look={look} ; window 3 ; mask 2 window as m ; window 2 ; look m", LiveMasks)
    found = charged(steps)
    assert found is not None
    assert found[1] == "OWN-6"


class Wild(ReferenceAdapter):
    """Raises, or answers nonsense, at the third position."""

    how: str = ""

    def fetched(self, read: Any) -> Any:
        keys, values = read.keys, read.values
        if keys.shape[2] < 3:
            return keys, values
        if self.how == "raise":
            raise RuntimeError("no kernel")
        return {"none": None, "one": (keys,), "rank": (keys[0], values[0]), "short": (keys[..., :8], values)}[self.how]


@pytest.mark.parametrize("how", ["raise", "none", "one", "rank", "short"])
def test_whatever_a_cache_shows_is_a_result(how: str):
    steps = run("full ; window 2 ; decode ; decode", type("Wild", (Wild,), {"how": how}))
    if how == "none":
        assert charged(steps) is None  # it may leave out what it cannot show
        assert steps[2].record.read is not None
        assert steps[2].record.read.visible is None
    else:
        assert charged(steps) is not None
        assert len(steps) == 3


@pytest.mark.parametrize("text", ["full ; decode on c9", "full ; attend c0", "full ; state as s ; attend s"])
def test_a_trace_that_names_nothing_is_refused_by_name(text: str):
    with pytest.raises(UnknownObjectError, match=r"'(c9|c0|s)'"):
        run(text)


def test_stamps_are_shared_by_configurations_of_one_shape():
    assert stamper_of(Config("ring", window=4, look="last")) is stamper_of(Config("full", poison=True))
    assert stamper_of(Config("full", seed=1)) is not stamper_of(Config("full"))


def test_arithmetic_is_compared_on_random_data_alone():
    for stamp, reads in (("random", 3), ("code", 0)):
        lockstep = Lockstep(AdapterSubject(ReferenceAdapter()), "layout", frozenset({"POS-2"}), arithmetic=True)
        lockstep.run(parse(f"ring window=3 stamp={stamp} ; window 2 ; decode x2").trace)
        assert (lockstep.arithmetic.reads, lockstep.arithmetic.different) == (reads, 0)


class OneBit(ReferenceAdapter):
    """Answers with one bit off."""

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        return super().attend(read, queries, scale) ^ np.uint16(1)


def test_a_bit_of_difference_counts_but_is_no_divergence_on_random_data():
    lockstep = Lockstep(AdapterSubject(OneBit()), "layout", frozenset(load_clauses()), arithmetic=True)
    assert charged(lockstep.run(parse("full stamp=random ; window 2 ; decode").trace)) is None
    assert (lockstep.arithmetic.reads, lockstep.arithmetic.different) == (2, 2)
    assert charged(run("full ; window 2", OneBit)) == (1, "READ-3")


class Littered(Cache):
    """Leaves 3.0 in the spare columns that it allocates, which nobody sees (chapter 0)."""

    def settle(self) -> None:
        if self.planes is not None and self.codec is None and self.offset == 1:
            self.planes = self.planes.each(np.copy)
            for plane in (self.planes.keys, self.planes.values):
                plane[:, :, self.write_index :] = 0x4040
        super().settle()


class Swept(Littered):
    """Littered as well, and converts the spare columns as if zeros had stood in them."""

    def settle(self) -> None:
        if self.planes is not None and self.due_at(self.offset) and self.codec is None:
            self.planes = self.planes.each(np.copy)
            for plane in (self.planes.keys, self.planes.values):
                plane[:, :, self.write_index :] = 0
        super().settle()


class Emptied(Cache):
    """Leaves words, scales and biases of 0 in the spare columns when it converts."""

    def settle(self) -> None:
        before = self.codec
        super().settle()
        if self.planes is not None and self.codec is not before and self.layer.start is not None:
            self.planes = self.planes.each(np.copy)
            for plane in (self.planes.keys, self.planes.values):
                plane[:, :, self.write_index :] = 0


@pytest.mark.parametrize("kind", ["full", "ring window=4"])
@pytest.mark.parametrize(
    ("cache", "modelled", "clause"),
    [
        (Cache, True, None),
        (Emptied, True, "PREC-9"),
        (Emptied, False, "PREC-9"),  # the codes of zeros are the same everywhere
        (Littered, True, None),
        (Swept, True, "PREC-9"),
        (Swept, False, None),  # what 3.0 becomes is known where the arithmetic is
    ],
)
def test_a_spare_column_becomes_the_codes_of_what_stood_in_it(
    kind: str, cache: type[Cache], modelled: bool, clause: str | None
):
    every = frozenset(load_clauses().of_profile("layout").by_id)
    lockstep = Lockstep(AdapterSubject(adapted(cache)()), "layout", every, arithmetic=modelled)
    steps = lockstep.run(parse(f"{kind} bits=4 start=2 ; decode x2 ; decode").trace)
    assert (charged(steps) or (0, None))[1] == clause
    assert len(steps) == (3 if clause else 4)


def test_spare_columns_that_nobody_saw_before_are_not_judged():
    assert charged(run("full bits=4 start=2 ; window 2 ; decode", adapted(Emptied))) is None
    assert charged(run("ring window=4 bits=4 start=1 ; decode x2", adapted(Emptied))) is None


# Known appends, query by query.


class Bent(ReferenceAdapter):
    """Answers the last query of a known append with one bit off, and each query alone rightly."""

    def append(self, cache: Any, keys: Any, values: Any, phase: Any, window: Any, array: Any) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        if phase == "known":
            self.bent = read
        return read

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        answer = super().attend(read, queries, scale)
        if read is getattr(self, "bent", None):
            answer[:, -1, -1, 0] ^= 1
        return answer


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("full stamp=random ; window 2 ; known 3", 2),
        ("ring window=2 bits=4 stamp=random ; window 3 ; known 2 array", 2),
        ("full dtype=f32 stamp=random batch=2 ; known 1", 1),
        ("full stamp=random ; known 2 unread as r ; attend r", 2),
        ("full stamp=random look=last ; known 2", 3),  # the read is asked after the cache was looked at
    ],
)
def test_one_bit_of_one_query_of_a_known_append_is_found(text: str, at: int):
    steps = run(text, Bent)
    assert charged(steps) == (at, "READ-13")
    read = steps[-1].record.read
    assert read is not None
    assert read.apart is not None
    assert len(read.apart) == 1
    assert steps[-1].divergences[0].query == read.apart[0]
    assert run(text)[-1].divergences == ()


def test_a_known_append_to_a_list_is_compared_layer_by_layer():
    text = "full stamp=random ; list full + ring window=2 as l ; window 3 on l ; known 2 on l"
    steps = run(text, Bent)
    assert charged(steps) == (3, "READ-13")
    assert steps[-1].divergences[0].layer == 1  # it bends the read that it made last
    assert [step.layers[1].read.apart for step in run(text)[-1:] if step.layers[1].read] == [()]


@pytest.mark.parametrize("name", ["known-spans-are-one-piece", "known-spans-are-tiled"])
def test_other_arithmetic_for_known_appends_is_found_by_that_comparison_alone(name: str):
    planted = load_faults()[name]
    every = frozenset(load_clauses().of_profile("layout").by_id)
    assert charged(Lockstep(subject(name), "layout", every).run(planted.trace)) == (1, "READ-13")
    assert charged(Lockstep(subject(name), "layout", every - {"READ-13"}).run(planted.trace)) is None


class Whole(ReferenceAdapter):
    """Attends known appends as a whole only."""

    def attend_alone(self, read: Any, queries: Any, scale: float, mask: Any) -> Any:
        raise UnsupportedError


def test_where_no_query_can_be_asked_alone_nothing_is_said_of_it():
    for adapter, exercised in ((Whole, False), (ReferenceAdapter, True)):
        last = run("full ; window 2 ; known 2", adapter)[-1]
        assert last.record.read is not None
        assert last.record.read.apart == (() if exercised else None)
        assert ("READ-13" in last.exercised) == exercised
        assert {"READ-3", "READ-12"} <= last.exercised
    assert run("full ; window 2")[-1].record.read.apart is None  # type: ignore[reportOptionalMemberAccess] # it has one


def test_a_mask_that_was_asked_for_beforehand_foretells_a_known_append():
    assert "MASK-12" in run("ring window=3 ; window 3 ; mask 2 window ; known 2")[-1].exercised
    assert "MASK-12" not in run("ring window=3 ; window 3 ; mask 1 decode ; known 1")[-1].exercised


def test_the_history_of_a_run_tells_what_laws_ask():
    lockstep = Lockstep(AdapterSubject(ReferenceAdapter()), "layout", frozenset())
    lockstep.run(parse("ring window=3 ; window 4 ; clone as c ; decode on c").trace)
    told = lockstep.history()
    assert told.opened == "ok"
    assert [s.live for s in told.steps] == [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4, 5)]
    assert told.steps[2].live_before == (1, 2, 3, 4)
    before = told.steps[2].before
    assert before is not None
    assert before.held == (1, 2, 3, 4)
