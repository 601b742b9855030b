"""What goes wrong in a watch, in words: which kind, where, why, and when it is tried again.

A watch heals by itself, so trouble is something to tell and never something to raise. `Trouble` is the value;
`Complaints` writes it to the log, and does not repeat what somebody has to repair first.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from levelset.errors import ApiError, Forbidden, NotFound, Unauthorized, UnknownKind
from levelset.objects.identity import GroupVersionKind

__all__ = ["Complaints", "OnTrouble", "Teller", "Trouble"]

log = logging.getLogger("levelset.watching")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that a watch could not do; `retry_after` is None if it went on without trying that again.

    `attempt` counts the failures in a row: 1 is the first since things went well.
    """

    error: Exception
    gvk: GroupVersionKind
    namespace: str | None = None
    name: str | None = None
    """The one object that it is about, if it is about one."""
    attempt: int = 1
    retry_after: float | None = None

    @property
    def where(self) -> str:
        """The kind and the namespace, or the object, in words."""
        if self.name is not None:
            return "/".join(part for part in (self.gvk.kind, self.namespace, self.name) if part)
        return f"{self.gvk.kind} in {f'namespace {self.namespace}' if self.namespace else 'all namespaces'}"

    @property
    def cause(self) -> str:
        """What it is about, without the words that differ each time: the class, code and reason of the error."""
        error = self.error
        said = f" {error.code} {error.reason}" if isinstance(error, ApiError) else ""
        return f"{type(error).__name__}{said}"

    @property
    def is_standing(self) -> bool:
        """Whether it stays until somebody does something: a kind that is not there, a permission that is missing."""
        return isinstance(self.error, NotFound | Forbidden | Unauthorized | UnknownKind)

    def __str__(self) -> str:
        error = str(self.error) or type(self.error).__name__
        if self.retry_after is None:
            return f"watching {self.where}: {error}; the watch goes on"
        return f"watching {self.where}: {error}; attempt {self.attempt + 1} in {self.retry_after:.1f} s"


OnTrouble = Callable[[Trouble], None]
"""Is told of each trouble, at once; must not block."""


class Complaints:
    """Writes trouble to the log (`levelset.watching`): a warning each time, a standing one once for each cause."""

    def __init__(self) -> None:
        self._standing: str | None = None

    def __call__(self, trouble: Trouble) -> None:
        """Writes one down."""
        cause = trouble.cause if trouble.is_standing else None
        if trouble.retry_after == 0:
            log.info("a watch begins again: %s", trouble, extra={"cause": trouble.cause})
        elif cause is None or cause != self._standing or trouble.attempt == 1:
            log.warning("a watch is in trouble: %s", trouble, extra={"cause": trouble.cause})
        if trouble.retry_after is not None:
            self._standing = cause


class Teller:
    """Tells the trouble of one watch: counts it, remembers the last, and survives a listener that fails."""

    def __init__(self, gvk: GroupVersionKind, namespace: str | None, on_trouble: OnTrouble | None = None) -> None:
        self.count = 0
        self.last: Trouble | None = None
        """The last trouble that was waited for."""
        self._gvk = gvk
        self._namespace = namespace
        self._on_trouble: OnTrouble = Complaints() if on_trouble is None else on_trouble

    def tell(self, error: Exception, *, attempt: int, retry_after: float) -> None:
        """Something failed that is tried again."""
        trouble = Trouble(
            error=error, gvk=self._gvk, namespace=self._namespace, attempt=attempt, retry_after=retry_after
        )
        self.last = trouble
        self._say(trouble)

    def tell_aside(self, error: Exception) -> None:
        """Something cannot be used; the watch goes on without it."""
        self._say(Trouble(error=error, gvk=self._gvk, namespace=self._namespace))

    def _say(self, trouble: Trouble) -> None:
        self.count += 1
        try:
            self._on_trouble(trouble)
        except Exception:
            log.exception("on_trouble failed")
