"""Make a failing trace short: drop calls, merge neighbours, lower numbers, greedy, to a fixpoint.

It works on the trace itself, so it serves Hypothesis, stored failures, processes and bulk campaigns alike. ``fails``
says whether a candidate still fails in the same way; ``minimise`` never asks about a trace that names an object before
it exists.
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
from attrs import evolve, frozen

from kvlaw.conformance.minimise_rounds import fewer_rounds, simpler_round_call, smaller_rounds
from kvlaw.conformance.minimise_rows import fewer_rows, simpler_row_call
from kvlaw.spec.calls import (
    Append,
    AppendDecode,
    AppendKnown,
    AppendWindow,
    Attend,
    BeginPrefill,
    Call,
    Clone,
    CommitPrefill,
    CompiledDecode,
    Drop,
    EndPrefill,
    Extract,
    FetchDense,
    Filter,
    Finalize,
    HandBack,
    Load,
    LookAt,
    MakeCache,
    Merge,
    OpenList,
    Prepare,
    Publish,
    Reuse,
    Save,
    SpoilFile,
    Trim,
)
from kvlaw.spec.config import Config
from kvlaw.spec.trace import Trace

Fails = Callable[[Trace], bool]
_BLOCKS = (AppendKnown, AppendWindow, FetchDense)


@frozen
class Minimised:
    """A shortest trace, how many candidates were tried, and whether the limit on them was reached."""

    trace: Trace
    tried: int
    complete: bool


def minimise(trace: Trace, fails: Fails, most: int = 600, fixed: frozenset[str] = frozenset()) -> Minimised:
    """Shorten ``trace`` while it fails, trying at most ``most`` candidates; ``fixed`` fields stay as they are."""
    tried, seen = 0, {trace}
    moved = True
    while moved:
        moved = False
        for candidate in _candidates(trace, fixed):
            if candidate in seen or not is_sound(candidate):
                continue
            if tried >= most:
                return Minimised(trace, tried, complete=False)
            seen.add(candidate)
            tried += 1
            if fails(candidate):
                trace, moved = candidate, True
                break
    return Minimised(trace, tried, complete=True)


def is_sound(trace: Trace) -> bool:
    """Tell whether every call names an object that exists at that point and can be asked so."""
    kinds = {"c0": "group" if trace.config.is_rows else "cache"}
    for call in trace.calls:
        if isinstance(call, OpenList | MakeCache | Merge):
            if any(kinds.get(name) not in ("cache", "group") for name in acted_on(call)):
                return False
            kinds[call.as_] = _MAKES[call.verb]
            continue
        kind = kinds.get(call.on)
        if kind is None or (kind in ("read", "arrays") and not isinstance(call, (Attend, LookAt, Drop))):
            return False
        if isinstance(call, _OF_GROUPS) and kind != "group":
            return False
        if isinstance(call, Attend) and kind != "read":
            return False
        if not _is_sound_of_files(call, kind):
            return False
        _note(call, kind, kinds)
    return True


_MAKES = {"list": "list", "cache": "cache", "merge": "group", "extract": "cache", "hand_back": "cache"}
_OF_GROUPS = (Extract, HandBack, Filter, Prepare, Finalize, BeginPrefill, CommitPrefill, EndPrefill)


_FILE, _SPOILT = "file of a ", "spoilt file of a "
"""What the kind of a file begins with; behind it stands what was saved."""


def _is_sound_of_files(call: Call, kind: str) -> bool:
    """Tell whether a call that has to do with a file has one, which is spoilt at most once, and no other call has."""
    if not kind.startswith((_FILE, _SPOILT)):
        stored = isinstance(call, Save | Publish | Reuse)
        return not isinstance(call, Load | SpoilFile) and (not stored or kind in ("cache", "list"))
    return isinstance(call, Load | LookAt | Drop) or (isinstance(call, SpoilFile) and kind.startswith(_FILE))


def acted_on(call: Call) -> tuple[str, ...]:
    """Name the objects that must be there for a call to be made."""
    if isinstance(call, Merge):
        return call.sources
    return () if isinstance(call, OpenList | MakeCache) else (call.on,)


def _note(call: Call, kind: str, kinds: dict[str, str]) -> None:
    name = getattr(call, "as_", None)
    if isinstance(call, Drop):
        kinds.pop(call.on)
    elif isinstance(call, SpoilFile):
        kinds[call.on] = kind.replace(_FILE, _SPOILT)
    elif isinstance(call, Save):
        kinds[call.as_] = _FILE + kind
    elif isinstance(call, Load):
        kinds[call.as_] = kind.removeprefix(_SPOILT).removeprefix(_FILE)
    elif name:
        made = kind if call.verb in ("clone", "reuse") else "read" if isinstance(call, Append) else "arrays"
        kinds[name] = _MAKES.get(call.verb, made)


def _candidates(trace: Trace, fixed: frozenset[str]) -> Iterator[Trace]:
    """List simpler traces, the boldest first."""
    yield from _shorter(trace)
    yield from fewer_rounds(trace)
    yield from fewer_rows(trace, fixed)
    yield from _simpler_config(trace, fixed)
    yield from _simpler_policy(trace, fixed)
    yield from _merged(trace)
    yield from _on_the_first(trace)
    yield from _without_clones(trace)
    yield from _simpler_calls(trace)
    yield from _around_the_window(trace)
    yield from _less_and_dropped(trace)
    yield from smaller_rounds(trace)
    if "window" not in fixed:
        yield from _lower_together(trace, fixed)


def _shorter(trace: Trace) -> Iterator[Trace]:
    calls = trace.calls
    size = len(calls)
    while size >= 1:
        for start in range(len(calls) - size, -1, -1):
            yield evolve(trace, calls=calls[:start] + calls[start + size :])
        size //= 2


def _merged(trace: Trace) -> Iterator[Trace]:
    calls = trace.calls
    for i in range(len(calls) - 1):
        one, other = calls[i], calls[i + 1]
        if one.on != other.on or not _plain(one) or not _plain(other):
            continue
        merged = AppendWindow(length=one.appends + other.appends, on=one.on)
        yield evolve(trace, calls=(*calls[:i], merged, *calls[i + 2 :]))


def _on_the_first(trace: Trace) -> Iterator[Trace]:
    """Ask the first cache what another one was asked."""
    named = (name for call in trace.calls for name in (*acted_on(call), call.on))
    for name in dict.fromkeys(name for name in named if name != "c0"):
        yield evolve(trace, calls=tuple(_renamed(call, name) for call in trace.calls))


def _without_clones(trace: Trace) -> Iterator[Trace]:
    """Ask what was cloned what its clone was asked."""
    for at, clone in enumerate(trace.calls):
        if isinstance(clone, Clone):
            rest = tuple(_renamed(call, clone.as_, clone.on) for call in trace.calls[at + 1 :])
            yield evolve(trace, calls=(*trace.calls[:at], *rest))


def _renamed(call: Call, name: str, to: str = "c0") -> Call:
    if isinstance(call, Merge):
        return evolve(call, sources=tuple(to if source == name else source for source in call.sources))
    return evolve(call, on=to) if call.on == name else call


def _plain(call: Call) -> bool:
    return isinstance(call, Append) and call.malformed is None and call.as_ is None


_SIMPLER: dict[str, tuple[Any, ...]] = {
    "look": ("every",),
    "poison": (False,),
    "stamp": ("code",),
    "dtype": ("bf16",),
    "batch": (1,),
    "kv_heads": (1, 2),
    "groups": (1, 2),
    "head_dim": (64,),
    "value_dim": (64,),
    "seed": (0,),
    "conv": (),
}
_DEFAULTS = {a.name: a.default for a in attrs.fields(Config)}


def _simpler_config(trace: Trace, fixed: frozenset[str]) -> Iterator[Trace]:
    config = trace.config
    for name, values in _SIMPLER.items():
        value = getattr(config, name)
        if name in fixed or value == _DEFAULTS[name]:
            continue
        for simpler in (_DEFAULTS[name], *values):
            if simpler != value and (
                simpler == _DEFAULTS[name] or name not in ("kv_heads", "groups") or simpler < value
            ):
                yield evolve(trace, config=evolve(config, **{name: simpler}))
    for window in () if "window" in fixed else _lower(config.window, 1):
        yield evolve(trace, config=evolve(config, window=window))
    for sinks in () if "sinks" in fixed else _lower(config.sinks, 0):
        yield evolve(trace, config=evolve(config, sinks=sinks))


def _simpler_policy(trace: Trace, fixed: frozenset[str]) -> Iterator[Trace]:
    """Take the storage policy away, or make it plainer: bits alike, groups of 64, a lower start."""
    config = trace.config
    if config.bits is None:
        return
    dense = {"bits": None, "value_bits": None, "group": 64, "start": None}
    start = config.start if isinstance(config.start, int) else None
    changes: list[dict[str, Any]] = [dense, {"value_bits": None}, {"bits": 4}, {"group": 64}]
    changes += [{"start": None}, *({"start": n} for n in _lower(start, 0))]
    for change in changes:
        if not fixed & change.keys():
            yield evolve(trace, config=evolve(config, **change))


def _simpler_calls(trace: Trace) -> Iterator[Trace]:
    for i, call in enumerate(trace.calls):
        for simpler in _simpler_call(call):
            yield _with(trace, i, simpler)


def _simpler_call(call: Call) -> Iterator[Call]:
    yield from simpler_row_call(call)
    yield from _shorter_prompt(call)
    yield from simpler_round_call(call)
    if isinstance(call, Append):
        for name, plain in (("malformed", None), ("unread", False), ("array", False), ("window", None), ("as_", None)):
            if getattr(call, name) != plain:
                yield evolve(call, **{name: plain})
        yield from (evolve(call, window=w) for w in _lower(call.window, 1))
    if isinstance(call, FetchDense) and call.malformed is None:
        yield AppendDecode(on=call.on) if call.length == 1 else AppendWindow(on=call.on, length=call.length)
    yield from _plainer_append(call)
    if isinstance(call, _BLOCKS):
        yield from (evolve(call, length=n) for n in _lower(call.length, 1))
    if isinstance(call, AppendWindow) and call.length == 1 and _plain(call):
        yield AppendDecode(on=call.on)
    if isinstance(call, Trim):
        yield from [evolve(call, bypass=False)] if call.bypass else []
        yield from (evolve(call, n=n) for n in (_lower(call.n, 1) if isinstance(call.n, int) and call.n > 0 else ()))
        yield from [evolve(call, n=-1)] if isinstance(call.n, int) and call.n < -1 else []
    if isinstance(call, OpenList) and len(call.layers) > 1:
        yield from (evolve(call, layers=call.layers[:j] + call.layers[j + 1 :]) for j in range(len(call.layers)))


def _shorter_prompt(call: Call) -> Iterator[Call]:
    if isinstance(call, Reuse) and len(call.tokens) > 1:
        yield from (evolve(call, tokens=call.tokens[:-1]), evolve(call, tokens=(*call.tokens[:-2], call.tokens[-1])))


def _plainer_append(call: Call) -> Iterator[Call]:
    """Give the append that does the same in the plain way: a decode, or a window."""
    if isinstance(call, CompiledDecode):
        yield AppendDecode(on=call.on, as_=call.as_, window=call.window, array=call.array, malformed=call.malformed)
    if isinstance(call, AppendKnown) and call.malformed is None:
        yield AppendWindow(on=call.on, length=call.length)


def _around_the_window(trace: Trace) -> Iterator[Trace]:
    """Shorten an append to one about as long as the window, or that ends at the same slot of a ring."""
    window = trace.config.window
    for at, call in enumerate(trace.calls if window else ()):
        if window and isinstance(call, _BLOCKS):
            lap, length = call.length % window, call.length
            lengths = (lap, window - 1, window, window + 1, window + 2, window + lap, 2 * window, length - window)
            for shorter in dict.fromkeys(n for n in lengths if 1 <= n < length):
                yield _with(trace, at, evolve(call, length=shorter))


def _less_and_dropped(trace: Trace) -> Iterator[Trace]:
    """Append one token less, and drop one less in a trim behind it."""
    for at, call in enumerate(trace.calls):
        if not isinstance(call, _BLOCKS) or call.length < 2:
            continue
        less = _with(trace, at, evolve(call, length=call.length - 1))
        for behind, trim in enumerate(trace.calls[at + 1 :], at + 1):
            if isinstance(trim, Trim) and type(trim.n) is int and trim.n > 1:
                yield _with(less, behind, evolve(trim, n=trim.n - 1))


def _with(trace: Trace, at: int, call: Call) -> Trace:
    return evolve(trace, calls=(*trace.calls[:at], call, *trace.calls[at + 1 :]))


def _lower_together(trace: Trace, fixed: frozenset[str]) -> Iterator[Trace]:
    """Lower the window (and the sinks, if they do not fit any more) and every length by one."""
    window, sinks = trace.config.window, trace.config.sinks
    if window is None or window <= 1 or ("sinks" in fixed and sinks > max(0, window - 2)):
        return
    calls = tuple(evolve(c, length=c.length - 1) if isinstance(c, _BLOCKS) and c.length > 1 else c for c in trace.calls)
    yield evolve(
        trace,
        config=evolve(trace.config, window=window - 1, sinks=min(sinks, max(0, window - 2))),
        calls=calls,
    )


def _lower(value: int | None, least: int) -> Iterator[int]:
    if value is None or value <= least:
        return
    yield from dict.fromkeys(n for n in (least, least + 1, value // 2, value - 1) if least <= n < value)
