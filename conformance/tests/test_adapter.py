"""The world behind a subject, and what it makes of caches that raise, hang, print, leave or answer nonsense."""

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from kvlaw.conformance import Adapter
from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.guard import Patience, guarded
from kvlaw.conformance.interface import NonsenseError, UnsupportedError
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.stamps import spoil, spoil_queries
from kvlaw.conformance.staying import STRAYED
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.timelimit import TimeLimitError, time_limit
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
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import Observation, Payload, StateView
from kvlaw.spec.text_form import parse

CONFIG = Config("full", dtype="f32", kv_heads=1, groups=1, head_dim=32, value_dim=32)


def payload(length: int, first: float = 1.0) -> Payload:
    """Columns of 1.0, 2.0, ... as float32 bits, keys and values alike, and as many queries of zeros."""
    numbers = np.arange(first, first + length, dtype=np.float32)
    planes = np.ascontiguousarray(np.broadcast_to(numbers[None, None, :, None], (1, 1, length, 32)))
    bits = planes.view(np.uint32)
    return Payload(tuple(range(1, length + 1)), bits, bits.copy(), np.zeros_like(bits), "f32")


class Growing(Adapter):
    """A plain growing cache: a list of arrays of bits; each test spoils one method."""

    capabilities = frozenset({"attend", "mask", "dense", "trim", "clone", "state", "reset", "lists", "size"})

    def build(self, layer: LayerSpec) -> Any:
        return {"keys": np.zeros((1, 1, 0, 32), np.uint32), "values": np.zeros((1, 1, 0, 32), np.uint32)}

    def tensor(self, bits: Any, dtype: str) -> Any:
        return bits.copy()

    def bits(self, array: Any) -> Any:
        return np.array(array)

    def append(self, cache: Any, keys: Any, values: Any, phase: Any, window: Any, array: Any) -> Any:
        if keys.shape[1] != 1:
            raise ValueError("one head only")
        cache["keys"] = np.concatenate([cache["keys"], keys], 2)
        cache["values"] = np.concatenate([cache["values"], values], 2)
        return {**cache, "mask": None if phase == "decode" else "causal"}

    def fetched(self, read: Any) -> Any:
        return read["keys"], read["values"]

    def read_mask(self, read: Any) -> Any:
        return read["mask"]

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        if queries.ndim != 4 or queries.shape[1] != 1:
            raise ValueError("no such queries")
        return queries

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> Any:
        return self.fetched(self.append(cache, keys, values, "window", None, False))

    def mask(self, cache: Any, length: int, phase: Any, window: Any, array: Any) -> Any:
        return "causal"

    def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
        held = cache["keys"].shape[2]
        if n > held:
            raise ValueError(f"{n} of {held}")
        cache["keys"], cache["values"] = cache["keys"][:, :, : held - n], cache["values"][:, :, : held - n]
        return n

    def clone(self, cache: Any) -> Any:
        return dict(cache)

    def state(self, cache: Any) -> Any:
        return dict(cache)

    def reset(self, cache: Any) -> None:
        cache.update(self.build(LayerSpec("full")))

    def trim_layers(self, caches: list[Any], n: Any) -> Any:
        return min(self.trim(cache, n, False) for cache in caches)

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        return all(n <= cache["keys"].shape[2] for cache in caches)

    def show(self, cache: Any) -> StateView:
        held = cache["keys"].shape[2]
        return StateView(offset=held, size=held)


def opened(adapter: Adapter | None = None, seconds: float = 5.0) -> AdapterSubject:
    subject = AdapterSubject(adapter or Growing(), seconds)
    assert subject.open(CONFIG).ok
    return subject


def spoilt(**methods: Any) -> Growing:
    """A growing adapter in which methods are replaced; each gets the arguments without ``self``."""
    adapter = Growing()
    for name, method in methods.items():
        setattr(adapter, name, method)
    return adapter


