"""Run sessions of an IDE: started and stopped by requests, observed by its notifications.

```python
async with IdeRunner(endpoint) as ide:
    session = ide.start(SessionRequest(configurations, env, args), output, note=note)
    state = await session.wait_beyond(None)
```
"""

import asyncio
import logging
import secrets
import string
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Protocol, Self

from msgspec import Struct

from levelset import replace
from levelset.aio import Supervisor, timing
from levelset_dcp.ide.connection import IdeClient, NotificationSocket
from levelset_dcp.ide.protocol import (
    IdeEndpoint,
    IdeError,
    IdeInfo,
    LogLine,
    Notification,
    ProcessRestarted,
    SessionMessage,
    SessionTerminated,
    error_text,
    parse_info,
    parse_notification,
    run_session_body,
    session_id_of,
)
from levelset_machine import Ended, LogSink, StopFailed

__all__ = ["IdeRunner", "IdeTimes", "Output", "RunSession", "SessionRequest", "SessionState"]

_LETTERS: Final = string.ascii_lowercase + string.digits
_EARLY_SESSIONS: Final = 100
_EARLY_NOTIFICATIONS: Final = 1000
log = logging.getLogger(__name__)


class IdeTimes(Struct, frozen=True, kw_only=True):
    """How long the IDE is waited for, in seconds."""

    request: float = 120.0
    silence: float = 20.0
    """How long the WebSocket may be silent before it is opened again."""
    ping: float = 5.0
    """The time between pings; 0 for none."""
    reconnect: float = 1.0
    termination: float = 10.0
    """How long the notification of the end may take after a session was stopped."""

    @classmethod
    def of_environment(cls, env: Mapping[str, str]) -> "IdeTimes":
        """The times of upstream's variables; what is not a positive number is ignored."""
        names = {
            "request": "DCP_IDE_REQUEST_TIMEOUT_SECONDS",
            "silence": "DCP_IDE_NOTIFICATION_TIMEOUT_SECONDS",
            "ping": "DCP_IDE_NOTIFICATION_KEEPALIVE_SECONDS",
        }
        numbers = {field: _number(env.get(name, "")) for field, name in names.items()}
        return cls(**{field: one for field, one in numbers.items() if one or (one == 0 and field == "ping")})


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class SessionRequest(Struct, frozen=True):
    """What an IDE should run."""

    configurations: str | None
    """The launch configurations, as JSON."""
    env: Mapping[str, str]
    args: tuple[str, ...]


