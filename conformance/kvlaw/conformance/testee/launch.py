"""Starts a testee and says hello; one that cannot be started is a ``TargetError`` that names the way out."""

import os
import shlex
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import frozen

from kvlaw.conformance.subjects.errors import MisnamedError, TargetError
from kvlaw.conformance.testee.channel import Channel, LostError, quoted
from kvlaw.conformance.testee.reaper import Reaper
from kvlaw.spec import wire
from kvlaw.spec.clauses import load_clauses

HELLO_SECONDS = 20.0
"""How long a testee may take to start and answer the hello."""


@frozen
class Launch:
    """How a testee is started: its command line, how long it may take, where the transcript goes."""

    name: str
    command: tuple[str, ...]
    seconds: float = HELLO_SECONDS
    log: Path | None = None

    @classmethod
    def of(cls, text: str, seconds: float = HELLO_SECONDS, log: str | None = None) -> "Launch":
        """Read what stands behind ``cmd:``; raise ``TargetError`` for what is no command line."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise MisnamedError(f"cmd:{text} cannot be read as a command line: {error}") from None
        if not words or not words[0]:
            raise MisnamedError("cmd: names no command; write 'cmd:./testee --flag'")
        if any("\0" in word for word in words):
            raise MisnamedError("cmd: a command line has no zero bytes")
        words = (str(Path(words[0]).expanduser()) if words[0].startswith("~") else words[0], *words[1:])
        return cls(f"cmd:{text}", words, seconds, None if log is None else Path(log))

    def greet(self, channel: Channel) -> wire.Hello:
        """Say hello and hear what the testee is; raise ``TargetError`` if it cannot be talked to."""
        line = wire.write_line({"id": 0, **wire.hello(*harness())})
        try:
            return wire.read_hello(read_answer(channel.ask(line, self.seconds), 0))
        except LostError as error:
            raise TargetError(f"{self.name} {self._silent(str(error))}") from None
        except wire.WireError as error:
            told = channel.give_up(f"{error}")
            raise TargetError(f"{self.name} does not speak the testee protocol: {told}; {SMOKE}") from None

    def process(self, reaper: Reaper) -> Channel:
        """Start the process; raise ``TargetError`` if there is none to start."""
        if self.log is not None:
            _check_log(self.log)
        try:
            return Channel(self.command, reaper, log=self.log)
        except OSError as error:
            raise TargetError(f"{self.name} cannot be started: {self._why(error)}") from None

    def _why(self, error: OSError) -> str:
        word = self.command[0]
        if isinstance(error, FileNotFoundError):
            if not Path(word).is_file() and "/" in word:
                return f"there is no file {word} (in {Path.cwd()})"
            if Path(word).is_file() and "/" not in word:
                return f"{word} is no command on the PATH; for the file in this folder write ./{word}"
            if Path(word).is_file():
                return f"the interpreter that the first line of {word} names is not there"
            return f"{word} is no command on the PATH"
        if isinstance(error, PermissionError):
            path = Path(shutil.which(word) or word)
            what = "a folder" if path.is_dir() else "not executable"
            return f"{word} is {what}" + ("" if path.is_dir() else f"; try chmod +x {shlex.quote(word)}")
        if error.errno == 8:  # ENOEXEC
            return f"{word} is no program: a script begins with #! and its interpreter, as in cmd:python3 {word}"
        return f"{word}: {error.strerror or os.strerror(error.errno or 0)}"

    def _silent(self, told: str) -> str:
        """Say what an unanswered hello may come of."""
        if told.startswith("no answer within"):
            hint = "does it flush stdout after every line? --set hello=60 waits longer"
            return f"did not answer the hello: {told}; {hint}; {SMOKE}"
        return f"did not answer the hello: {told}; {SMOKE}"


SMOKE = "`kvlaw testee smoke` tries it step by step"


def harness() -> tuple[str, str]:
    """Name the newest version of the specification, and this harness."""
    versions = {clause.since for clause in load_clauses().values()}
    spec = max(versions, key=lambda version: [int(part) for part in version.split(".")])
    try:
        return spec, f"kvlaw {version('kvlaw')}"
    except PackageNotFoundError:
        return spec, "kvlaw"


def read_answer(line: bytes, asked: int) -> wire.Json:
    """Read a line that must answer the message that was sent; raise ``WireError``."""
    try:
        answer = wire.read_line(line)
    except wire.WireError as error:
        raise wire.WireError(f"{quoted(line)}: {error}") from None
    number = wire.read_id(answer)
    if number != asked:
        raise wire.WireError(f"id: {number} came as the answer to message {asked}")
    return answer


def _check_log(path: Path) -> None:
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise MisnamedError(f"log={path}: {error.strerror}") from None


__all__ = ["HELLO_SECONDS", "SMOKE", "Launch", "harness", "read_answer"]
