"""One running testee, asked line by line; whatever it does instead of answering is a ``LostError`` that says what.

Both pipes are watched at once and never block, so that a testee that writes much before it reads cannot stop us; a
thread drains its stderr and keeps the last lines. Once lost, a testee is ended with all of its process group.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from attrs import define, field

from kvlaw.conformance.guard import printable
from kvlaw.conformance.testee.reaper import Reaper, end_group

MOST_BYTES = 1 << 28
"""The longest line that is read."""
_PIECE = 1 << 16
_SLICE = 0.1
"""Seconds between two looks at whether a process that keeps its pipes open has ended."""
_KIND = 0.3
"""Seconds between asking a process to end and ending it."""
_LAST = 5.0
"""Seconds for a process that was ended by force to be gone."""
_LINES = 12
_WIDEST = 300
_TOLD = 4
_ERROR = re.compile(r"error\b|exception\b|\bpanicked\b|\bfatal\b", re.IGNORECASE)
"""By these words a line tells what went wrong, where a stack, or more of it, comes behind."""


class LostError(Exception):
    """The testee cannot be asked any more; the text says what it did."""


@define
class Tail:
    """The last lines of a stream, and the first that tells an error, read by a thread of its own."""

    stream: IO[bytes]
    lines: deque[str] = field(factory=lambda: deque[str](maxlen=_LINES))
    error: str = ""
    _thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin to read."""
        self._thread = threading.Thread(target=self._drain, daemon=True, name="stderr of a testee")
        self._thread.start()

    def _drain(self) -> None:
        left = b""
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(self.stream.fileno(), 1 << 16):
                *lines, left = (left + piece).split(b"\n")
                self._take(lines)
                left = left[:_WIDEST]
        self._take([left])
        self.stream.close()

    def _take(self, lines: list[bytes]) -> None:
        for line in lines:
            if line.strip():
                text = line[:_WIDEST].decode("utf-8", "replace")
                self.error = self.error or (text if _ERROR.search(text) else "")
                self.lines.append(text)

    def told(self, seconds: float = 0.0) -> str:
        """Give the last lines on one line, after the stream's end or so many seconds; before them the first error."""
        self._thread.join(seconds)
        last = tuple(self.lines)[-_TOLD:]
        first = (self.error.strip(), "...") if self.error and self.error not in last else ()
        return " | ".join(printable(line) for line in (*first, *last))


