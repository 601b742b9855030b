"""Log formats: one line per record, plain for people or JSON for machines, with the fields that were passed as `extra`.

```python
logging.getLogger("shop").info("sold", extra={"ref": ref, "price": 10})
# 12:00:01.123 INFO    shop: sold price=10 ref=Order/default/42
```
"""

import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import msgspec

from levelset.errors import ConfigError

__all__ = ["JsonFormatter", "LogStyle", "PlainFormatter", "set_up_logs", "style_of"]

LogStyle = Literal["json", "plain"]

_KNOWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_QUOTED: Final = frozenset(' "=\n\t')


class PlainFormatter(logging.Formatter):
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


class JsonFormatter(logging.Formatter):
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
    style: LogStyle | None = None, *, level: int | str = logging.INFO, to: TextIO | None = None
) -> logging.Handler:
    """Sends all logs of this process to stderr (or `to`) in one style; the default is from LEVELSET_LOG.

    Replaces the handler of an earlier call, and leaves other handlers alone. Returns the handler.
    """
    chosen = style_of(os.environ.get("LEVELSET_LOG")) if style is None else style
    handler = _Handler(sys.stderr if to is None else to)
    handler.setFormatter(JsonFormatter() if chosen == "json" else PlainFormatter())
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
