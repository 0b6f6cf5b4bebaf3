"""A ``Subject`` that is a process: asked through a channel, and started again for the next trace once it was lost.

Whatever a testee does instead of answering is the outcome ``error`` of the trace in which it does it. What it cannot be
asked, by what its hello says, is ``unsupported`` without a word to it. What an answer leaves out is not observed; three
things are made good here, so that a testee has less to do: the state that a refused call leaves behind is looked at,
the fetch of a cache without masks is masked as any such cache's, and of spoilt tensors that are accepted nothing shows.
"""

import time
import weakref

from attrs import define, evolve, field

from kvlaw.conformance.demands import Demands, Terms
from kvlaw.conformance.guard import Patience, printable
from kvlaw.conformance.interface import UnsupportedError
from kvlaw.conformance.session import TargetGoneError
from kvlaw.conformance.subjects.errors import TargetError
from kvlaw.conformance.testee.channel import Channel, LostError
from kvlaw.conformance.testee.launch import Launch, read_answer
from kvlaw.conformance.testee.reaper import Reaper
from kvlaw.conformance.views import by_the_fetch
from kvlaw.spec import wire
from kvlaw.spec.calls import (
    Advance,
    Append,
    Attend,
    Call,
    Clone,
    Drop,
    FetchDense,
    LookAt,
    MakeCache,
    MakeMask,
    Merge,
    OpenList,
    Reuse,
    Save,
    TakeState,
    Trim,
)
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Observation, Payload

MOST_STARTS = 3
"""How often a testee may fail to start, one time after the other, before a check is stopped."""
_GRACE = 1.0
"""Seconds for a testee to leave after the end was said."""
_MAKING = (OpenList, Merge, MakeCache, Reuse)
_OURS = ("cache", "group")


@define(eq=False)
class Life:
    """What must be ended with a subject: its channel, if there is one, and the shell that watches over it."""

    channel: Channel | None = None
    reaper: Reaper | None = None

    def end(self) -> None:
        """Say the end, wait a little, and end what is left."""
        if self.channel is not None:
            if not self.channel.lost:
                self.channel.say(wire.write_line({"id": wire.MOST_ID, "bye": {}}))
                self.channel.close_stdin()
                self.channel.wait(_GRACE)
            self.channel.end(_GRACE)
            self.channel = None
        if self.reaper is not None:
            self.reaper.dismiss()
            self.reaper = None