@define(eq=False)
class Channel:
    """A testee and the pipes to it; ``reaper`` is told of its process group."""

    command: Sequence[str]
    reaper: Reaper
    most_bytes: int = MOST_BYTES
    log: Path | None = None
    lost: str = ""
    """Why it cannot be asked any more."""
    _popen: "subprocess.Popen[bytes]" = field(init=False)
    _tail: Tail = field(init=False)
    _in: int = field(init=False)
    _out: int = field(init=False)
    _reading: select.poll = field(factory=select.poll)
    _both: select.poll = field(factory=select.poll)
    _rest: bytearray = field(factory=bytearray)
    """What was read behind the last line."""
    _over: bool = False

    def __attrs_post_init__(self) -> None:
        """Start the process, in a session of its own; raises ``OSError`` if there is none to start."""
        self._popen = subprocess.Popen(  # noqa: S603  # to run what the user names is the purpose
            list(self.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.reaper.watch(self._popen.pid)
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        if stdin is None or stdout is None or stderr is None:
            raise OSError("no pipes")
        self._tail = Tail(stderr)
        self._in, self._out = stdin.fileno(), stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._reading.register(self._out, select.POLLIN)
        self._both.register(self._out, select.POLLIN)
        self._both.register(self._in, select.POLLOUT)

    @property
    def stderr(self) -> str:
        """The last lines that it wrote to stderr."""
        return self._tail.told(0.0)

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._popen.poll()

    # Asking.

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send one line and give the one that comes back; raises ``LostError``, after which the testee is ended."""
        if self.lost:
            raise LostError(self.lost)
        try:
            self._note(">", line)
            answer = self._exchange(line, time.monotonic() + seconds, seconds)
            self._note("<", answer)
        except LostError as error:
            raise self.give_up(str(error)) from None
        except BaseException:  # the user's interrupt: an answer may be on its way
            self.give_up("it was interrupted")
            raise
        return answer

    def give_up(self, why: str) -> LostError:
        """End the testee, and give the error that says why, with the end of its stderr."""
        ended = self.exit_code is not None
        self.end(_KIND)
        told = self._tail.told(0.2)
        self.lost = f"{why}; its stderr ends: {told}" if told else why
        self._note("!", f"{self.lost}{'' if ended else '; ended'}\n".encode(errors="replace"))
        return LostError(self.lost)

    @property
    def behind(self) -> str:
        """What came together with the last answer, behind it."""
        return quoted(self._rest) if self._rest else ""

    def unasked(self, seconds: float = 0.0) -> str:
        """Say what it wrote without being asked, within so many seconds; nothing, if it wrote nothing."""
        if not self._rest and not self._over and self._reading.poll(seconds * 1000):
            with contextlib.suppress(BlockingIOError):
                self._rest += os.read(self._out, _PIECE)
        return self.behind

    def _exchange(self, line: bytes, until: float, seconds: float) -> bytes:
        if stray := self.unasked():
            raise LostError(f"the testee wrote to stdout without being asked: {stray}")
        unsent = memoryview(line)
        while True:
            unsent = self._sent(unsent) if unsent else unsent
            if (answer := self._line(self._both if unsent else self._reading, until, seconds)) is not None:
                return answer

    def _sent(self, unsent: memoryview) -> memoryview:
        """Send what the pipe takes, and give the rest."""
        try:
            return unsent[os.write(self._in, unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:
            raise LostError(self._ended("closed its stdin")) from None

    def _line(self, poll: select.poll, until: float, seconds: float) -> bytes | None:
        """Read what has come; give the line if it is whole."""
        left = until - time.monotonic()
        if left <= 0:
            begun = f", only the beginning of one: {quoted(self._rest)}" if self._rest else ""
            deaf = "; it has closed its stdin" if self._is_deaf() else ""
            raise LostError(f"no answer within {seconds:.2g} s{begun}{deaf}")
        ready = poll.poll(min(left, _SLICE) * 1000 + 1)
        if not any(fd == self._out for fd, _ in ready):
            if self.exit_code is not None and not ready:
                raise LostError(self._ended("closed its stdout"))
            return None
        try:
            piece = os.read(self._out, _PIECE)
        except BlockingIOError:
            return None
        if not piece:
            raise LostError(self._ended("closed its stdout"))
        return self._taken(piece)

    def _is_deaf(self) -> bool:
        """Say whether nobody reads any more what it is told."""
        poll = select.poll()
        poll.register(self._in, 0)
        return bool(poll.poll(0))

    def _taken(self, piece: bytes) -> bytes | None:
        end = piece.find(b"\n")
        if end < 0:
            self._rest += piece
            if len(self._rest) > self.most_bytes:
                raise LostError(f"the testee wrote a line of more than {self.most_bytes:,} bytes: {quoted(self._rest)}")
            return None
        answer = bytes(self._rest) + piece[:end]
        self._rest = bytearray(piece[end + 1 :])
        return answer

    def _ended(self, closed: str) -> str:
        """Say how the process ended, or that it only closed a pipe."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(0.5)
        code = self.exit_code
        begun = f" in the middle of a line: {quoted(self._rest)}" if self._rest else ""
        if code is None:
            return f"the testee {closed}{begun}"
        return f"the testee {died(code)}{begun}"

    def _note(self, mark: str, line: bytes) -> None:
        """Write a line of the transcript."""
        if self.log is not None:
            with self.log.open("ab") as file:
                file.write(mark.encode() + b" " + line.rstrip(b"\n") + b"\n")

    # Ending.

    def say(self, line: bytes) -> None:
        """Send a line to which no answer is awaited, as far as the pipe takes it."""
        if not self._over:
            self._note(">", line)
            with contextlib.suppress(OSError):
                os.write(self._in, line)

    def close_stdin(self) -> None:
        """Close its stdin: it is asked nothing more."""
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end, and give its exit code; None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self.exit_code

    def end(self, seconds: float) -> None:
        """End the process and its group, and let go of the pipes."""
        self.lost = self.lost or "it was ended"
        if self._over:
            return
        self._over = True
        self.close_stdin()
        end_group(self._popen.pid, lambda: self._popen.poll() is not None, seconds)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_LAST)
        self.reaper.watch(0)
        if self._popen.stdout is not None:
            self._popen.stdout.close()
        self._tail.told(_KIND)  # its thread closes the pipe


def died(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def quoted(raw: bytes | bytearray) -> str:
    """Quote the beginning of what a testee wrote."""
    text = printable(bytes(raw[:400]).decode("utf-8", "replace"))
    return repr(text if len(text) <= 80 else text[:77] + "...")


__all__ = ["Channel", "LostError", "died", "quoted"]