def raising(error: BaseException) -> Any:
    def method(*_arguments: Any) -> Any:
        raise error

    return method


def leaving(*_arguments: Any) -> Any:
    os._exit(0)


def answering(value: Any) -> Any:
    def method(*_arguments: Any) -> Any:
        return value

    return method


def column(bits: Any) -> list[float]:
    """The first element of each column of head 0, as numbers."""
    return bits[0, 0, :, 0].view(np.float32).tolist()


# What calls do.


def test_an_append_shows_the_fetch_the_mask_the_output_and_the_state() -> None:
    subject = opened()
    seen = subject.apply(AppendWindow(length=2), payload(2), look=True)
    assert seen.ok
    assert seen.read is not None
    assert column(seen.read.keys) == [1.0, 2.0]
    assert seen.read.mask is not None
    assert seen.read.mask.kind == "causal"
    assert seen.read.output is not None
    assert seen.read.output.shape == (1, 1, 2, 32)
    assert seen.state is not None
    assert (seen.state.offset, seen.state.size, seen.state.nbytes) == (2, 2, None)


def test_without_look_nothing_is_shown_and_no_read_is_asked() -> None:
    adapter = spoilt(fetched=raising(AssertionError("asked")), show=answering(StateView()))
    subject = opened(adapter)
    adapter.show = raising(AssertionError("shown"))
    assert subject.apply(AppendDecode(as_="r1"), payload(1), look=False) == Observation_of_nothing()
    assert subject.apply(Trim(n=1), None, look=False).answer == 1


class Observation_of_nothing:  # noqa: N801  # reads as a value
    """Equal to a successful observation that shows nothing."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Observation) and other.ok and (other.read, other.state, other.layers) == (None, None, ())
        )


def test_an_unread_append_shows_no_read_but_the_state() -> None:
    seen = opened().apply(AppendDecode(unread=True), payload(1), look=True)
    assert seen.read is None
    assert seen.state is not None
    assert seen.state.offset == 1


def test_objects_are_kept_by_name() -> None:
    subject = opened()
    subject.apply(AppendWindow(length=2, as_="r1"), payload(2), look=True)
    subject.apply(Clone(as_="c1"), None, look=True)
    subject.apply(TakeState(as_="s1"), None, look=True)
    subject.apply(AppendDecode(on="c1"), payload(1, first=9.0), look=True)
    assert subject.apply(LookAt(on="c0"), None, look=True).state == StateOf(2)
    assert subject.apply(LookAt(on="c1"), None, look=True).state == StateOf(3)
    arrays = subject.apply(LookAt(on="s1"), None, look=True).arrays
    assert arrays is not None
    assert column(arrays["keys"]) == [1.0, 2.0]
    again = subject.apply(Attend(on="r1"), None, look=True).read
    assert again is not None
    assert column(again.keys) == [1.0, 2.0]
    assert again.output is not None, "a read is asked again with the queries of its append"
    assert subject.apply(Drop(on="r1"), None, look=True).ok
    gone = subject.apply(Attend(on="r1"), None, look=True)
    assert gone.outcome == "error"
    assert "'r1'" in gone.message


class StateOf:
    """Equal to a state view of that offset."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateView) and other.offset == self.offset


def test_opening_again_forgets_the_world() -> None:
    subject = opened()
    subject.apply(AppendDecode(as_="r1"), payload(1), look=True)
    subject.open(CONFIG)
    assert list(subject.world) == ["c0"]
    assert subject.apply(LookAt(), None, look=True).state == StateOf(0)


def test_handed_out_arrays_are_the_caches_own() -> None:
    """A cache that changes what it handed out is seen to do so: nothing is copied on the way."""
    subject = opened()
    subject.apply(FetchDense(length=2, as_="d1"), payload(2), look=True)
    subject.world["c0"]["keys"][...] = 0
    arrays = subject.apply(LookAt(on="d1"), None, look=True).arrays
    assert arrays is not None
    assert column(arrays["keys"]) == [0.0, 0.0]


