"""What a process was doing when it died: the trace that it had begun, up to the call that it was in.

A cache that runs in our process can end it (a segmentation fault, ``os._exit``, a kill for want of memory), and then
nobody is left to say at which call.  So each call is written down before it is made, into a file that is mapped into
memory: that costs microseconds, and outlives the process.  ``begin`` opens the box of this process, ``opening`` and
``calling`` write into it, ``read`` reads what another process left.  ``watched`` starts a shell that says what stands
in the box if this process ends without a word.
"""

import faulthandler
import mmap
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO

from attrs import define, field

from kvlaw.conformance.guard import printable
from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.structure import TraceError
from kvlaw.spec.text_form import parse, write_call, write_config
from kvlaw.spec.trace import Trace

SIZE = 1 << 16
"""How many bytes of a trace are kept; of a longer one the beginning."""


@define
class BlackBox:
    """The file of one process, mapped into memory."""

    path: Path
    _map: mmap.mmap
    _at: int = field(default=0, init=False)

    @classmethod
    def made(cls, path: Path) -> "BlackBox":
        """Make the file, empty."""
        with path.open("w+b") as file:
            file.truncate(SIZE)
            return cls(path, mmap.mmap(file.fileno(), SIZE))

    def begins(self, text: str) -> None:
        """Begin a trace in the place of the one before."""
        before, self._at = self._at, 0
        self.goes_on(text)
        self._map[self._at : max(before, self._at)] = bytes(max(before, self._at) - self._at)

    def goes_on(self, text: str) -> None:
        """Write what comes next, if there is room."""
        raw = text.encode()
        if self._at + len(raw) < SIZE:
            self._map[self._at : self._at + len(raw)] = raw
            self._at += len(raw)


_boxes: list[BlackBox] = []
"""The box of this process, if it has one."""
_stacks: list[IO[str]] = []
"""The file into which a crash of this process writes its Python stack."""


def begin(path: Path, *, stack: bool = False) -> None:
    """Open the box of this process; without the room for one there is none.

    With ``stack`` a crash writes beside it at which lines it was, not to stderr.
    """
    with suppress(OSError, ValueError):
        _boxes[:] = [BlackBox.made(path)]
        if stack:
            _stacks[:] = [path.with_suffix(_STACK).open("w", encoding="utf-8")]
            faulthandler.enable(_stacks[0])


def room() -> Path | None:
    """Give the folder in which this process may leave files, for whoever started it removes them; None if it is none.

    A process that is one of several is killed when it is needed no more, and removes nothing then.
    """
    return _boxes[0].path.parent if _boxes and _stacks else None


def forget() -> None:
    """Note nothing any more."""
    _boxes.clear()


def opening(config: Config) -> None:
    """Note that a trace opens."""
    if _boxes:
        _boxes[0].begins(write_config(config))


def calling(call: Call) -> None:
    """Note a call that is about to be made."""
    if _boxes:
        _boxes[0].goes_on(f" ; {write_call(call)}")


def read(path: Path) -> Trace | None:
    """Read the trace that a process had begun; None if there is none, or if it is cut off."""
    try:
        text = path.read_bytes().rstrip(b"\0").decode()
        return parse(text).trace if text else None
    except (OSError, ValueError, TraceError):
        return None


def lines(path: Path) -> str:
    """Tell at which lines of the target's a process crashed, innermost first; nothing where that is not known."""
    try:
        text = path.with_suffix(_STACK).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    current = text.partition("Current thread")[2].partition("\n\n")[0]
    frames = re.findall(r'File "([^"]+)", line (\d+) in (.+)', current)
    outside = list(takewhile(lambda frame: Path(frame[0]).parent.name not in _OURS, frames))
    return ", from ".join(f"{name} ({Path(file).name}, line {line})" for file, line, name in outside[:3])


_STACK = ".stack"
_OURS = ("conformance", "subjects")
"""The folders of the code that calls targets."""

_SHELL = """
if read -r word; then rm -f "$1"; else
  printf '\\n%s\\n\\n    ' "$2"; tr -d '\\000' < "$1"; printf '\\n\\n%s\\n' "$3"
fi
"""


def tell_lines() -> None:
    """Have a crash of this process say on stderr at which lines of Python it was."""
    with suppress(OSError, ValueError):  # without a stderr
        if not faulthandler.is_enabled():
            faulthandler.enable()


@contextmanager
def watched(target: str) -> Generator[None]:
    """Note every call on ``target``, and have it said on stderr if this process ends without a word."""
    tell_lines()
    try:
        handle, name = tempfile.mkstemp(prefix="kvlaw-", suffix=".trace")
    except OSError:  # there is no room for notes
        yield
        return
    os.close(handle)
    begin(Path(name))
    served = shlex.quote(f"cmd:kvlaw testee serve {target}")
    head = f"kvlaw was ended in the middle of a trace on {printable(target)}. The last call of it was not over:"
    tail = (
        "If nobody ended it from outside, this call crashes the process; above may stand at which lines of Python.\n"
        f"In a process of its own a crash is a result like any other:\n\n    kvlaw check {printable(served)}\n\n"
        f"The trace is kept in {name}"
    )
    shell = _shell(name, head, tail)
    try:
        yield
    finally:
        forget()
        Path(name).unlink(missing_ok=True)
        if shell is not None and shell.stdin is not None:
            with suppress(OSError):
                shell.stdin.write(b"done\n")
                shell.stdin.close()
            shell.wait()


def _shell(*words: str) -> "subprocess.Popen[bytes] | None":
    """Start the shell that waits for our end, away from the terminal's interrupts."""
    try:
        return subprocess.Popen(  # noqa: S603  # our own words
            ["/bin/sh", "-c", _SHELL, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=2,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # there is no such shell, or no stderr
        return None


__all__ = [
    "SIZE",
    "BlackBox",
    "begin",
    "calling",
    "forget",
    "lines",
    "opening",
    "read",
    "room",
    "tell_lines",
    "watched",
]
