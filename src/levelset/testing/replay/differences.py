"""The first difference between a recording and its replay: what was recorded, what happened instead, and where."""

import difflib
import inspect
import os
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from levelset.errors import LevelsetError
from levelset.objects.json_tree import is_list, is_map
from levelset.runtime.recording.entries import Begin, Request

__all__ = [
    "Difference",
    "Note",
    "ReplayDiffers",
    "canonical",
    "is_user_file",
    "place_of_coroutine",
    "request_lines",
    "same_error",
    "same_request",
    "user_place",
]

_LIBRARY: Final = Path(__file__).parent.parent.parent.as_posix()
_STANDARD: Final = Path(sysconfig.get_paths()["stdlib"]).as_posix()
_PACKAGES: Final = re.compile(r"/(site|dist)-packages/")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")


class ReplayDiffers(LevelsetError, AssertionError):
    """A replay differs from its recording; the message has the first difference.

    What to do: if the code was changed on purpose, record again; otherwise the message names the line that behaves
    differently.
    """


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a replay cannot repeat: what was called, and where (`operator.py:12`)."""

    what: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place at which a replay parts from its recording.

    `number` counts reconciles from 1, `at` is in seconds since the start of the recording, and `place` is the line of
    the code that did something else, if it is known.
    """

    begin: Begin | None
    number: int
    at: float
    recorded: str
    present: str
    diff: Sequence[str] = ()
    place: str | None = None

    def __str__(self) -> str:
        about = "outside of reconciles"
        if self.begin is not None:
            about = f"reconcile {self.number}, {self.begin.controller} for {self.begin.key}"
        lines = [
            f"the replay differs from the recording at {self.at:.3f} s, in {about}:",
            f"  recorded: {self.recorded}",
            f"  now:      {self.present}",
        ]
        lines += [f"  at:       {self.place}"] if self.place else []
        return "\n".join([*lines, *(f"    {line}" for line in self.diff)])


def canonical(body: bytes) -> Any:
    """A body for comparison: the tree of JSON, the bytes of anything else."""
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return body


def same_request(recorded: Request, present: Request) -> bool:
    """Whether two requests are the same: method, path, query, content type and body, whatever its spelling."""
    return (
        recorded.method == present.method
        and recorded.path == present.path
        and recorded.content_type == present.content_type
        and (recorded.query == present.query or _query(recorded) == _query(present))
        and (recorded.body == present.body or canonical(recorded.body) == canonical(present.body))
    )


def same_error(recorded: str | None, present: str | None) -> bool:
    """Whether two errors are the same, addresses of objects aside."""
    if recorded is None or present is None:
        return recorded is present
    return _ADDRESS.sub("0x", recorded) == _ADDRESS.sub("0x", present)


def request_lines(recorded: Request, present: Request) -> Sequence[str]:
    """The difference of two requests, line by line."""
    return list(
        difflib.unified_diff(_lines(recorded), _lines(present), "recorded", "now", n=2, lineterm=""),
    )


def user_place(frame: FrameType | None = None) -> str | None:
    """The innermost line of the running code that belongs to the user; None if there is none."""
    for one in _frames(frame or inspect.currentframe()):
        if is_user_file(one.f_code.co_filename):
            return _place(one)
    return None


def place_of_coroutine(awaited: Any) -> str | None:
    """The innermost line of the user's code in which a coroutine waits."""
    found: str | None = None
    while awaited is not None:
        if inspect.iscoroutine(awaited):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif inspect.isgenerator(awaited):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        else:
            break
        if frame is not None and is_user_file(frame.f_code.co_filename):
            found = _place(frame)
    return found


def is_user_file(name: str) -> bool:
    """Whether a file belongs neither to levelset nor to Python or an installed package."""
    path = Path(name).as_posix()
    return not (
        path.startswith((_LIBRARY, "<frozen"))
        or _PACKAGES.search(path)
        or (path.startswith(_STANDARD) and not _PACKAGES.search(path))
    )


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place(frame: FrameType) -> str:
    # PWD, not the current directory itself: to ask for that would block the event loop.
    here = f"{os.environ.get('PWD', '')}/"
    return f"{frame.f_code.co_filename.removeprefix(here)}:{frame.f_lineno}, in {frame.f_code.co_name}"


def _query(request: Request) -> Sequence[tuple[str, str]]:
    return sorted(parse_qsl(request.query, keep_blank_values=True))


def _lines(request: Request) -> Sequence[str]:
    head = f"{request.method} {request.path}{'?' if request.query else ''}{request.query}"
    tree = canonical(request.body)
    if isinstance(tree, bytes):
        return [head, repr(tree)]
    body: Sequence[str] = (
        () if tree is None else msgspec.json.format(msgspec.json.encode(_sorted(tree))).decode().split("\n")
    )
    return [head, *body]


def _sorted(tree: Any) -> Any:
    if is_map(tree):
        return {name: _sorted(tree[name]) for name in sorted(tree)}
    return [_sorted(one) for one in tree] if is_list(tree) else tree