def test_poison_overwrites_the_arrays_that_were_given() -> None:
    given: list[Any] = []

    def poison(array: Any) -> None:
        given.append(array)
        array[...] = 0

    def borrow(_cache: Any, keys: Any, values: Any, *_: Any) -> Any:
        return {"keys": keys, "values": values, "mask": None}

    adapter = spoilt(poison=poison, append=borrow)
    subject = AdapterSubject(adapter)
    subject.open(evolve(CONFIG, poison=True))
    seen = subject.apply(AppendDecode(), payload(1), look=True)
    assert len(given) == 2
    assert seen.read is not None
    assert column(seen.read.keys) == [0.0], "a cache that keeps the caller's arrays shows it"


def test_a_list_acts_as_one_and_shows_every_layer() -> None:
    subject = opened()
    listed = OpenList(layers=(LayerSpec("full"), LayerSpec("full")), as_="l0")
    assert [o.state for o in subject.apply(listed, None, look=True).layers] == [StateOf(0), StateOf(0)]
    seen = subject.apply(AppendWindow(length=3, on="l0", as_="r1"), payload(3), look=True)
    assert [o.state for o in seen.layers] == [StateOf(3), StateOf(3)]
    assert [column(o.read.keys) for o in seen.layers if o.read] == [[1.0, 2.0, 3.0]] * 2
    assert seen.state is not None
    assert seen.state.can_trim == (True, True, True, True, False)
    assert subject.apply(Trim(n=2, on="l0"), None, look=True).answer == 2
    again = subject.apply(Attend(on="r1"), None, look=True)
    assert [column(o.read.keys) for o in again.layers if o.read] == [[1.0, 2.0, 3.0]] * 2
    refused = subject.apply(Trim(n=5, on="l0"), None, look=True)
    assert refused.refused
    assert [o.state for o in refused.layers] == [StateOf(1), StateOf(1)]


# Refusals, errors, and what is unsupported.


def test_a_refused_call_shows_the_state_that_it_left_behind() -> None:
    subject = opened()
    subject.apply(AppendWindow(length=2), payload(2), look=True)
    seen = subject.apply(Trim(n=3), None, look=True)
    assert (seen.outcome, seen.message) == ("refused", "ValueError: 3 of 2")
    assert seen.state == StateOf(2)
    assert subject.apply(Trim(n=3), None, look=False).state is None


