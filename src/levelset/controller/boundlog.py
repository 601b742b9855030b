"""A logger that says with each line which controller, object and reconcile it is about.

Fields are given as keywords: `ctx.log.info("scaled", replicas=3)`. Each becomes an attribute of the record, for whoever
formats it; a formatter that knows nothing of them shows the message alone.
"""

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

__all__ = ["BoundLog"]

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_OPTIONS: Final = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})
# What a record has already, and must not be given again.
_TAKEN: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message"})


class BoundLog(_Adapter):
    """A logger with fields that each of its lines has. A field whose name a record has already gets a `_` behind it."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, Any]) -> None:
        super().__init__(logger, {})
        self.fields = dict(fields)

    def bind(self, **fields: Any) -> "BoundLog":
        """The same with more fields."""
        return BoundLog(self.logger, {**self.fields, **fields})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Puts the fields of the line and those of the logger into the record."""
        options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
        own = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
        extra: Mapping[str, Any] = options.get("extra") or {}
        fields = {**extra, **self.fields, **own}
        options["extra"] = {f"{name}_" if name in _TAKEN else name: value for name, value in fields.items()}
        return msg, options
