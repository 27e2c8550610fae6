"""A real Chromium, driven over its own protocol; it comes from Debian's package."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from waiting import PATIENCE_S, until
from websockets.sync.client import ClientConnection, connect

#: Path of a Chromium; without it the one on the path is taken, or Debian's is installed.
PROGRAM = "PERFMODEL_CHROMIUM"

_POLL_S = 0.03

#: Middle of an element that stands still from one frame to the next and has nothing before it;
#: null while it does not.
_MIDDLE = """
(selector) => new Promise((tell) => {
  const element = document.querySelector(selector);
  if (!element) return tell(null);
  element.scrollIntoView({block: 'center'});
  const box = () => {
    const {x, y, width, height} = element.getBoundingClientRect();
    return [x + width / 2, y + height / 2, width, height];
  };
  requestAnimationFrame(() => {
    const before = box();
    requestAnimationFrame(() => {
      const now = box();
      const hit = document.elementFromPoint(now[0], now[1]);
      const own = element.closest('label') ?? element;
      const still = before.every((value, i) => value === now[i]);
      tell(still && hit && own.contains(hit) ? now.slice(0, 2) : null);
    });
  });
})
"""


def chromium() -> str:
    """Return the program, or skip with the reason."""
    names = (os.environ.get(PROGRAM), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    return found or _installed()


def _installed() -> str:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        pytest.skip(f"no Chromium here, and none can be installed; {PROGRAM} may name one")
    install = [
        "apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "-q",
        "--no-install-recommends", "chromium",
    ]  # fmt: skip
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    said = ""
    for command in (install, ["apt-get", "update", "-q"], install):
        try:
            run = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=300
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"Chromium cannot be installed here in time: {' '.join(command)}")
        if found := shutil.which("chromium"):
            return found
        said = run.stderr.strip()[-200:]
    pytest.skip(f"Chromium cannot be installed here: {said}")


@dataclass(kw_only=True)
class Tab:
    """One page of a browser.

    Parameters
    ----------
    socket : ClientConnection
    downloads : Path
        Folder of what the page saves.
    requests : list of str
        Addresses that the page asked for.
    complaints : list of str
        Errors of its console.
    """

    socket: ClientConnection
    downloads: Path
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _loaded: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        number = next(self._numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE_S))
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif message.get("method") == "Page.lifecycleEvent" and said["name"] == "load":
            self._loaded.add(said["loaderId"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.complaints.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; promises are awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Wait until an expression is true, and return its value."""
        until_s = time.monotonic() + PATIENCE_S
        # An element comes as an object without fields, which Python takes for nothing.
        while (value := self.run(script)) in (None, False, 0, ""):
            if time.monotonic() > until_s:
                shown = " ".join(self.run("document.body.innerText").split())[:400]
                raise AssertionError(f"never true: {script} {self.complaints}; shown: {shown}")
            time.sleep(_POLL_S)
        return value

    def open(self, url: str) -> None:
        """Go to an address and wait until it is loaded."""
        answer = self.send("Page.navigate", url=url)
        assert "errorText" not in answer, f"{url}: {answer['errorText']}"
        # Until then a question might still reach the page before it, which looks alike.
        until_s = time.monotonic() + PATIENCE_S
        while answer["loaderId"] not in self._loaded:
            assert time.monotonic() < until_s, f"{url} was not loaded"
            self._note(json.loads(self.socket.recv(timeout=PATIENCE_S)))

    def settle(self) -> None:
        """Wait until what follows from a new layout, such as pictures of another width, is done."""
        frame = "new Promise((tell) => requestAnimationFrame(() => tell()))"
        self.run(f"{frame}.then(() => {frame})")

    def text(self, selector: str) -> str:
        """Return the text of an element as it is shown."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def middle(self, selector: str) -> tuple[float, float]:
        """Scroll to an element, wait until it stands still and can be seen, return its middle."""
        x, y = self.wait(f"({_MIDDLE})({json.dumps(selector)})")
        return x, y

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def point(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def write(self, text: str) -> None:
        """Type over what the element in focus holds."""
        self.run("document.activeElement.select?.()")
        self.send("Input.insertText", text=text)

    def press(self, key: str, *, text: str = "", shift: bool = False) -> None:
        """Press a key by its name, such as ``Tab``."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowRight": 39, "ArrowDown": 40}
        text = text or {"Enter": "\r", " ": " "}.get(key, "")
        same = {"key": key, "modifiers": 8 * shift, "windowsVirtualKeyCode": codes[key]}
        self.send(
            "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **same
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **same)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show the page on a screen of a size, in one of the two colour schemes."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what is shown as a PNG."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def saved(self, name: str) -> str:
        """Wait for a file that the page saves, and return its text."""
        path = self.downloads / name
        until(lambda: path.is_file() and path.stat().st_size, every_s=_POLL_S)
        text = path.read_text(encoding="utf-8")
        path.unlink()
        return text


@contextlib.contextmanager
def browser(folder: Path, *options: str) -> Iterator[Tab]:
    """Run a browser with a profile of its own and some options more, and yield its page."""
    downloads = folder / "downloads"
    downloads.mkdir()
    profile = folder / "profile"
    # Named processes of a container have no sandbox of their own; the page is ours.
    command = [
        chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-extensions", "--disable-sync", "--hide-scrollbars", "--mute-audio",
        "--remote-debugging-port=0", f"--user-data-dir={profile}", *options, "about:blank",
    ]  # fmt: skip
    # What it leaves behind goes with the folder. Not below `folder`: a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as scratch:
        with (folder / "chromium.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log,
                env={**os.environ, "TMPDIR": scratch},
            )  # fmt: skip
        try:
            with connect(_page(profile / "DevToolsActivePort", process), max_size=None,
                         open_timeout=PATIENCE_S) as socket:  # fmt: skip
                yield _tab(socket, downloads)
        finally:
            _end(process)


def _tab(socket: ClientConnection, downloads: Path) -> Tab:
    tab = Tab(socket=socket, downloads=downloads)
    for domain in ("Page", "Runtime", "Network", "Log"):
        tab.send(f"{domain}.enable")
    tab.send("Page.setLifecycleEventsEnabled", enabled=True)
    tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
    return tab


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _page(ports: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address of the first page, when there is one."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        lines = ports.read_text().splitlines() if ports.is_file() else []
        for tab in _tabs(int(lines[0])) if len(lines) > 1 else []:
            if tab["type"] == "page":
                return str(tab["webSocketDebuggerUrl"])
        assert process.poll() is None, "Chromium ended"
        assert time.monotonic() < until_s, "Chromium does not start"
        time.sleep(_POLL_S)


def _tabs(port: int) -> list[dict[str, Any]]:
    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE_S) as answer:
        tabs: list[dict[str, Any]] = json.load(answer)
    return tabs