@pytest.mark.parametrize(
    ("spoil", "call", "outcome", "named"),
    [
        ({"append": raising(RuntimeError("two\nlines"))}, AppendDecode(), "refused", "RuntimeError: two lines"),
        ({"append": raising(UnsupportedError())}, AppendDecode(), "unsupported", "no such call"),
        ({"append": raising(SystemExit(3))}, AppendDecode(), "error", "sys.exit(3)"),
        ({"append": leaving}, AppendDecode(), "error", "the target called os._exit(0)"),
        ({"fetched": leaving}, AppendDecode(), "error", "the target called os._exit(0)"),
        ({"append": raising(NonsenseError("a hat"))}, AppendDecode(), "error", "a hat"),
        ({"fetched": raising(KeyError("keys"))}, AppendDecode(), "error", "the fetch: KeyError: 'keys'"),
        ({"fetched": answering((1, 2, 3))}, AppendDecode(), "error", "the fetch: a tuple of 3 instead of keys"),
        ({"fetched": answering(7)}, AppendDecode(), "error", "the fetch: 7 instead of keys and values"),
        ({"bits": raising(TypeError("no array"))}, AppendDecode(), "error", "the fetched keys: TypeError: no array"),
        ({"dtype_of": answering("f16")}, AppendDecode(), "error", "the fetched keys: f16 instead of f32"),
        ({"read_mask": answering("full")}, AppendDecode(), "error", "the mask: 'full' is no mask"),
        ({"read_mask": answering(np.ones(1))}, AppendDecode(), "error", "the mask: an array of float64"),
        ({"attend": raising(ValueError("shapes"))}, AppendDecode(), "error", "the output: ValueError: shapes"),
        ({"fetch_dense": answering(None)}, FetchDense(length=1), "error", "None instead of keys and values"),
        ({"bits": answering("bits")}, AppendDecode(), "error", "the fetched keys: 'bits' instead of an array of bits"),
        ({"bits": answering(np.array(["a"]))}, AppendDecode(), "error", "an array of <U1 instead of an array of bits"),
        ({"mask_array": answering(7), "read_mask": answering([1])}, AppendDecode(), "error", "the mask: 7 instead of"),
        ({"state": answering({1: object()}), "bits": answering(None)}, TakeState(as_="s"), "error", "1: None instead"),
        ({"show": answering({"offset": 1})}, AppendDecode(), "error", "the state: a dict instead of a StateView"),
        ({"show": answering(None)}, AppendDecode(), "error", "the state: None instead of a StateView"),
        ({"trim": answering("all")}, Trim(n=0), "error", "'all' is no whole number"),
        ({"trim": answering(0.5)}, Trim(n=0), "error", "0.5 is no whole number"),
        ({"mask": answering("causal")}, MakeMask(length=1, window=2), "unsupported", "window_argument"),
        ({"capabilities": frozenset()}, Trim(n=0), "unsupported", "lacks trim"),
        ({"capabilities": frozenset()}, Clone(as_="c1"), "unsupported", "lacks clone"),
        ({"capabilities": frozenset()}, TakeState(as_="s1"), "unsupported", "lacks state"),
        ({"capabilities": frozenset()}, Reset(), "unsupported", "lacks reset"),
        ({"capabilities": frozenset()}, FetchDense(length=1), "unsupported", "lacks dense"),
        ({"capabilities": frozenset()}, MakeMask(length=1), "unsupported", "lacks mask"),
        ({"capabilities": frozenset()}, OpenList(layers=(LayerSpec("full"),), as_="l0"), "unsupported", "lacks lists"),
        ({}, AppendDecode(array=True), "unsupported", "lacks as_array"),
        ({}, Trim(n=0, bypass=True), "unsupported", "lacks bypass"),
        ({}, AppendDecode(on="c9"), "error", "'c9'"),
    ],
)
def test_whatever_a_cache_does_is_an_observation(spoil: dict[str, Any], call: Any, outcome: str, named: str) -> None:
    subject = opened()
    for name, method in spoil.items():
        setattr(subject.adapter, name, method)
    seen = subject.apply(call, payload(1), look=True)
    assert seen.outcome == outcome
    assert named in seen.message


@pytest.mark.parametrize("child", [answering(None), raising(ValueError("in the child")), raising(SystemExit(0))])
def test_a_child_that_comes_out_of_the_call_in_which_it_was_forked_ends_there(child: Any) -> None:
    """It would play the rest of the check beside us, and write into the same reports."""
    children: list[int] = []

    def append(*_arguments: Any) -> Any:
        if pid := os.fork():
            children.append(pid)
            return None
        return child()

    before, subject = os.getpid(), opened(spoilt(append=append))
    subject.apply(AppendDecode(), payload(1), look=True)
    if os.getpid() != before:  # pytest must not go on twice
        os._exit(0)
    ((_, status),) = [os.waitpid(pid, 0) for pid in children]
    assert os.waitstatus_to_exitcode(status) == STRAYED
    assert os._exit.__module__ == "posix"


