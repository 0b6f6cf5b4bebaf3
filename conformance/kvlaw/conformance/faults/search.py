"""Traces drawn at random, at the boundary values of rings and growing caches, for mutants that no stored trace kills.

``draw`` makes one trace: a configuration, every other time with a storage policy, then anything a cache can be asked;
``draw_group`` one of a group of rows (``search_rows``), ``draw_recurrent`` one of recurrent layers.
Windows, lengths, counts, starts and window arguments come from the values where index arithmetic goes wrong: 1, W - 1,
W, W + 1, 2W + 1; 255 to 257.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

from attrs import evolve, fields

from kvlaw.conformance.faults.search_recurrent import draw_recurrent
from kvlaw.conformance.faults.search_rows import draw_rows
from kvlaw.conformance.minimise import minimise
from kvlaw.spec.calls import (
    AppendDecode,
    AppendKnown,
    AppendWindow,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    CompiledDecode,
    FetchDense,
    LookAt,
    MakeMask,
    OpenList,
    Reset,
    RollBack,
    TakeState,
    Trim,
)
from kvlaw.spec.config import CODE_BITS, Config, LayerSpec, Look, Start
from kvlaw.spec.trace import Trace

WINDOWS = (1, 2, 3, 4, 5, 8)
LONG = (255, 256, 257)


_OF_LISTS = (AppendDecode, AppendKnown, AppendWindow, BeginRound, Clone, CommitRound, Reset, RollBack, Trim)


def draw_many(
    seed: int, count: int, family: Literal["serial", "rows", "recurrent"] = "serial"
) -> Iterator[tuple[str, Trace]]:
    """Draw ``count`` traces of a family, the same ones for the same seed, each under a name."""
    rng = random.Random(seed)  # noqa: S311  # a fixed sequence is what is wanted
    make = {"serial": draw, "rows": draw_group, "recurrent": draw_recurrent}[family]
    for number in range(count):
        yield f"drawn {seed}.{number}", make(rng)


def draw(rng: random.Random) -> Trace:
    """Draw one trace."""
    ring = rng.random() < 0.7  # the ring has more to go wrong
    window = rng.choice(WINDOWS) if rng.random() < 0.97 else rng.choice((257, 300, 520))  # growth by steps
    layer = LayerSpec("ring", window, rng.choice((0, 0, *range(window)))) if ring else LayerSpec("full")
    layer = _with_policy(rng, layer) if rng.random() < 0.5 else layer  # every other cache has none
    config = Config(**_fields(layer), batch=rng.choice((1, 1, 2)), look=rng.choice(("every", "every", "last")))
    return Trace(config, tuple(_calls(rng, layer)))


def draw_group(rng: random.Random) -> Trace:
    """Draw one trace of a group."""
    layer = LayerSpec("ring", rng.choice(WINDOWS)) if rng.random() < 0.7 else LayerSpec("full")
    layer = _with_policy(rng, layer) if rng.random() < 0.65 else layer
    if layer.bits is not None and rng.random() < 0.5:  # rows that stand on both sides of a start
        layer = evolve(layer, start=rng.choice((1, 2, 3)))
    look: Look = rng.choice(("every", "every", "last"))
    return draw_rows(rng, layer, look)


def _with_policy(rng: random.Random, layer: LayerSpec) -> LayerSpec:
    start, value_bits = _start(rng, layer), rng.choice((None, None, *CODE_BITS))
    bits, group = rng.choice(CODE_BITS), rng.choice((32, 64))  # what divides the default head dim
    return evolve(layer, bits=bits, value_bits=value_bits, group=group, start=start)


def _start(rng: random.Random, layer: LayerSpec) -> Start:
    w = layer.window or 3
    return rng.choice((None, None, 0, 1, max(0, w - 1), w, w + 1, 2 * w + 1, "never"))


def _fields(layer: LayerSpec) -> dict[str, Any]:
    return {attribute.name: getattr(layer, attribute.name) for attribute in fields(LayerSpec)}


def _calls(rng: random.Random, layer: LayerSpec) -> Iterator[Call]:
    names, listed = ["c0"], rng.random() < 0.1  # now and then a list
    if listed:
        ring = LayerSpec("ring", rng.choice(WINDOWS))
        ring = evolve(layer, kind="ring", window=ring.window, sinks=0, start=_start(rng, ring)) if layer.bits else ring
        layers = (layer, LayerSpec("full"), ring)
        yield OpenList(layers=layers[: rng.randint(2, 3)], as_="l0")
        names = ["l0"]
    for number in range(rng.randint(2, 9)):
        call = evolve(_call(rng, layer, number), on=rng.choice(names))
        if listed and not isinstance(call, _OF_LISTS):
            continue
        yield evolve(call, bypass=False) if listed and isinstance(call, Trim) else call
        if isinstance(call, Clone):
            names.append(call.as_)


def _call(rng: random.Random, layer: LayerSpec, number: int) -> Call:
    made = f"x{number}"
    kinds: list[tuple[int, Callable[[], Call]]] = [
        (30, lambda: AppendDecode(window=_argument(rng, layer), array=_rarely(rng))),
        (30, lambda: AppendWindow(length=_length(rng, layer), window=_argument(rng, layer), array=_rarely(rng))),
        (6, lambda: AppendKnown(length=_length(rng, layer), window=_argument(rng, layer), array=_rarely(rng))),
        (12, lambda: Trim(n=_count(rng, layer), bypass=False)),
        (10, lambda: Trim(n=_count(rng, layer), bypass=True)),
        (8, lambda: _mask(rng, layer)),
        (6, lambda: FetchDense(length=_length(rng, layer))),
        (3, lambda: Clone(as_=made)),
        (1, lambda: TakeState(as_=made)),
        (1, Reset),
        (1, LookAt),
        (14, BeginRound),
        (3, CommitRound),
        (14, lambda: RollBack(keep=_keep(rng))),
        (4, lambda: CompiledDecode(window=_argument(rng, layer), array=_rarely(rng))),
    ]
    return rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()


def _length(rng: random.Random, layer: LayerSpec) -> int:
    if layer.window is None:
        return rng.choice((1, 2, 3, 5, *LONG) if rng.random() < 0.3 else (1, 2, 3, 5))  # attention costs
    w = layer.window
    return rng.choice([n for n in (1, 2, w - 1, w, w + 1, 2 * w + 1) if n > 0])


def _count(rng: random.Random, layer: LayerSpec) -> int:
    near = (layer.window or 3) + rng.choice((-1, 0, 1))
    return rng.choice((0, 1, 1, 2, 3, near))


def _keep(rng: random.Random) -> tuple[int, ...]:
    return (rng.choice((0, 0, 1, 1, 2, 3, -1)), *((0,) if rng.random() < 0.05 else ()))


def _argument(rng: random.Random, layer: LayerSpec) -> int | None:
    if rng.random() < 0.7:  # mostly none
        return None
    w = layer.window or 4
    return rng.choice([n for n in (1, 2, w - 1, w, w + 1) if n > 0])


def _rarely(rng: random.Random) -> bool:
    return rng.random() < 0.15  # an array now and then


def _mask(rng: random.Random, layer: LayerSpec) -> Call:
    decode = rng.random() < 0.5  # either phase
    return MakeMask(
        length=1 if decode else _length(rng, layer),
        phase="decode" if decode else "window",
        window=_argument(rng, layer),
        array=_rarely(rng),
    )


def shortest(trace: Trace, fails: Callable[[Trace], bool]) -> Trace:
    """Shorten a trace that fails; a list whose one layer fails alone becomes that layer."""
    alone = next((candidate for candidate in _layers_alone(trace) if fails(candidate)), trace)
    return minimise(alone, fails, most=400).trace


def _layers_alone(trace: Trace) -> Iterator[Trace]:
    first = trace.calls[0] if trace.calls else None
    if not isinstance(first, OpenList):
        return
    for layer in first.layers:
        config = evolve(trace.config, **_fields(layer))
        calls = tuple(evolve(call, on="c0") if call.on == first.as_ else call for call in trace.calls[1:])
        yield Trace(config, calls)
