"""The audit log: one line of JSON per request with the user, the verb, the object, the time and the status.

A line is an `audit.k8s.io/v1` Event at the level Metadata: no bodies, no queries, no credentials. Requests never wait
for the log: a thread writes the lines of a bounded queue. If it cannot keep up, lines are dropped and counted, and the
count is written to the log.
"""

import enum
import json
import logging
import os
import queue
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from levelset.apiserver.authn.request_attributes import non_resource_attributes, resource_attributes
from levelset.apiserver.authn.users import User, user_info
from levelset.apiserver.registry.metadata import format_timestamp
from levelset.apiserver.resources.server_state import utc_now
from levelset.apiserver.routes import verb_of
from levelset.apiserver.wire.request_paths import parse_request_path
from levelset.errors import ApiError, ConfigError
from levelset.http import Failure, Pieces, Request, Response

__all__ = ["AuditLog", "RotatingFile"]


log = logging.getLogger(__name__)

_MAX_QUEUED: Final = 10_000
_BATCH: Final = 256
_MAX_TEXT_LENGTH: Final = 1024
_MAX_ANNOTATION_LENGTH: Final = 10 * 1024
_MAX_ANNOTATIONS: Final = 64
_MEBI: Final = 1024 * 1024


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """The data of one audit line until it is written; small, because thousands may be queued."""

    audit_id: str
    began: datetime
    ended: datetime
    method: str
    path: str
    query: str
    agent: str
    user: User | None
    status: int
    is_stream: bool
    remarks: dict[str, str] | None


class _Command(enum.Enum):
    """Commands to the writer thread, in the same queue as the entries."""

    REOPEN = enum.auto()
    END = enum.auto()


class AuditLog:
    """Writes the log to the file `path`, or to standard output if that is `-`.

    Of lines that wait to be written there are at most `max_queued`; more are dropped and counted. The file has mode
    0600. At `max_bytes` it becomes `path.1`, and so on up to `backups`. `reopen` (which `levelset serve` calls on
    SIGHUP) continues in a new file after an external log rotation moved the old one away.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 100 * _MEBI,
        backups: int = 3,
        max_queued: int = _MAX_QUEUED,
    ) -> None:
        self._path = path
        self._file = None if str(path) == "-" else RotatingFile(path, max_bytes=max_bytes, backups=backups)
        self._queue: queue.Queue[_Entry | _Command] = queue.Queue(max_queued)
        self._reopen_requested = False
        self._thread: threading.Thread | None = None
        self._reported_drops = 0
        self.dropped = 0
        """The number of lines that were dropped."""
        self.now: Callable[[], datetime] = utc_now

    def open(self) -> None:
        """Opens the file and starts the writer thread; raises ConfigError if the file cannot be opened. Blocks."""
        if self._thread is not None:
            return
        try:
            if self._file is not None:
                self._file.open()
        except OSError as error:
            raise ConfigError(f"The audit log {self._path} cannot be written: {error.strerror or error}.") from error
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    def reopen(self) -> None:
        """Continues in a new file of the same name, after the old one was moved away."""
        self._reopen_requested = True
        with suppress(queue.Full):  # then the thread is busy, and checks the flag soon anyway
            self._queue.put_nowait(_Command.REOPEN)

    def close(self) -> None:
        """Writes the queued lines and stops; blocks for at most 10 s."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(_Command.END)
            thread.join(10)
        if self._file is not None:
            self._file.close()

    def observe(
        self,
        request: Request,
        user: User | None,
        audit_id: str,
        began: datetime,
        result: Response | Awaitable[Response],
    ) -> Response | Awaitable[Response]:
        """Returns the same result, and logs it when it is available."""
        if isinstance(result, Response):
            self._enqueue(request, user, audit_id, began, result)
            return result
        return self._later(request, user, audit_id, began, result)

    def observe_rejected(self, failure: Failure, result: Response) -> Response:
        """Logs the rejection of input that is not a valid HTTP request, and returns the same response."""
        if failure.request is None or failure.cause is None:
            request = failure.request or Request("", "")
            self._enqueue(request, None, "", self.now(), result)
        return result

    async def _later(
        self, request: Request, user: User | None, audit_id: str, began: datetime, result: Awaitable[Response]
    ) -> Response:
        try:
            response = await result
        except BaseException:  # disconnected or shutting down: a write may still have been committed
            self._enqueue(request, user, audit_id, began, Response(499))
            raise
        self._enqueue(request, user, audit_id, began, response)
        return response

    def _enqueue(self, request: Request, user: User | None, audit_id: str, began: datetime, response: Response) -> None:
        agent = (request.headers.find("user-agent") or "")[:_MAX_TEXT_LENGTH]
        is_stream = not isinstance(response.body, bytes | Pieces) or response.upgrade is not None
        path, query = request.path[:_MAX_TEXT_LENGTH], request.query[: 2 * _MAX_TEXT_LENGTH]
        status, remarks = response.status, _bounded(request.remarks)
        entry = _Entry(
            audit_id, began, self.now(), request.method, path, query, agent, user, status, is_stream, remarks
        )
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        is_over = False
        while not is_over:
            waiting = [self._queue.get()]
            while len(waiting) < _BATCH and not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            is_over = _Command.END in waiting
            entries = [one for one in waiting if isinstance(one, _Entry)]
            try:
                if self._reopen_requested and self._file is not None:
                    self._reopen_requested = False
                    self._file.open()
                self._write([*map(_line, entries), *self._drop_report()])
            except OSError as error:
                self.dropped += len(entries)
                log.warning("audit log cannot be written", extra={"path": str(self._path), "error": str(error)})

    def _drop_report(self) -> list[bytes]:
        """Returns a line with the number of lines dropped since the last one, if any."""
        missing, self._reported_drops = self.dropped - self._reported_drops, self.dropped
        if not missing:
            return []
        log.warning("audit log lines dropped", extra={"count": missing})
        tree = {"kind": "Dropped", "apiVersion": "levelset/v1", "count": missing}
        return [msgspec.json.encode({**tree, "stageTimestamp": _time(self.now())}) + b"\n"]

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        if self._file is not None:
            self._file.write(b"".join(lines))
        else:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()