@pytest.mark.parametrize("n", [1.5, 3, -1])
def test_a_list_is_asked_for_every_trim(n: float) -> None:
    """Also for one by no whole number, which only the cache itself can refuse."""
    asked: list[float] = []

    def trim_layers(caches: list[Any], count: Any) -> int:
        asked.append(count)
        raise ValueError(f"trim of {count}")

    subject = opened(spoilt(trim_layers=trim_layers))
    subject.apply(OpenList(layers=(LayerSpec("full"),), as_="l0"), None, look=True)
    assert subject.apply(Trim(n=n, on="l0"), None, look=True).refused
    assert asked == [n]


def test_a_list_is_trimmed_without_a_bypass() -> None:
    subject = opened(spoilt(capabilities=Growing.capabilities | {"bypass"}))
    subject.apply(OpenList(layers=(LayerSpec("full"),), as_="l0"), None, look=True)
    assert subject.apply(Trim(n=1, bypass=True, on="l0"), None, look=True).outcome == "unsupported"


def test_a_build_that_raises_is_a_refusal_and_sinks_need_the_capability() -> None:
    assert AdapterSubject(spoilt(build=raising(MemoryError()))).open(CONFIG).refused
    assert AdapterSubject(Growing()).open(Config("ring", 4, 1)).outcome == "unsupported"


def test_a_state_that_cannot_be_shown_is_an_error_of_showing() -> None:
    subject = opened()
    subject.adapter.show = raising(ZeroDivisionError("size"))
    seen = subject.apply(AppendDecode(), payload(1), look=True)
    assert (seen.outcome, seen.message) == ("error", "the state: ZeroDivisionError: size")


def test_an_attention_that_fails_on_a_misfitting_mask_is_shown_by_the_mask() -> None:
    wide = np.ones((1, 5), np.bool_)
    subject = opened(spoilt(attend=raising(ValueError("broadcast")), read_mask=answering(wide)))
    seen = subject.apply(AppendDecode(), payload(1), look=True)
    assert seen.ok
    assert seen.read is not None
    assert seen.read.output is None
    assert seen.read.mask is not None
    assert seen.read.mask.array is not None
    assert seen.read.mask.array.shape == (1, 5)


def test_spoilt_tensors_that_are_accepted_show_nothing() -> None:
    seen = opened().apply(AppendWindow(length=2, malformed="rank"), spoil(payload(2), "rank", False), look=True)
    assert seen.refused, "a concatenation of other ranks fails"
    seen = opened().apply(AppendWindow(length=2, malformed="dtype"), spoil(payload(2), "dtype", False), look=True)
    assert seen == Observation_of_nothing()


@pytest.mark.parametrize("how", ["rank", "heads"])
def test_spoilt_queries_reach_the_read(how: Any) -> None:
    two_heads = evolve(CONFIG, kv_heads=2)
    subject = AdapterSubject(ReferenceAdapter())
    subject.open(two_heads)
    both = payload(1)
    doubled = evolve(
        both, keys=both.keys.repeat(2, 1), values=both.values.repeat(2, 1), queries=both.queries.repeat(2, 1)
    )
    subject.apply(AppendDecode(as_="r1"), doubled, look=True)
    assert subject.apply(Attend(on="r1", malformed=how), spoil_queries(doubled, how), look=True).refused
    assert subject.apply(Attend(on="r1"), doubled, look=True).ok


def test_one_kv_head_takes_any_number_of_query_heads() -> None:
    subject = opened()
    subject.apply(AppendDecode(as_="r1"), payload(1), look=True)
    assert subject.apply(Attend(on="r1", malformed="heads"), None, look=True).outcome == "unsupported"


def test_a_call_that_the_target_lacks_ends_its_trace_without_a_divergence() -> None:
    class NoTrim(ReferenceAdapter):
        capabilities = ReferenceAdapter.capabilities - {"trim"}

    run = Lockstep(AdapterSubject(NoTrim()), "layout", frozenset(load_clauses().by_id))
    steps = run.run(parse("full ; window 4 ; trim 2 ; decode").trace)
    assert [step.record.outcome for step in steps] == ["ok", "ok", "unsupported"]
    assert not any(step.divergences for step in steps)


