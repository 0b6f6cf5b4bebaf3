"""Ends a testee's process group, also when the run itself is killed.

A shell waits on a pipe whose other end only this process has. When that closes without a word, whatever the reason,
it ends the process group of which it was told last: first kindly, then by force.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

from attrs import define, field

_SHELL = (
    'group=0; while read -r told; do group=$told; done; [ "$group" -gt 1 ] || exit 0; '
    'kill -s TERM -- "-$group"; sleep 0.2; kill -s KILL -- "-$group"'
)


@define
class Reaper:
    """The shell that ends what we leave behind."""

    _shell: "subprocess.Popen[bytes]" = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Start it, away from the terminal's interrupts."""
        self._shell = subprocess.Popen(  # noqa: S603  # our own words
            ["/bin/sh", "-c", _SHELL],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Tell it which group to end; 0: none."""
        pipe = self._shell.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):  # somebody has killed it
                os.write(pipe.fileno(), f"{group}\n".encode())

    def dismiss(self) -> None:
        """End it, and nothing else."""
        self.watch(0)
        pipe = self._shell.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
        self._shell.wait()


def end_group(group: int, gone: Callable[[], bool], seconds: float) -> None:
    """End a process group: kindly, and by force what is left of it once its leader is gone or the time is over."""
    for number, wait in ((signal.SIGTERM, seconds), (signal.SIGKILL, 0.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left, or zombies alone (macOS)
            os.killpg(group, number)
        until = time.monotonic() + wait
        while not gone() and time.monotonic() < until:
            time.sleep(0.002)


__all__ = ["Reaper", "end_group"]
