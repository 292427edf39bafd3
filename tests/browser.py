"""A real browser for tests: headless Chromium, asked through its debugging pipe (no other package is needed).

`find_browser` names the program: `TIDELOG_BROWSER`, or the first of Chromium and Chrome on the path; `make
browser` installs Debian's. Without one, tests skip and say why; `TIDELOG_REQUIRE_BROWSER=1` makes that a
failure.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

__all__ = ["Browser", "Tab", "find_browser", "require_browser"]

_PATIENCE_S = 60
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser() -> str | None:
    """The program, or None."""
    named = os.environ.get("TIDELOG_BROWSER")
    found = [named] if named else [path for name in _NAMES if (path := shutil.which(name))]
    return found[0] if found else None


def require_browser() -> str:
    """The program; skips the test if there is none."""
    found = find_browser()
    if found is None:
        reason = "no Chromium on the path: `make browser` installs Debian's, TIDELOG_BROWSER names another"
        if os.environ.get("TIDELOG_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are out of the way of 3 and 4."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


class Browser:
    """A running browser with a profile of its own."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="tidelog-browser-")
        (asked, self._to), (self._from, answers) = _pipe(), _pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        options += ["--disable-dev-shm-usage", f"--user-data-dir={self._profile}", "about:blank"]
        # The browser reads its questions from descriptor 3 and answers on 4.
        script = f'exec 3<&{asked} 4>&{answers} {asked}<&- {answers}>&-; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "browser", program, "--remote-debugging-pipe", *options],
            pass_fds=(asked, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(asked)
        os.close(answers)
        self._waiting = b""
        self._number = 0
        self._events: dict[str, list[dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser; its profile goes."""
        try:
            self.ask("Browser.close")
            self._process.wait(_PATIENCE_S)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(_PATIENCE_S)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a question."""
        self._number += 1
        question: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            question["sessionId"] = session
        os.write(self._to, json.dumps(question).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._from], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise OSError("the browser has gone")
            self._waiting += data
        message, _, self._waiting = self._waiting.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if "method" in answer:
            self._events.setdefault(answer.get("sessionId", ""), []).append(answer)
        return answer

    def events(self, session: str, method: str) -> list[dict[str, Any]]:
        """What a tab has told so far."""
        found = self._events.get(session, [])
        return [one["params"] for one in found if one["method"] == method]

    @contextmanager
    def tab(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Tab]:
        """A new tab, closed at the end."""
        context = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        tab.resize(width, height)
        tab.media(dark=dark)
        for domain in ("Runtime", "Network", "Log", "Page"):
            tab.ask(f"{domain}.enable")
        try:
            yield tab
        finally:
            self.ask("Target.disposeBrowserContext", browserContextId=context)


class Tab:
    """One page in the browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the tab answers to a question of Chrome's DevTools protocol."""
        return self._browser.ask(method, self._session, **parameters)

    def open(self, url: str | Path) -> None:
        """Go to a URL or file, and wait until it is loaded."""
        address = url.absolute().as_uri() if isinstance(url, Path) else url
        self.ask("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address)}) && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of a script in the page; promises are waited for."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Wait until a script's value is true."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.05)
        return value

    def resize(self, width: int, height: int) -> None:
        """Change the size of the window."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, *, dark: bool = False) -> None:
        """Prefer light or dark."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[feature])

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer, and click."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.ask("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        """What is seen, as a PNG file."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def complaints(self) -> list[str]:
        """What the page put on its console as an error or warning, and scripts that failed."""
        told = [
            str(one["args"][0].get("value", one["args"]))
            for one in self._browser.events(self._session, "Runtime.consoleAPICalled")
            if one["type"] in ("error", "warning", "assert")
        ]
        told += [
            one["exceptionDetails"]["text"]
            + str(one["exceptionDetails"].get("exception", {}).get("description"))
            for one in self._browser.events(self._session, "Runtime.exceptionThrown")
        ]
        told += [
            one["entry"]["text"]
            for one in self._browser.events(self._session, "Log.entryAdded")
            if one["entry"]["level"] in ("error", "warning")
        ]
        return told

    def requests(self) -> list[str]:
        """The URLs that the page asked for."""
        found = self._browser.events(self._session, "Network.requestWillBeSent")
        return [one["request"]["url"] for one in found]
