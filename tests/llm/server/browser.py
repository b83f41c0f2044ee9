"""A headless Chromium, driven by the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
SECONDS = 60.0
_BEGIN = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads from its descriptor 3 and writes to its 4."""


def program() -> str:
    """The browser. AssertionError where there is none: pages are not tested without."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found, f"none of {', '.join(PROGRAMS)} is installed; on Debian: apt-get install chromium-headless-shell"
    return found


class Page:
    """One page, looked at and typed into as a person would."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out, self._held, self._number, self._session = into, out, b"", 0, ""
        self.problems: list[str] = []
        """What the page or the browser complained of: exceptions, refused scripts and requests."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Goes to an address, and waits until its script has run."""
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, script: str) -> Any:
        """What an expression gives."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = SECONDS) -> Any:
        """Waits until an expression is true, and gives it."""
        deadline = time.monotonic() + seconds
        while not (found := self.value(script)):
            shown = self.value("document.body?.innerText")
            assert time.monotonic() < deadline, f"{script} did not come true; the page shows {shown!r}"
            time.sleep(0.02)
        return found

    def type(self, text: str, enter: bool = True) -> None:
        """Types where the cursor is."""
        self._call("Input.insertText", text=text)
        if enter:
            for kind in ("keyDown", "keyUp"):
                self._call(
                    "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r"
                )

    def click(self, selector: str) -> None:
        """Presses the mouse in the middle of an element."""
        script = "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
        box = f"{script}(document.querySelector({selector!r}).getBoundingClientRect())"
        x, y = self.value(box)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                assert "error" not in found, (method, found)
                return dict(found["result"])
            if found.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(found["params"]["exceptionDetails"]))
            elif found.get("method") == "Log.entryAdded" and found["params"]["entry"]["level"] == "error":
                self.problems.append(found["params"]["entry"]["text"])

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._out], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            piece = os.read(self._out, 1 << 16)
            assert piece, "the browser has ended"
            self._held += piece
        line, _, self._held = self._held.partition(b"\0")
        return dict(json.loads(line))


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """A browser whose profile lies in ``folder``; it reaches this machine alone."""
    (theirs_in, into), (out, theirs_out) = os.pipe(), os.pipe()
    command = [
        program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    begin = [sys.executable, "-S", "-c", _BEGIN, str(theirs_in), str(theirs_out), *command]
    process = subprocess.Popen(
        begin, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(into, out)
    finally:
        os.close(into)
        os.close(out)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
