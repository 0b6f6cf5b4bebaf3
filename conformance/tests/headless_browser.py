"""A headless Chromium for tests, asked over a pipe by its own protocol (CDP); nothing is installed for it."""

import json
import os
import select
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
PATIENCE = 60
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


class Browser:
    """One tab; what its console says and what it asks the network for is kept."""

    def __init__(self, read: int, write: int) -> None:
        self._in, self._out = os.fdopen(write, "wb", buffering=0), os.fdopen(read, "rb", buffering=0)
        self._number, self._rest, self._session = 0, b"", ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """Call a method, and keep the events that come before its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        self._in.write(json.dumps(message).encode() + b"\0")
        while (told := self._next()).get("id") != self._number:
            self._note(told)
        assert "error" not in told, told
        return told["result"]

    def close(self) -> None:
        """Let go of the pipes."""
        self._in.close()
        self._out.close()

    def open(self, path: Path, anchor: str = "") -> None:
        """Load a file and wait until it is there."""
        self.complaints, self.requests = [], []
        self.ask("Page.navigate", url=f"file://{path}{anchor}")
        while self.value("document.readyState") != "complete":
            pass

    def value(self, expression: str) -> Any:
        """Give the value of an expression in the page."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def width(self, width: int, *, dark: bool = False) -> None:
        """Show pages in a window of that width, light or dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], PATIENCE)
            more = self._out.read(1 << 16) if ready else b""
            assert more, "the browser does not answer" if not ready else "the browser is gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _note(self, told: dict[str, Any]) -> None:
        method, params = told.get("method", ""), told.get("params", {})
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(params)[:500])
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@contextmanager
def browser(folder: Path) -> Generator[Browser]:
    """Start a browser with an empty profile in ``folder``; end it however the test ends."""
    to_read, to_write = os.pipe(), os.pipe()
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
    fds = (to_read[0], to_write[1])
    shell = ["bash", "-c", f'exec "$@" 3<&{fds[0]} 4>&{fds[1]}', "bash", *command]
    process = subprocess.Popen(shell, pass_fds=fds, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for fd in fds:
        os.close(fd)
    tab = Browser(to_write[0], to_read[1])
    try:
        yield tab
    finally:
        tab.close()
        process.kill()
        process.wait(20)
