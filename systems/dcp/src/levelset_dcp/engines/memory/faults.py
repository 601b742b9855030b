"""Injected faults of the in-memory engine: failures, delays, and an unhealthy engine."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from levelset.aio import timing
from levelset_dcp.engines.errors import EngineError, EngineRefused, EngineTimedOut, RuntimeNotHealthy
from levelset_dcp.engines.interface import CALL, LONG_CALL

__all__ = ["Faults"]

_LONG: Final = frozenset({"create_container", "build", "pull_image"})


@dataclass(slots=True)
class _Failure:
    pattern: str
    left: int
    error: EngineError
    is_late: bool


class Faults:
    """Applies faults to each call, before and after its effect."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        """All calls in order, as `verb name`."""
        self.down: str | None = None
        """Why the engine is not healthy; None if it is."""
        self._failures: list[_Failure] = []
        self._delays: dict[str, float] = {}

    def add(self, pattern: str, times: int, error: EngineError | str, *, is_late: bool) -> None:
        """Lets the next matching calls fail; with `is_late` after they have taken effect."""
        made = EngineRefused(error) if isinstance(error, str) else error
        self._failures.append(_Failure(pattern, times, made, is_late))

    def slow(self, pattern: str, seconds: float) -> None:
        """Delays matching calls from now on; 0 removes the delay."""
        self._delays[pattern] = seconds

    async def enter(self, verb: str, name: str) -> None:
        """Called before the effect: delays the call, and raises injected failures."""
        self.calls.append(f"{verb} {name}".rstrip())
        limit = LONG_CALL if verb in _LONG else CALL
        wait = max((one for pattern, one in self._delays.items() if _matches(pattern, verb, name)), default=0.0)
        await timing.sleep(min(wait, limit))
        if wait > limit:
            raise EngineTimedOut(f"{verb} {name}: the engine did not answer within {limit:g} s")
        self.require_health()
        self._fail(verb, name, is_late=False)

    async def leave(self, verb: str, name: str) -> None:
        """Called after the effect: raises injected late failures."""
        await timing.sleep(0)
        self._fail(verb, name, is_late=True)

    def require_health(self) -> None:
        """Raises RuntimeNotHealthy while the engine is down."""
        if self.down is not None:
            raise RuntimeNotHealthy(self.down)

    def _fail(self, verb: str, name: str, *, is_late: bool) -> None:
        for one in self._failures:
            if one.left > 0 and one.is_late is is_late and _matches(one.pattern, verb, name):
                one.left -= 1
                raise type(one.error)(*one.error.args)


def _matches(pattern: str, verb: str, name: str) -> bool:
    """Whether a pattern matches the name, the verb, or `verb name`."""
    return any(fnmatchcase(text, pattern) for text in (name, verb, f"{verb} {name}"))
