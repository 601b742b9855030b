"""Log formats: one line per record, plain for people or JSON for machines, with the fields that were passed as `extra`.

```python
logging.getLogger("shop").info("sold", extra={"ref": ref, "price": 10})
# 12:00:01.123 INFO    shop: sold price=10 ref=Order/default/42
```

Tracebacks show the frames of the program; those of levelset and of the standard library are folded, unless logs are
verbose.
"""

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TextIO

import msgspec

from levelset.errors import ConfigError

__all__ = ["JsonFormatter", "LogStyle", "PlainFormatter", "set_up_logs", "style_of"]

LogStyle = Literal["json", "plain"]

_KNOWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_QUOTED: Final = frozenset(' "=\n\t')
_PACKAGE: Final = f"{Path(__file__).parents[2]}{os.sep}"
_LIBRARY: Final = f"{Path(logging.__file__).parents[1]}{os.sep}"
_INSTALLED: Final = (f"{_LIBRARY}site-packages{os.sep}", f"{_LIBRARY}dist-packages{os.sep}")
"""Where packages are installed inside the standard library's folder."""


class _ErrorFormatter(logging.Formatter):
    """Formats tracebacks: the frames of the program, and with `verbose` those of levelset, too."""

    def __init__(self, *, verbose: bool = False) -> None:
        super().__init__()
        self._is_verbose = verbose

    def formatException(self, ei: Any) -> str:  # noqa: N802 -- the name of logging.Formatter
        """The traceback of an error, its causes and the errors of a group."""
        if self._is_verbose or ei[1] is None:
            return super().formatException(ei)
        whole = traceback.TracebackException(*ei, compact=True)
        if not any(_is_of_program(frame) for one in _errors(whole) for frame in one.stack):
            return super().formatException(ei)
        folded = sum(_fold(one) for one in _errors(whole))
        frames = "1 frame of levelset is" if folded == 1 else f"{folded} frames of levelset are"
        hint = f"\n({frames} folded; --verbose shows them)" if folded else ""
        return "".join(whole.format()).rstrip("\n") + hint


class _ProgramFrames(traceback.StackSummary):
    """A stack that shows the frames of the program only."""

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **options: Any) -> str:
        """The lines of a frame; empty if it is folded."""
        return super().format_frame_summary(frame_summary, **options) if _is_of_program(frame_summary) else ""


def _is_of_program(frame: traceback.FrameSummary) -> bool:
    """Whether it is neither levelset's nor the standard library's, which runs our tasks."""
    path = frame.filename
    return not path.startswith(_PACKAGE) and (not path.startswith(_LIBRARY) or path.startswith(_INSTALLED))


def _errors(one: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    """An error with its causes, its contexts and the errors of a group."""
    if one is None:
        return
    yield one
    yield from _errors(one.__cause__)
    yield from _errors(one.__context__)
    for inner in one.exceptions or ():
        yield from _errors(inner)


def _fold(one: traceback.TracebackException) -> int:
    """Hides the frames of the framework; returns how many they are."""
    shown = _ProgramFrames()
    shown.extend(one.stack)
    one.stack = shown
    return sum(not _is_of_program(frame) for frame in shown)


class PlainFormatter(_ErrorFormatter):
    """A line for people: time, level, logger, message and fields; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The formatted line."""
        moment = datetime.fromtimestamp(record.created).astimezone()
        head = f"{moment:%H:%M:%S}.{record.msecs:03.0f} {record.levelname:<7} {record.name}: {record.getMessage()}"
        fields = "".join(f" {name}={_shown(value)}" for name, value in sorted(_fields(record).items()))
        trace = self._trace(record)
        return f"{head}{fields}\n{trace}" if trace else f"{head}{fields}"

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class JsonFormatter(_ErrorFormatter):
    """A JSON object on one line: `time`, `level`, `logger`, `message`, `error` with its traceback, and the fields.

    A field that has one of those names is written as `field_NAME`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The formatted line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        for name, value in _fields(record).items():
            line[f"field_{name}" if name in line else name] = value
        return msgspec.json.encode(line, enc_hook=str).decode()


def style_of(text: str | None) -> LogStyle:
    """The style that a setting names, plain if it is empty; ConfigError for an unknown one."""
    match text:
        case None | "" | "plain":
            return "plain"
        case "json":
            return "json"
        case _:
            raise ConfigError(f"LEVELSET_LOG={text!r}: choose plain (for people) or json (for machines)")


def set_up_logs(
    style: LogStyle | None = None,
    *,
    level: int | str = logging.INFO,
    to: TextIO | None = None,
    verbose: bool = False,
) -> logging.Handler:
    """Sends all logs of this process to stderr (or `to`) in one style; the default is from LEVELSET_LOG.

    With `verbose`, tracebacks have the frames of levelset, too. Replaces the handler of an earlier call, and leaves
    other handlers alone. Returns the handler.
    """
    chosen = style_of(os.environ.get("LEVELSET_LOG")) if style is None else style
    handler = _Handler(sys.stderr if to is None else to)
    formatter = JsonFormatter if chosen == "json" else PlainFormatter
    handler.setFormatter(formatter(verbose=verbose))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    """A class of its own, so that `set_up_logs` can find and replace it."""


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _KNOWN}


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if not text or _QUOTED.intersection(text) else text
