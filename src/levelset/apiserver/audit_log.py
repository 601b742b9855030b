"""The audit log: who asked for what, when, and how it ended, as one line of JSON for each request.

A line has the form of an `audit.k8s.io/v1` Event at the level of metadata: no bodies, no queries, no credentials. The
requests never wait for it: a thread writes what a bounded queue holds, and if that cannot keep up, lines are dropped,
counted, and the count is written down.

A file of lines that only its owner may read, and that gives way to a new one before it grows too large.
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

from levelset.apiserver.authn.request_attributes import attempt_at, attempt_path
from levelset.apiserver.authn.users import Caller, user_info
from levelset.apiserver.registry.metadata import time_text
from levelset.apiserver.resources.server_state import utc_now
from levelset.apiserver.routes import verb_of
from levelset.apiserver.wire.request_paths import read_address
from levelset.errors import ApiError, ConfigError
from levelset.http import Failure, Request, Response

__all__ = ["AuditLog", "LineFile"]


class LineFile:
    """Appends to a file with mode 0600; at `max_bytes` it becomes `file.1`, the one before `file.2`, and so on.

    All methods block, and raise OSError.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int, backups: int) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._backups = backups
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Opens the file, or makes it; one that others could read, or that is no ordinary file, is not used as it is.

        Nothing is written through a symbolic link: in a folder that others may write to, it could lead anywhere.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise OSError(0, "it is no ordinary file", str(self._path))
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
        self.close()
        self._descriptor, self._size = descriptor, found.st_size

    def write(self, data: bytes) -> None:
        """Adds whole lines, in a new file if they would make this one too large."""
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


log = logging.getLogger(__name__)

_MOST_WAITING: Final = 10_000
_BATCH: Final = 256
_LONGEST: Final = 1024
_LONGEST_REMARK: Final = 10 * 1024
_MOST_REMARKS: Final = 64
_MEBI: Final = 1024 * 1024


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a request until its line is written; small, because thousands may wait."""

    audit: str
    began: datetime
    ended: datetime
    method: str
    path: str
    query: str
    agent: str
    caller: Caller | None
    status: int
    is_stream: bool
    remarks: dict[str, str] | None


class _Word(enum.Enum):
    """What the thread is told besides."""

    REOPEN = enum.auto()
    END = enum.auto()


class AuditLog:
    """Writes the log to a file, or to standard output if the path is `-`.

    The file is the owner's alone. At `max_bytes` it becomes `path.1`, and so on up to `backups`; after `reopen` (which
    `levelset serve` calls on SIGHUP) it goes on in a new file, if somebody has moved the old one away.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 100 * _MEBI,
        backups: int = 3,
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        self._path = path
        self._file = None if str(path) == "-" else LineFile(path, max_bytes=max_bytes, backups=backups)
        self._queue: queue.Queue[_Entry | _Word] = queue.Queue(most_waiting)
        self._wants_new = False
        self._thread: threading.Thread | None = None
        self._told = 0
        self.dropped = 0
        """How many lines there was no room for."""
        self.now: Callable[[], datetime] = utc_now

    def open(self) -> None:
        """Opens the file and begins to write; raises ConfigError if there cannot be such a file."""
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
        """Goes on in a new file of the same name, after somebody has moved the old one away."""
        self._wants_new = True
        with suppress(queue.Full):  # then the thread is busy, and looks soon enough
            self._queue.put_nowait(_Word.REOPEN)

    def close(self) -> None:
        """Writes what waits, and ends; blocks meanwhile."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(_Word.END)
            thread.join(10)
        if self._file is not None:
            self._file.close()

    def observe(
        self,
        request: Request,
        caller: Caller | None,
        audit: str,
        began: datetime,
        answer: Response | Awaitable[Response],
    ) -> Response | Awaitable[Response]:
        """The same answer, with a line about it as soon as it is known."""
        if isinstance(answer, Response):
            self._note(request, caller, audit, began, answer)
            return answer
        return self._later(request, caller, audit, began, answer)

    def refuse(self, failure: Failure, answer: Response) -> Response:
        """The same answer to what was no request, or too much of one, with a line about it."""
        if failure.request is None or failure.cause is None:
            request = failure.request or Request("", "")
            self._note(request, None, "", self.now(), answer)
        return answer

    async def _later(
        self, request: Request, caller: Caller | None, audit: str, began: datetime, answer: Awaitable[Response]
    ) -> Response:
        try:
            response = await answer
        except BaseException:  # the client left, or the server stops: a write may have happened all the same
            self._note(request, caller, audit, began, Response(499))
            raise
        self._note(request, caller, audit, began, response)
        return response

    def _note(self, request: Request, caller: Caller | None, audit: str, began: datetime, response: Response) -> None:
        agent = (request.headers.find("user-agent") or "")[:_LONGEST]
        is_stream = not isinstance(response.body, bytes) or response.upgrade is not None
        path, query = request.path[:_LONGEST], request.query[: 2 * _LONGEST]
        status, remarks = response.status, _bounded(request.remarks)
        entry = _Entry(audit, began, self.now(), request.method, path, query, agent, caller, status, is_stream, remarks)
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
            is_over = _Word.END in waiting
            entries = [one for one in waiting if isinstance(one, _Entry)]
            try:
                if self._wants_new and self._file is not None:
                    self._wants_new = False
                    self._file.open()
                self._write([*map(_line, entries), *self._drops()])
            except OSError as error:
                self.dropped += len(entries)
                log.warning("the audit log cannot be written", extra={"path": str(self._path), "error": str(error)})

    def _drops(self) -> list[bytes]:
        """A line that says how many are missing, if any are."""
        missing, self._told = self.dropped - self._told, self.dropped
        if not missing:
            return []
        log.warning("audit lines were dropped", extra={"count": missing})
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


def _line(entry: _Entry) -> bytes:
    tree: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": entry.audit,
        "stage": "ResponseStarted" if entry.is_stream else "ResponseComplete",
        "requestURI": entry.path,
        **_deed(entry),
        **_who(entry.caller),
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
    except UnicodeEncodeError:  # a path or a name with half a character in it
        return json.dumps(tree).encode("ascii") + b"\n"


def _bounded(remarks: dict[str, str] | None) -> dict[str, str] | None:
    """What policies and webhooks want to have noted, as far as a queue of thousands has room for it."""
    if not remarks:
        return None
    return {key[:_LONGEST]: value[:_LONGEST_REMARK] for key, value in list(remarks.items())[:_MOST_REMARKS]}


def _who(caller: Caller | None) -> dict[str, Any]:
    if caller is None:
        return {"user": {}}
    if caller.by is None:
        return {"user": user_info(caller)}
    return {"user": user_info(caller.by), "impersonatedUser": user_info(caller)}


def _deed(entry: _Entry) -> dict[str, Any]:
    request = Request(entry.method, entry.path, entry.query)
    try:
        address = read_address(request.segments)
    except ApiError:
        return {"verb": entry.method.lower()}
    if address is None:
        return {"verb": attempt_path(request).verb}
    attempt = attempt_at(address, request, verb_of(address, request))
    found = {
        "resource": attempt.resource,
        "namespace": attempt.namespace,
        "name": attempt.name,
        "apiGroup": attempt.group,
        "apiVersion": address.version,
        "subresource": attempt.subresource,
    }
    return {"verb": attempt.verb, "objectRef": {word: value for word, value in found.items() if value}}


def _time(moment: datetime) -> str:
    return f"{time_text(moment)[:-1]}.{moment.microsecond:06d}Z"
