"""In-flight creates by namespace and resource, so that namespace and CRD deletion can wait for them.

A create checks that its namespace is active, and then awaits the storage. If the namespace were removed in between, the
object would be committed into a namespace that no longer exists, and reappear when one of the same name is created.
"""

import asyncio
from types import TracebackType

__all__ = ["InFlightCreates", "TrackedCreate"]


class InFlightCreates:
    """Counts creates that may have passed the "is it terminating" check and are not committed yet, by scope.

    A scope is a storage key or prefix that both sides agree on: the key of a namespace, or the prefix of a resource.
    Namespace and CRD deletion wait for the count of their scope to reach zero before the final sweep.
    """

    __slots__ = ("_counts", "_drained")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._drained: dict[str, asyncio.Event] = {}

    def track(self, *scopes: str) -> "TrackedCreate":
        """Returns the context of one create; enter it before checking whether the scopes accept new objects."""
        return TrackedCreate(self, scopes)

    async def wait_until_none(self, scope: str) -> None:
        """Waits until no create is in flight in this scope; returns at once if there is none."""
        while scope in self._counts:
            await self._drained.setdefault(scope, asyncio.Event()).wait()

    def begin(self, scope: str) -> None:
        """Counts one more create."""
        self._counts[scope] = self._counts.get(scope, 0) + 1

    def end(self, scope: str) -> None:
        """Counts one create less: it is committed, or it failed."""
        left = self._counts[scope] - 1
        if left:
            self._counts[scope] = left
            return
        del self._counts[scope]
        drained = self._drained.pop(scope, None)
        if drained is not None:
            drained.set()


class TrackedCreate:
    """The context manager of one create; a class, because a generator costs twice as much and every create pays."""

    __slots__ = ("_creates", "_scopes")

    def __init__(self, creates: InFlightCreates, scopes: tuple[str, ...]) -> None:
        self._creates = creates
        self._scopes = scopes

    def __enter__(self) -> None:
        for scope in self._scopes:
            self._creates.begin(scope)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for scope in self._scopes:
            self._creates.end(scope)