class SessionState(Struct, frozen=True):
    """The observed state of a run session."""

    id: str = ""
    """Its ID; empty until the IDE has started it."""
    pid: int | None = None
    started_at: datetime | None = None
    files: tuple[str, str] = ("", "")
    """The files of its stdout and stderr, once it was started."""
    error: str = ""
    """Why it could not be started."""
    end: Ended | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or never began."""
        return bool(self.error) or self.end is not None


class Output(Protocol):
    """Where the output of a session goes."""

    @property
    def files(self) -> tuple[str, str]:
        """The paths of both logs."""
        ...

    def open(self) -> tuple[LogSink, LogSink]:
        """Opens the logs of stdout and stderr."""
        ...


class RunSession:
    """One run session, from the request for it to its end; its logs are open while it runs."""

    def __init__(self, output: Output, *, note: Callable[[str], None], now: Callable[[], datetime]) -> None:
        self.state = SessionState()
        self._output, self._note, self._now = output, note, now
        self._sinks: tuple[LogSink, ...] = ()
        self._changed = asyncio.Event()

    async def wait_beyond(self, seen: SessionState | None) -> SessionState:
        """The state once it is another one than `seen`."""
        while self.state == seen:
            await self._changed.wait()
        return self.state

    async def wait_over(self) -> SessionState:
        """The state once the session is over."""
        seen: SessionState | None = None
        while seen is None or not seen.is_over:
            seen = await self.wait_beyond(seen)
        return seen

    def begin(self, session: str, early: tuple[Notification, ...]) -> None:
        """The IDE has started it; `early` are the notifications that came before the response."""
        has_run = any(isinstance(one, ProcessRestarted) for one in early)
        if not has_run and any(isinstance(one, SessionTerminated) for one in early):
            for one in early:
                self._next(self.state, one)
            self.fail("the IDE ended it before the program ran")
            return
        self._sinks = self._output.open()
        # One change for all of it: what ended at once is seen with its exit code.
        state = replace(self.state, id=session, started_at=self._now(), files=self._output.files)
        for one in early:
            state = self._next(state, one)
        self._set(state)

    def apply(self, one: Notification) -> None:
        """Applies a notification."""
        self._set(self._next(self.state, one))

    def fail(self, message: str) -> None:
        """It could not be started."""
        self._set(SessionState(error=message))

    def lose(self) -> None:
        """It is gone, and its exit code is unknown."""
        self._set(replace(self.state, end=self.state.end or Ended(0, self._now(), is_known=False)))

    def _next(self, state: SessionState, one: Notification) -> SessionState:
        if state.is_over:
            return state
        match one:
            case ProcessRestarted():
                return replace(state, pid=one.pid)
            case SessionTerminated():
                return replace(state, end=Ended(one.code or 0, self._now(), is_known=one.code is not None))
            case LogLine():
                for sink in self._sinks[int(one.is_std_err) :][:1]:
                    text = one.log_message.removesuffix("\n").removesuffix("\r")
                    sink.write(text.encode(errors="replace") + b"\n")
            case SessionMessage():
                if one.text and one.level in ("info", "debug", "error"):
                    self._note(f"IDE, {one.level}: {one.text}")
        return state

    def _set(self, state: SessionState) -> None:
        if state == self.state:
            return
        self.state = state
        if state.is_over:
            for sink in self._sinks:
                sink.close()
        self._changed.set()
        self._changed = asyncio.Event()


class IdeRunner:
    """Runs programs in run sessions of an IDE; the sessions are observed while its block lasts."""

    def __init__(
        self,
        endpoint: IdeEndpoint,
        *,
        prefix: str = "",
        times: IdeTimes | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`prefix` is that of the ID of this program, by which an IDE distinguishes several."""
        self._times = times or IdeTimes()
        instance = prefix + "".join(secrets.choice(_LETTERS) for _ in range(12))
        self._client = IdeClient(endpoint, instance=instance, timeout=self._times.request)
        self._now = now
        self._tasks = Supervisor(name="ide", grace=0.0)
        self._info: IdeInfo | None = None
        self._subscribed = asyncio.Event()
        self._problem = ""
        self._count = 0
        self._sessions: dict[str, RunSession] = {}
        self._early: OrderedDict[str, list[Notification]] = OrderedDict()
        """Notifications of sessions whose response has not arrived yet."""

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            for session in tuple(self._sessions.values()):
                session.lose()

    def start(self, request: SessionRequest, output: Output, *, note: Callable[[str], None]) -> RunSession:
        """Requests a run session in the background; `note` gets the messages of the IDE about it."""
        session = RunSession(output, note=note, now=self._now)
        self._count += 1
        self._tasks.start(f"start {self._count}", self._start(session, request))
        return session

    async def stop(self, session: RunSession) -> None:
        """Stops a session that was started, and returns when it is over; raises StopFailed."""
        if session.state.is_over:
            return
        try:
            answer = await self._client.send("DELETE", "run_session", session.state.id)
        except IdeError as error:
            raise StopFailed(f"the run session was not stopped: {error}") from error
        if answer.status not in (200, 204):
            raise StopFailed(f"the IDE did not stop it ({answer.status}): {error_text(answer.body)}".rstrip(": "))
        try:
            # 204: the IDE does not know it, so that no notification is to be expected.
            async with asyncio.timeout(self._times.termination if answer.status == 200 else 0):
                await session.wait_over()
        except TimeoutError:
            session.lose()
        self._forget(session.state.id)

    async def _start(self, session: RunSession, request: SessionRequest) -> None:
        try:
            info = await self._connected()
            body = run_session_body(request.configurations, request.env, request.args, info.types)
            found = session_id_of(await self._client.send("PUT", "run_session", body=body))
        except IdeError as error:
            session.fail(str(error))
            return
        self._sessions[found] = session
        session.begin(found, tuple(self._early.pop(found, ())))
        if session.state.is_over:
            self._forget(found)

    async def _connected(self) -> IdeInfo:
        """What the IDE supports, once its notifications are received: none of a new session may be missed."""
        if self._info is None:
            self._info = parse_info(await self._client.send("GET", "info"))
            self._client.version = self._info.version
        if "notifications" not in self._tasks.running:
            self._tasks.start("notifications", self._read_notifications(self._info))
        try:
            async with asyncio.timeout(self._times.request):
                await self._subscribed.wait()
        except TimeoutError:
            raise IdeError(self._problem or "the IDE did not accept the subscription to notifications") from None
        return self._info

    async def _read_notifications(self, info: IdeInfo) -> None:
        """Receives notifications, on a new connection when one is lost."""
        while True:
            try:
                async with self._client.notifications() as socket:
                    self._subscribed.set()
                    await self._receive(socket, self._times.silence if info.sends_pongs else None)
            except IdeError as error:
                self._problem = str(error)
                log.warning("the notifications of the IDE are interrupted: %s", error)
            finally:
                self._subscribed.clear()
            await timing.sleep(self._times.reconnect)

    async def _receive(self, socket: NotificationSocket, silence: float | None) -> None:
        pinging = asyncio.create_task(self._ping(socket), name="pings of the IDE")
        try:
            while (data := await socket.receive(within=silence if self._times.ping else None)) is not None:
                one = parse_notification(data)
                if one is not None:
                    self._dispatch(one)
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)
            socket.close()

    async def _ping(self, socket: NotificationSocket) -> None:
        while self._times.ping:
            await timing.sleep(self._times.ping)
            socket.ping()

    def _dispatch(self, one: Notification) -> None:
        session = self._sessions.get(one.session_id)
        if session is None:
            held = self._early.setdefault(one.session_id, [])
            if len(held) < _EARLY_NOTIFICATIONS:
                held.append(one)
            while len(self._early) > _EARLY_SESSIONS:
                self._early.popitem(last=False)
            return
        session.apply(one)
        if session.state.is_over:
            self._forget(one.session_id)

    def _forget(self, session: str) -> None:
        self._sessions.pop(session, None)
