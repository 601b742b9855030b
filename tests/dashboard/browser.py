"""Chromium without a window, controlled through pipes with its DevTools protocol: pages, texts and errors."""

import asyncio
import base64
import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["BROWSER", "Browser", "Tab", "open_browser", "require_browser"]

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or ""

# The browser reads commands from descriptor 3, and writes its answers to 4.
_AS_3_AND_4 = """
import fcntl, os, sys
given = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 50) for one in sys.argv[1:3]]
os.dup2(given[0], 3)
os.dup2(given[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def require_browser() -> None:
    """Skips the test, with the reason, where there is no Chromium."""
    if not BROWSER:
        pytest.skip("Chromium is not on PATH; install it (Debian: chromium)")


class Browser:
    """The browser: sends commands, and collects the complaints of all pages."""

    def __init__(self, commands: asyncio.WriteTransport, answers: asyncio.StreamReader) -> None:
        self._commands = commands
        self._answers = answers
        self._number = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []
        """Errors and warnings on the consoles of pages, and what their scripts have raised."""
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        """The result of a command."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        answer = self._pending[self._number] = asyncio.get_running_loop().create_future()
        self._commands.write(json.dumps(command).encode() + b"\0")
        async with asyncio.timeout(60):
            return await answer

    async def open(self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> "Tab":
        """A new tab at this address."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            await self.call(f"{domain}.enable", session)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", session, features=[scheme])
        await self.call("Page.navigate", session, url=url)
        return Tab(self, session, target)

    async def show(self, url: str, until: str) -> str:
        """The HTML of the page at this address, as soon as its text contains `until`; its tab is closed again."""
        tab = await self.open(url)
        try:
            return await tab.html(until)
        finally:
            await tab.close()

    async def framed(self) -> list[str]:
        """The addresses at which the frames of other sites really are; that of a refused one is the browser's own."""
        targets = (await self.call("Target.getTargets", filter=[{}]))["targetInfos"]
        frames = [one["targetId"] for one in targets if one["type"] == "iframe"]
        return [await self._location(one) for one in frames]

    async def _location(self, target: str) -> str:
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        found = await self.call("Runtime.evaluate", session, expression="location.href")
        return str(found["result"]["value"])

    async def _read(self) -> None:
        while True:
            message = json.loads((await self._answers.readuntil(b"\0"))[:-1])
            if (waiting := self._pending.pop(message.get("id"), None)) is not None and not waiting.done():
                waiting.set_result(message.get("result") or {})  # there is none while the page is being replaced
            self._note(message.get("method"), message.get("params") or {})

    def _note(self, method: str | None, params: Any) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.complaints.append(" ".join(str(one.get("value")) for one in params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(f"{params['entry']['text']} ({params['entry'].get('url')})")
            case _:
                pass

    async def stop(self) -> None:
        """Ends to read its answers."""
        self._reader.cancel()
        await asyncio.wait([self._reader])


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    async def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command for this page."""
        return await self._browser.call(method, self._session, **parameters)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = await self._browser.call(
            "Runtime.evaluate", self._session, expression=script, awaitPromise=True, returnByValue=True
        )
        return found.get("result", {}).get("value")

    async def wait(self, script: str, seconds: float = 60.0) -> Any:
        """The value of an expression as soon as it is true; AssertionError with the page if that takes too long."""
        clock = asyncio.get_running_loop().time
        limit = clock() + seconds
        while clock() < limit:
            if found := await self.run(script):
                return found
            await asyncio.sleep(0.05)
        shown = await self.run("document.body.innerText")
        raise AssertionError(f"not true in the page: {script}\n{str(shown)[:3_000]}\n{self._browser.complaints}")

    async def text(self, until: str) -> str:
        """The text of the page as soon as it contains `until`."""
        return str(await self.wait(f"document.body.innerText.includes({json.dumps(until)}) && document.body.innerText"))

    async def html(self, until: str) -> str:
        """The HTML of the page as soon as it contains `until`, which is written as in HTML."""
        page = "document.documentElement.outerHTML"
        return str(await self.wait(f"{page}.includes({json.dumps(until)}) && {page}"))

    async def go(self, place: str) -> None:
        """Goes to another place of the same page."""
        await self.run(f"location.hash = {json.dumps(place)}")

    async def press(self, key: str) -> None:
        """Presses a key; a single character is also typed."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self._browser.call("Input.dispatchKeyEvent", self._session, type=kind, key=key, **text)

    async def click(self, selector: str) -> None:
        """Clicks on the first element of a selector, once it is there and takes clicks."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.wait(f"{found} !== null && !{found}.disabled")
        await self.run(f"{found}.click()")

    async def click_text(self, selector: str, text: str) -> None:
        """Clicks on the first element of a selector whose text begins so, once it is there and takes clicks."""
        begins = f"one.textContent.startsWith({json.dumps(text)})"
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find((one) => {begins})"
        await self.wait(f"{found} !== undefined && !{found}.disabled")
        await self.run(f"{found}.click()")

    async def picture(self, path: Path) -> None:
        """Writes what is visible as a PNG."""
        found = await self._browser.call("Page.captureScreenshot", self._session, format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def close(self) -> None:
        """Closes the tab."""
        await self._browser.call("Target.closeTarget", targetId=self._target)


@asynccontextmanager
async def open_browser(folder: Path) -> AsyncGenerator[Browser, None]:
    """A browser for which the name evil.test leads to this machine."""
    (their_input, commands), (answers, their_output) = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--remote-debugging-pipe"]
    command = [BROWSER, *options, "--hide-scrollbars", "--host-resolver-rules=MAP evil.test 127.0.0.1"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _AS_3_AND_4, str(their_input), str(their_output), *command),
        pass_fds=(their_input, their_output),
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.close(their_input)
    os.close(their_output)
    reader = asyncio.StreamReader(limit=2**26)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(answers, "rb"))
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(commands, "wb"))
    browser = Browser(writer, reader)
    try:
        yield browser
    finally:
        await browser.stop()
        writer.close()
        transport.close()
        if process.returncode is None:
            process.terminate()
        await process.wait()
