"""How large a trace or a configuration may be: what a check or a walk can carry in its memory and in minutes.

The bounds are those of the suite, not of any cache: the oracle and the comparison attend every query by itself. They
are generous for what laws need (a ring of 4,096 is walked past its end), and said in every message.
"""

from collections.abc import Iterator

from attrs import define, field

from kvlaw.spec.calls import Append, Attend, Call, Clone, FetchDense, MakeMask, OpenList, Reset
from kvlaw.spec.config import ITEM_SIZE, Config
from kvlaw.spec.trace import Trace

MOST_CALLS = 4096
"""The most calls of a trace."""
MOST_POSITIONS = 1 << 14
"""The most positions that a trace appends, over all its caches."""
MOST_SCORES = 1 << 24
"""The most scores of one call: batch x query heads x queries x fetched columns."""
MOST_BYTES = 1 << 29
"""The most bytes of all the keys, values and queries of a trace, or of the longest trace of a check."""
MOST_WINDOW = 1 << 13
"""The largest window or start that a check plays past."""
MOST_SEED = (1 << 32) - 1
_LONGEST = 600
"""Positions that a check appends beside a window, to pass allocation steps."""
_WAY_OUT = "make shorter calls, or smaller batch, heads and D"


def config_too_large(config: Config) -> str:
    """Say which field makes a configuration too large to be checked, and what is possible; else nothing."""
    for name in ("window", "start"):
        value = getattr(config, name)
        if isinstance(value, int) and value > MOST_WINDOW:
            return f"{name}={_told(value)} is too large for a check; a check plays past a {name} up to {MOST_WINDOW:,}"
    if problem := _seed(config):
        return problem
    positions = _LONGEST + (config.window or 0)
    if positions * _bytes(config) > MOST_BYTES:
        return f"{_sizes(config)} is too large for a check: {_most(positions)}; make batch, heads or dims smaller"
    return ""


def trace_too_large(trace: Trace) -> str:
    """Say what makes a trace too large to be walked, what is possible, and the way out; else nothing."""
    config, size = trace.config, _Size(trace.config)
    if problem := _seed(config):
        return problem
    if len(trace.calls) > MOST_CALLS:
        return f"the trace is too large: {len(trace.calls):,} calls; it may have {MOST_CALLS:,}"
    for number, call in enumerate(trace.calls, 1):
        if problem := next(size.grows(call), ""):
            return f"the trace is too large at call {number} ({call.verb}): {problem}; {_WAY_OUT}"
    return ""


@define
class _Size:
    """What a trace has appended so far: by object, and over all."""

    config: Config
    offsets: dict[str, int] = field(factory=lambda: {"c0": 0})
    layers: dict[str, int] = field(factory=dict[str, int])
    reads: dict[str, int] = field(factory=dict[str, int])
    total: int = 0

    def grows(self, call: Call) -> Iterator[str]:
        """Take a call into account; say which bounds it passes."""
        layers = self.layers.get(call.on, 1)
        offset = self.offsets.get(call.on, 0)
        length = max(0, call.length if isinstance(call, MakeMask) else call.appends)
        heads = 1 if isinstance(call, MakeMask | FetchDense) else self.config.batch * self.config.heads
        scores = heads * length * (offset + length) if not isinstance(call, FetchDense) else 0
        scores = self.reads.get(call.on, 0) if isinstance(call, Attend) else scores
        self.total += layers * max(0, call.appends)
        yield from self._passed(scores)
        self._note(call, offset + max(0, call.appends), scores, layers)

    def _passed(self, scores: int) -> Iterator[str]:
        if self.total > MOST_POSITIONS:
            yield f"{_told(self.total)} positions are appended by then; there may be {MOST_POSITIONS:,}"
        if self.total * _bytes(self.config) > MOST_BYTES:
            yield f"{_sizes(self.config)}: {_most(self.total)}"
        if scores > MOST_SCORES:
            yield f"{_told(scores)} scores (batch x query heads x queries x columns); a call may have {MOST_SCORES:,}"

    def _note(self, call: Call, offset: int, scores: int, layers: int) -> None:
        """Keep how far the objects are; a ring fetches no more than its window and what comes in."""
        window = self.config.window
        self.offsets[call.on] = 0 if isinstance(call, Reset) else offset
        if window is not None and window > 0 and call.on not in self.layers:
            self.offsets[call.on] = min(self.offsets[call.on], window)
        if isinstance(call, OpenList):
            self.offsets[call.as_], self.layers[call.as_] = 0, len(call.layers)
        if isinstance(call, Clone):
            self.offsets[call.as_], self.layers[call.as_] = self.offsets[call.on], layers
        if isinstance(call, Append) and call.as_:
            self.reads[call.as_] = scores


def _bytes(config: Config) -> int:
    """Bytes of one position's keys, values and queries."""
    queries = config.heads * config.head_dim * ITEM_SIZE[config.dtype]
    return config.batch * (config.token_bytes + queries)


def _most(positions: int) -> str:
    return f"keys, values and queries of {_told(positions)} positions take more than {MOST_BYTES >> 20} MiB"


def _sizes(config: Config) -> str:
    return (
        f"batch={_told(config.batch)} with {_told(config.heads)} query heads over {_told(config.kv_heads)}, "
        f"D={_told(config.head_dim)} and Dv={_told(config.value_dim)}"
    )


def _seed(config: Config) -> str:
    return "" if 0 <= config.seed <= MOST_SEED else f"seed={_told(config.seed)}: a seed goes from 0 to {MOST_SEED:,}"


def _told(number: int) -> str:
    """Write a number, however large, on a line."""
    return f"{number:,}" if abs(number) < 10**18 else "more than 10^18"


__all__ = ["MOST_CALLS", "MOST_POSITIONS", "MOST_SCORES", "config_too_large", "trace_too_large"]