class RotatingFile:
    """Appends to a file with mode 0600 and rotates it at `max_bytes`: `file.1` is the previous one, `file.2` older.

    All methods block, and raise OSError.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int, backups: int) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._backups = backups
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Opens or creates the file; makes it private if others can read it, and rejects what is not a regular file.

        Symbolic links are not followed: in a directory that others can write to, one could point anywhere.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise OSError(0, "it is not a regular file", str(self._path))
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
        self.close()
        self._descriptor, self._size = descriptor, found.st_size

    def write(self, data: bytes) -> None:
        """Appends whole lines; rotates first if the file would exceed `max_bytes`."""
        if self._max_bytes and self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        if self._descriptor < 0:
            self.open()
        view = memoryview(data)
        while view:
            done = os.write(self._descriptor, view)
            self._size += done
            view = view[done:]

    def close(self) -> None:
        """Closes the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _rotate(self) -> None:
        self.close()
        for number in range(self._backups, 0, -1):
            older = self._path if number == 1 else self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        if not self._backups:
            self._path.unlink(missing_ok=True)
        self.open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _line(entry: _Entry) -> bytes:
    tree: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": entry.audit_id,
        "stage": "ResponseStarted" if entry.is_stream else "ResponseComplete",
        "requestURI": entry.path,
        **_verb_and_object(entry),
        **_users(entry.user),
        "userAgent": entry.agent,
        "responseStatus": {"code": entry.status},
        "requestReceivedTimestamp": _time(entry.began),
        "stageTimestamp": _time(entry.ended),
    }
    if entry.status in (401, 403) or entry.remarks:
        decision = {"authorization.k8s.io/decision": "forbid"} if entry.status in (401, 403) else {}
        tree["annotations"] = {**(entry.remarks or {}), **decision}
    try:
        return msgspec.json.encode(tree) + b"\n"
    except UnicodeEncodeError:  # a path or a name with a lone surrogate
        return json.dumps(tree).encode("ascii") + b"\n"


def _bounded(remarks: dict[str, str] | None) -> dict[str, str] | None:
    """Returns the audit annotations of policies and webhooks, truncated because thousands may be queued."""
    if not remarks:
        return None
    return {
        key[:_MAX_TEXT_LENGTH]: value[:_MAX_ANNOTATION_LENGTH]
        for key, value in list(remarks.items())[:_MAX_ANNOTATIONS]
    }


def _users(user: User | None) -> dict[str, Any]:
    if user is None:
        return {"user": {}}
    if user.impersonated_by is None:
        return {"user": user_info(user)}
    return {"user": user_info(user.impersonated_by), "impersonatedUser": user_info(user)}


def _verb_and_object(entry: _Entry) -> dict[str, Any]:
    request = Request(entry.method, entry.path, entry.query)
    try:
        path = parse_request_path(request.segments)
    except ApiError:
        return {"verb": entry.method.lower()}
    if path is None:
        return {"verb": non_resource_attributes(request).verb}
    attributes = resource_attributes(path, request, verb_of(path, request))
    found = {
        "resource": attributes.resource,
        "namespace": attributes.namespace,
        "name": attributes.name,
        "apiGroup": attributes.group,
        "apiVersion": path.version,
        "subresource": attributes.subresource,
    }
    return {"verb": attributes.verb, "objectRef": {word: value for word, value in found.items() if value}}


def _time(moment: datetime) -> str:
    return f"{format_timestamp(moment)[:-1]}.{moment.microsecond:06d}Z"
