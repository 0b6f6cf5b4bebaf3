"""Whether a testee's glue speaks the protocol: each step is tried by itself, and says what came and what to do.

No law is judged here. A testee that passes answers in time, in whole lines, to the right message; hands tensors back
bit for bit; and goes on after what it cannot do.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from kvlaw.conformance.stamps import spoil
from kvlaw.conformance.subjects.errors import TargetError, nearest
from kvlaw.conformance.testee.channel import Channel, LostError, died
from kvlaw.conformance.testee.launch import Launch, harness, read_answer
from kvlaw.conformance.testee.reaper import Reaper
from kvlaw.conformance.testee.smoke_steps import SkippedError, Tried, WrongError, odd_bits, remedy, same_bits
from kvlaw.spec import wire
from kvlaw.spec.calls import AppendDecode, AppendWindow, Call, LookAt
from kvlaw.spec.config import WINDOWED, Config, DType, Kind
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.observations import Observation, Payload

QUIET = 0.1
"""Seconds in which a testee must write nothing unasked."""
LEAVING = 2.0
"""Seconds within which a testee must leave after the end was said."""
WIDE = 700
"""Positions whose tensors make a line that no small buffer holds."""


@define
class Smoke:
    """One testee, tried step by step."""

    launch: Launch
    seconds: float
    leaving: float = LEAVING
    reaper: Reaper = field(factory=Reaper)
    steps: list[Tried] = field(factory=list[Tried])
    told: wire.Hello | None = None
    number: int = 0
    dtype: DType = "bf16"
    gone: str = ""
    """Why nothing more can be tried: it does not start, or does not start again."""
    _channel: Channel | None = None

    def run(self) -> list[Tried]:
        """Try everything; what needs an earlier step is not tried after that went wrong."""
        try:
            self._channel = self.launch.process(self.reaper)
            if self._try("the answer to the hello", self._hello):
                self._try("nothing else on stdout", self._quiet)
                self._try("words that kvlaw knows", self._words)
                for kind in self.hello.kinds:
                    self._kind(kind)
                self._try("what it cannot do", self._unable)
                self._try("fields that it does not know", self._unknown_fields)
                self._try("spoilt tensors", self._spoilt)
                self._try("ids", self._ids)
                self._try("opened again", self._again)
            else:
                self.gone = "it never said hello"
            self._try("the end", self._end)
            self._try("a closed stdin", self._closed)
        finally:
            if self._channel is not None:
                self._channel.end(0.1)
            self.reaper.dismiss()
        return self.steps

    @property
    def hello(self) -> wire.Hello:
        """What it says it is."""
        if self.told is None:
            raise SkippedError("it never said hello")
        return self.told

    @property
    def kind(self) -> Kind:
        """The kind that is tried where any will do: a cache of one sequence, if it has one."""
        serial: list[Kind] = [kind for kind in self.hello.kinds if kind in ("full", "ring")]
        return serial[0] if serial else self.hello.kinds[0]

    def _try(self, what: str, act: Callable[[], str]) -> bool:
        """Try one step and note what came of it; a lost testee is started again for the next, once for all of them."""
        if self.gone:
            self.steps.append(Tried(what, "not tried", self.gone))
            return False
        try:
            self._alive()
            self.steps.append(Tried(what, "ok", act()))
        except SkippedError as error:
            self.steps.append(Tried(what, "not tried", str(error)))
        except WrongError as error:
            self.steps.append(Tried(what, "wrong", str(error), error.remedy))
            return False
        except wire.WireError as error:
            self.steps.append(Tried(what, "wrong", str(error), "look the field up: `kvlaw docs testee`"))
            return False
        except (LostError, TargetError) as error:
            self.steps.append(Tried(what, "wrong", str(error), remedy(str(error), started=self.told is not None)))
            return False
        return True

    def _alive(self) -> None:
        if self._channel is not None and not self._channel.lost:
            return
        if self.steps and self.told is not None:
            try:
                self._channel = self.launch.process(self.reaper)
                self.launch.greet(self._channel)
            except TargetError:
                self.gone = "it does not start again"
                raise

    @property
    def channel(self) -> Channel:
        """The running testee."""
        if self._channel is None:
            raise SkippedError("it is not running")
        return self._channel

    # Messages.

    def _send(self, message: wire.Json, number: int | None = None) -> wire.Json:
        self.number = self.number + 1 if number is None else number
        line = self.channel.ask(wire.write_line({"id": self.number, **message}), self.seconds)
        try:
            answer = read_answer(line, self.number)
        except wire.WireError as error:
            raise self.channel.give_up(f"no answer of the protocol: {error}") from None
        if stray := self.channel.unasked(QUIET / 10):
            raise self.channel.give_up(f"two answers to one message: behind the first came {stray}")
        return answer

    def _ask(self, message: wire.Json) -> Observation:
        return wire.read_answer(self._send(message), self.dtype, shown=message.get("look") is not False)

    def _call(self, call: Call, payload: Payload | None = None, look: bool = True) -> Observation:
        asking = "attend" in self.hello.capabilities
        return self._ask(wire.asking(call, payload, look, hints=False, queries=asking))

    def _opened(self, kind: Kind | None = None, dtype: DType | None = None) -> Config:
        kind = kind or self.kind
        window = {"window": 2 * WIDE} if kind in WINDOWED else {}
        self.dtype = dtype or self.hello.dtypes[0]
        policies = self.hello.policies
        start = {} if "affine" in policies else {"start": 4}
        coded: dict[str, Any] = {} if "dense" in policies else {"bits": self.hello.code_bits[0], **start}
        given: dict[str, Any] = {**window, **coded}
        config = Config(kind, dtype=self.dtype, **given)
        opened = self._ask(wire.opening(config))
        if not opened.ok:
            raise WrongError(
                f"{config.describe()}: {opened.outcome} {opened.message}".strip(),
                f"say only kinds and dtypes in the hello that open; {kind} with {self.dtype} does not",
            )
        return config

    # Steps.

    def _hello(self) -> str:
        line = wire.write_line({"id": 0, **wire.hello(*harness())})
        try:
            answer = self.channel.ask(line, self.launch.seconds)
        except LostError as error:
            raise self._mute(str(error)) from None
        self.told = wire.read_hello(read_answer(answer, 0))
        return f"{self.told.name or 'a testee'}: protocol {self.told.protocol}, {', '.join(self.told.kinds)}"

    def _mute(self, told: str) -> WrongError:
        """Find out why no hello comes: a second process is asked, and its stdin closed, so that it flushes at last."""
        if not told.startswith("no answer within"):
            return WrongError(told, remedy(told, started=False))
        other = self.launch.process(self.reaper)
        other.say(wire.write_line({"id": 0, **wire.hello(*harness())}))
        other.close_stdin()
        late = other.unasked(self.leaving)
        other.end(0.1)
        if late:
            return WrongError(f"{told}; it came when stdin was closed: {late}", "flush stdout after every line")
        return WrongError(told, "read stdin line by line, and answer each line at once")

    def _quiet(self) -> str:
        if stray := self.channel.unasked(QUIET):
            raise WrongError(f"it wrote {stray}", "write to stderr what is no answer")
        return f"nothing for {QUIET} s"

    def _words(self) -> str:
        for word in self.hello.capabilities:
            if word not in CAPABILITIES:
                raise WrongError(f"capabilities has {word!r}", f"no such word{nearest(word, CAPABILITIES)}")
        for name in ("kinds", "dtypes", "policies", "code_bits"):
            if not getattr(self.hello, name):
                raise WrongError(f"{name} is empty", f"name one of {name} at least, or leave it out")
        return f"{len(self.hello.capabilities)} of {len(CAPABILITIES)} capabilities"

    def _kind(self, kind: Kind) -> None:
        self._try(f"open {kind}", lambda: self._open_one(kind))
        if kind in ("full", "ring"):
            for dtype in self.hello.dtypes:
                self._try(f"tensors of {dtype}, {kind}", lambda dtype=dtype: self._echo(kind, dtype))
            self._try(f"a line of many bytes, {kind}", lambda: self._wide(kind))
            self._try(f"without a look, {kind}", lambda: self._unlooked(kind))

    def _open_one(self, kind: Kind) -> str:
        self._opened(kind)
        seen = self._call(LookAt())
        if not seen.ok:
            raise WrongError(f"look: {seen.outcome} {seen.message}", "answer look on c0 with its state")
        offset = seen.state.offset if seen.state else None
        if offset not in (0, None):
            raise WrongError(f"the offset of an empty cache is {offset}", "open forgets everything and makes c0 empty")
        return "not observed: its state" if seen.state is None else "its state is shown"

    def _echo(self, kind: Kind, dtype: DType) -> str:
        """Append bits that no arithmetic keeps, and look for them in the fetch."""
        config = self._opened(kind, dtype)
        if config.bits is not None:
            raise SkippedError("it is checked with codes alone")
        given = odd_bits(config, 3)
        seen = self._call(AppendWindow(length=3), given)
        if not seen.ok:
            raise WrongError(f"window 3: {seen.outcome} {seen.message}", "a window of three positions must be taken")
        if seen.read is None or seen.read.keys is None or seen.read.values is None:
            return "not observed: it shows no fetched keys and values"
        for side, sent, got in (("keys", given.keys, seen.read.keys), ("values", given.values, seen.read.values)):
            same_bits(side, sent, got)
        hidden = seen.read.mask is None and {"mask", "attend"} & set(self.hello.capabilities)
        return "3 positions came back bit for bit" + "; not observed: read.mask, by which queries see" * bool(hidden)

    def _wide(self, kind: Kind) -> str:
        config = self._opened(kind)
        given = odd_bits(config, WIDE)
        sent = len(wire.write_line(wire.asking(AppendWindow(length=WIDE), given, True, hints=False, queries=False)))
        seen = self._call(AppendWindow(length=WIDE), given)
        if not seen.ok:
            raise WrongError(f"window {WIDE}: {seen.outcome} {seen.message}", "read lines of any length")
        return f"{sent:,} bytes were taken"

    def _unlooked(self, kind: Kind) -> str:
        config = self._opened(kind)
        seen = self._call(AppendDecode(), odd_bits(config, 1), look=False)
        if not seen.ok:
            raise WrongError(f"decode: {seen.outcome} {seen.message}", "a call without a look is carried out the same")
        return "ok"

    def _unable(self) -> str:
        """Ask for what nobody has, and see that it goes on."""
        self._opened()
        told: list[str] = []
        for what, message in (
            ("a call that there is not", {"call": {"call": "levitate", "on": "c0"}, "look": True}),
            ("a cache that there is not", wire.asking(LookAt(on="nobody"), None, True, hints=False, queries=False)),
        ):
            seen = self._ask(message)
            if seen.ok:
                raise WrongError(f"{what}: ok", "answer unsupported to unknown calls, refused to unknown names")
            told.append(seen.outcome)
        after = self._call(LookAt())
        if not after.ok:
            raise WrongError(f"look, after a call it cannot do: {after.outcome}", "go on after an unknown call")
        return f"answered {' and '.join(told)}, and went on"

    def _unknown_fields(self) -> str:
        self._opened()
        more = {"novelty": [1, {"deep": None}]}
        asked = wire.asking(LookAt(), None, True, hints=False, queries=False)
        seen = self._ask({**asked, "call": {**asked["call"], **more}, **more})
        if not seen.ok:
            raise WrongError(f"look: {seen.outcome} {seen.message}", "ignore fields that you do not know")
        return "ignored"

    def _spoilt(self) -> str:
        """Hand over tensors that fit no cache; whatever it answers, it must answer."""
        config = self._opened()
        if config.is_recurrent or config.is_rows:
            raise SkippedError("it builds no cache of one sequence")
        first = odd_bits(config, 1)
        self._call(AppendDecode(), first)
        told: list[str] = []
        for how in ("rank", "heads", "lengths", "empty"):
            seen = self._call(AppendDecode(), spoil(odd_bits(config, 1), how, decode_call=True), look=False)
            told.append(f"{how}: {seen.outcome}")
        return ", ".join(told)

    def _ids(self) -> str:
        self._opened()
        for number in (wire.MOST_ID, 7):
            self._send(wire.asking(LookAt(), None, True, hints=False, queries=False), number)
        return "the largest came back as it was sent"

    def _again(self) -> str:
        config = self._opened()
        if not (config.is_recurrent or config.is_rows):
            self._call(AppendWindow(length=3, as_="r1"), odd_bits(config, 3))
        self._opened()
        seen = self._call(LookAt())
        offset = seen.state.offset if seen.state else None
        if not seen.ok or offset not in (0, None):
            raise WrongError(f"{seen.outcome}, offset {offset}", "open forgets everything and makes c0 anew")
        old = self._call(LookAt(on="r1"))
        if old.ok:
            raise WrongError("the read r1 of before is still there", "open forgets reads and arrays too")
        return "it is empty again"

    def _end(self) -> str:
        self.channel.say(wire.write_line({"id": self.number + 1, "bye": {}}))
        self.channel.close_stdin()
        return self._left("after bye and the end of stdin")

    def _closed(self) -> str:
        if self.channel.lost:
            self._channel = self.launch.process(self.reaper)
        self.channel.close_stdin()
        return self._left("after the end of stdin alone")

    def _left(self, when: str) -> str:
        code = self.channel.wait(self.leaving)
        self.channel.end(0.1)
        if code is None:
            raise WrongError(f"it still ran {self.leaving:.2g} s {when}", "leave when stdin has ended")
        if code != 0:
            told = self.channel.stderr
            raise WrongError(f"it {died(code)} {when}{f': {told}' if told else ''}", "leave with exit code 0")
        return f"it left {when}"


__all__ = ["Smoke"]