@define(eq=False)
class ProcessSubject:
    """A testee as a ``Subject``; ``seconds`` bounds every call."""

    launch: Launch
    seconds: float = 10.0
    told: wire.Hello = field(init=False)
    config: Config = field(init=False, factory=lambda: Config("full"))
    patience: Patience = field(init=False)
    _life: Life = field(init=False, factory=Life)
    _capabilities: frozenset[str] = field(init=False)
    _number: int = 0
    _failed: int = 0
    _things: dict[str, str] = field(factory=dict[str, str])
    """What stands under which name: a ``cache`` or a ``group`` of the trace's layer or a ``foreign`` one, a ``list``, a
    ``read`` of a cache or a group, or anything else (``other``)."""

    def __attrs_post_init__(self) -> None:
        """Start the testee and hear what it is; raises ``TargetError``."""
        self.patience = Patience(self.seconds)
        weakref.finalize(self, self._life.end)  # also at exit
        try:
            self.told = self._start()
        except BaseException:
            self._life.end()
            raise
        self._capabilities = frozenset(self.told.capabilities)

    # What it is.

    @property
    def name(self) -> str:
        """Its name as a target."""
        return self.launch.name

    @property
    def capabilities(self) -> frozenset[str]:
        """What it says it can do and show."""
        return self._capabilities

    @property
    def terms(self) -> Terms:
        """With what it is checked, by its hello."""
        return Terms.of(self.told)

    @property
    def channel(self) -> Channel | None:
        """The running testee."""
        return self._life.channel

    @property
    def demands(self) -> Demands:
        """What it can be asked."""
        return Demands(self.capabilities, self.terms)

    # Subject.

    def open(self, config: Config) -> Observation:
        """Forget everything and make ``c0``, in a new process if the last one was lost."""
        self.config, self._things = config, {"c0": "group" if config.is_rows else "cache"}
        try:
            self._check_opening(config)
            if (started := self._started()) is not None:
                return started
        except UnsupportedError as error:
            return Observation("unsupported", message=str(error))
        return self._asked(wire.opening(config))

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        """Carry out one call."""
        try:
            self._check(call)
        except UnsupportedError as error:
            return Observation("unsupported", message=str(error))
        shows = look and not self._shows_nothing(call)
        asks_queries = "attend" in self.capabilities or self.told.hints
        message = wire.asking(call, payload, shows, hints=self.told.hints, queries=asks_queries)
        observation = self._asked(message, keep=shows)
        if look and observation.refused:
            return self._left_by(call, observation)
        if look and observation.ok and self._is_spoilt(call) and self._things.get(call.on) == "group":
            return self._looked(call.on)
        if observation.ok:
            self._note(call)
        if isinstance(call, Append) and call.unread:
            return _unread(observation)
        of_ours = self._things.get(call.on) in (*_OURS, "read")
        return self._masked(observation, payload) if of_ours else observation

    def close(self) -> None:
        """Say the end and let go of the process; it is started again when it is asked again."""
        self._life.end()

    # One message.

    def _asked(self, message: wire.Json, *, keep: bool = True) -> Observation:
        """Send a message and read the answer; without ``keep`` only its outcome and number count."""
        channel, self._number = self.channel, self._number + 1
        if channel is None or channel.lost:
            why = "it was never started" if channel is None else channel.lost
            return Observation("error", message=f"the testee is lost: {why}")
        limit, started = self.patience.limit, time.monotonic()
        try:
            line = channel.ask(wire.write_line({"id": self._number, **message}), limit)
            self.patience.note(time.monotonic() - started)
            return self._read(line, channel.behind, keep=keep)
        except wire.WireError as error:
            return Observation("error", message=str(channel.give_up(f"no answer of the protocol: {error}")))
        except LostError as error:
            self.patience.note(0.0, hung=str(error).startswith("no answer within"))
            return Observation("error", message=str(error))

    def _read(self, line: bytes, behind: str, *, keep: bool) -> Observation:
        answer = read_answer(line, self._number)
        if behind:
            raise wire.WireError(f"behind its answer the testee wrote {behind}")
        observation = wire.read_answer(answer, self.config.dtype, shown=keep)
        return evolve(observation, message=printable(observation.message)[:300])

    def _check_opening(self, config: Config) -> None:
        """Raise ``UnsupportedError`` for what the testee says it cannot open."""
        if config.kind not in self.told.kinds:
            raise UnsupportedError(f"the testee builds {' and '.join(self.told.kinds)} only")
        self.demands.check_opening(config)

    def _check(self, call: Call) -> None:
        """Raise ``UnsupportedError`` for what the testee cannot be asked."""
        self.demands.check_call(call)
        if isinstance(call, OpenList):
            for layer in call.layers:
                self.demands.check_layer(layer)
        if isinstance(call, MakeCache):
            self.demands.check_layer(call.layer or self.config.layer.serial)
        if isinstance(call, Trim) and isinstance(call.n, float) and call.n.is_integer() and not self.told.hints:
            raise UnsupportedError(f"in JSON {call.n} is the integer {call.n:.0f}, in many languages")
        if isinstance(call, Attend) and call.malformed == "heads" and self.config.kv_heads == 1:
            raise UnsupportedError("one KV head takes any number of query heads")

    # What is made good.

    @staticmethod
    def _is_spoilt(call: Call) -> bool:
        return isinstance(call, Append | FetchDense | Advance) and call.malformed is not None

    def _shows_nothing(self, call: Call) -> bool:
        """Say whether nothing is known of what a call should show, if it is carried out."""
        spoilt_read = isinstance(call, Attend) and call.malformed is not None and not self.told.hints
        odd_trim = isinstance(call, Trim) and type(call.n) is not int
        return self._is_spoilt(call) or spoilt_read or odd_trim

    def _left_by(self, call: Call, refused: Observation) -> Observation:
        """Add the state that a refused call left behind (ERR-1), if the testee has not shown it."""
        shown = refused.state is not None or refused.layers or refused.rows
        if shown or isinstance(call, _MAKING) or self._things.get(call.on, "other") in ("other", "read"):
            return refused
        seen = self._looked(call.on)
        if seen.outcome == "error":
            return seen
        return evolve(refused, state=seen.state, layers=seen.layers, rows=seen.rows) if seen.ok else refused

    def _looked(self, name: str) -> Observation:
        return self._asked(wire.asking(LookAt(on=name), None, look=True, hints=False, queries=False))

    def _note(self, call: Call) -> None:
        """Remember what a call has made."""
        made: str | None = getattr(call, "as_", None)
        if isinstance(call, Drop):
            self._things.pop(call.on, None)
        elif made is not None:
            self._things[made] = self._kind_of(call)

    def _kind_of(self, call: Call) -> str:
        """Say what a call makes."""
        source = self._things.get(call.on, "other")
        if isinstance(call, Append):
            return "read" if source in _OURS else "other"
        if isinstance(call, FetchDense | MakeMask | TakeState | Save):
            return "other"
        if isinstance(call, OpenList):
            return "list"
        if isinstance(call, MakeCache):
            return "cache" if call.layer in (None, self.config.layer.serial) else "foreign"
        if isinstance(call, Merge):
            return "group"
        return source if isinstance(call, Clone | Reuse) else "cache"

    def _masked(self, observation: Observation, payload: Payload | None) -> Observation:
        """Mask the fetch of a cache without masks: whoever attends it has to mask it as any such cache's.

        Not where sinks are pinned, which no such mask fits; and a double of ours has done it where it is to be done.
        """
        own = {"mask", "attend"} & self.capabilities
        if own or self.told.hints or self.config.sinks or payload is None or payload.queries.ndim != 4:  # [B, H, L, D]
            return observation
        rows = tuple(self._masked(row, payload) for row in observation.rows)
        read = observation.read
        if read is not None and read.mask is None:
            read = evolve(read, mask=by_the_fetch(self.config, read.keys, int(payload.queries.shape[2])))
        return evolve(observation, read=read, rows=rows)

    # Starting.

    def _start(self) -> wire.Hello:
        life, started = self._life, time.monotonic()
        life.reaper = life.reaper or Reaper()
        life.channel = self.launch.process(life.reaper)
        told = self.launch.greet(life.channel)
        self.patience.note((time.monotonic() - started) / 5)  # a limit is no shorter than a start
        return told

    def _started(self) -> Observation | None:
        """Start the testee if it is not running; give the outcome if that fails.

        Raises:
            TargetGoneError: the first time that it has failed to start too often.
        """
        if self.channel is not None and not self.channel.lost:
            return None
        if self._failed >= MOST_STARTS:
            return Observation("error", message="the testee cannot be started any more")
        try:
            told = self._start()
        except TargetError as error:
            self._failed += 1
            if self._failed >= MOST_STARTS:
                raise TargetGoneError(f"{MOST_STARTS} times one after the other {error}") from None
            return Observation("error", message=str(error))
        self._failed = 0
        if told != self.told:
            return Observation("error", message="the testee says another hello than the first time that it was started")
        return None


def _unread(observation: Observation) -> Observation:
    """Take away the reads of an append that is never asked (READ-5)."""
    layers, rows = (tuple(_unread(inner) for inner in inside) for inside in (observation.layers, observation.rows))
    return evolve(observation, read=None, layers=layers, rows=rows)


__all__ = ["ProcessSubject", "TargetGoneError"]