# The guard.


def test_a_call_that_hangs_is_interrupted_and_the_next_one_works() -> None:
    def hang(*_: Any) -> Any:
        while True:
            with contextlib.suppress(Exception):  # the limit must pass a cache that swallows errors
                time.sleep(20)

    adapter = spoilt(append=hang)
    subject = opened(adapter, seconds=0.05)
    started = time.monotonic()
    seen = subject.apply(AppendDecode(), payload(1), look=True)
    assert time.monotonic() - started < 5
    assert (seen.outcome, seen.message) == ("error", "no answer within 0.05 s")
    del adapter.append
    assert subject.apply(AppendDecode(), payload(1), look=True).ok


def test_after_the_first_hang_calls_get_little_more_than_the_slowest_that_was_answered() -> None:
    patience = Patience(1.0)
    assert patience.guarded(Observation).ok
    assert patience.limit == 1.0, "nothing has hung yet"
    started = time.monotonic()
    assert patience.guarded(lambda: time.sleep(20) or Observation()).outcome == "error"
    assert patience.limit == 0.25
    assert (
        patience.guarded(lambda: time.sleep(20) or Observation()).message
        == "no answer within 0.25 s (cut from 1 s: it hung before)"
    )
    assert time.monotonic() - started < 5
    assert patience.guarded(lambda: time.sleep(0.1) or Observation()).ok
    assert 0.5 <= patience.limit <= 1.0, "5 times a tenth of a second"
    assert Patience(0.05, hung=True).limit == 0.05, "never longer than was said"


def test_the_limit_leaves_an_outer_timer_running() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with time_limit(5):
            time.sleep(0.05)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 0.25
        time.sleep(0.4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung == [signal.SIGALRM]


def test_the_limit_is_no_exception_that_a_cache_would_swallow() -> None:
    assert not issubclass(TimeLimitError, Exception)


def press(*_: Any) -> None:
    """Interrupt as Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def press_and_swallow(*_: Any) -> None:
    """Interrupt a call that makes nothing of it."""
    with contextlib.suppress(KeyboardInterrupt):
        press()


@pytest.mark.parametrize("how", [press, press_and_swallow])
def test_the_users_interrupt_passes(how: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        opened(spoilt(append=how)).apply(AppendDecode(), payload(1), look=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_of_the_caches_own_is_its_error() -> None:
    for error in (KeyboardInterrupt(), GeneratorExit("gone"), Leaving("home")):
        seen = opened(spoilt(append=raising(error))).apply(AppendDecode(), payload(1), look=True)
        assert seen.outcome == "error"
        assert type(error).__name__ in seen.message


class Leaving(BaseException):
    """Flies through every except Exception."""


def test_a_handler_of_somebody_elses_decides_what_an_interrupt_is() -> None:
    told: list[int] = []

    def tell(number: int, _frame: object) -> None:
        told.append(number)

    def show(_cache: Any) -> StateView:
        press()
        return StateView(offset=0)

    before = signal.signal(signal.SIGINT, tell)
    try:
        assert opened(spoilt(show=show)).apply(LookAt(), None, look=True).ok
        assert signal.getsignal(signal.SIGINT) is tell
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == [signal.SIGINT] * 2  # once when it was opened, once when it was looked at


def test_an_interrupt_in_another_thread_is_its_own() -> None:
    seen: list[Observation] = []
    subject = opened(spoilt(append=raising(KeyboardInterrupt())))
    thread = threading.Thread(target=lambda: seen.append(subject.apply(AppendDecode(), payload(1), look=True)))
    thread.start()
    thread.join()
    assert seen[0].outcome == "error"


def test_what_a_cache_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def act() -> Observation:
        print("noise")  # noqa: T201  # as a cache would
        return Observation()

    assert guarded(1.0, act).ok
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "noise" in captured.err
    assert sys.stdout is not sys.stderr
