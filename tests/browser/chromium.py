"""A headless Chromium for the tests of pages: found on PATH, or installed where that is possible."""

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests import programs

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")
START_SECONDS, ANSWER_SECONDS = 30.0, 30.0


class BrowserError(Exception):
    """It did not do what was asked."""

    code = "browser_unavailable"


def prepare() -> Path:
    """The browser's executable: one on PATH, else Debian's, installed once by root.

    Raises:
        ProgramMissing: with the ways out.
    """
    return programs.prepare(NAMES, PACKAGES, "browser")


@dataclass
class Tab:
    """One page over the DevTools protocol. `events` holds what the page did since it was opened."""

    socket: aiohttp.ClientWebSocketResponse
    session: str = ""
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _last: int = 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        await self.socket.send_json(message | ({"sessionId": self.session} if self.session else {}))
        answer = await self._until(lambda one: one.get("id") == self._last)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, url: str, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Load a page without any network, at a size and in a colour scheme, and wait until it is whole."""
        self.events.clear()
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)
        await self.call("Page.navigate", url=url)
        await self._until(lambda one: one.get("method") == "Page.loadEventFired")

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    async def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def complaints(self) -> list[str]:
        """Everything the console shows: errors, warnings, exceptions, refused requests."""
        names = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [str(parameters) for method, parameters in self.events if method in names]

    @property
    def requested(self) -> list[str]:
        """Addresses the page asked for, its own included."""
        return [p["request"]["url"] for method, p in self.events if method == "Network.requestWillBeSent"]

    async def _until(self, wanted: Any) -> dict[str, Any]:
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                message: dict[str, Any] = await self.socket.receive_json()
                if "method" in message:
                    self.events.append((message["method"], message["params"]))
                if wanted(message):
                    return message


@asynccontextmanager
async def tab(executable: Path, profile: Path) -> AsyncIterator[Tab]:
    """A fresh browser with one tab that has no network; ended with the block."""
    process = await _start(executable, profile)
    try:
        address = await _address(process, profile)
        async with aiohttp.ClientSession() as client, client.ws_connect(address, max_msg_size=0) as socket:
            yield await _attached(Tab(socket))
    finally:
        process.kill()
        await process.wait()


async def _start(executable: Path, profile: Path) -> asyncio.subprocess.Process:
    options = {"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"}
    options |= {"--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars"}
    place = ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    nowhere = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        executable, *sorted(options), *place, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=_environment(profile)
    )


def _environment(profile: Path) -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(profile), "LANG": "C.UTF-8"}


async def _address(process: asyncio.subprocess.Process, profile: Path) -> str:
    """Where the browser listens, which it writes into its profile."""
    place = profile / "DevToolsActivePort"
    try:
        async with asyncio.timeout(START_SECONDS):
            while not (place.exists() and len(lines := place.read_text().split()) == 2):
                if process.returncode is not None:
                    raise BrowserError(f"the browser ended with {process.returncode} before it listened")
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise BrowserError(f"the browser did not listen within {START_SECONDS:.0f} s") from error
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


async def _attached(tab: Tab) -> Tab:
    target = await tab.call("Target.createTarget", url="about:blank")
    attached = await tab.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    tab.session = attached["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        await tab.call(f"{domain}.enable")
    await tab.call(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    return tab


if __name__ == "__main__":
    try:
        print(prepare())
    except programs.ProgramMissing as error:
        sys.exit(str(error))
