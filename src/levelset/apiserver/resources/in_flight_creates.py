"""In-flight creates by namespace and resource, so that namespace and CRD deletion can wait for them.

A create checks that its namespace is active, and then awaits admission and the storage. If the namespace were removed
in between, the object would be committed into a namespace that no longer exists, and reappear when one of the same name
is created.
"""

import asyncio

__all__ = ["InFlightCreates"]


class InFlightCreates:
    """Counts creates that may have passed the "is it terminating" check and are not committed yet.

    Namespace and CRD deletion wait until there are none of theirs before the final sweep.
    """

    __slots__ = ("_counts", "_drained")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str | None], int] = {}
        self._drained: asyncio.Event | None = None

    def begin(self, prefix: str, namespace: str | None) -> None:
        """Counts one more create of the resource with this storage prefix; call it before the check."""
        self._counts[prefix, namespace] = self._counts.get((prefix, namespace), 0) + 1

    def end(self, prefix: str, namespace: str | None) -> None:
        """Counts one create less: it is committed, or it failed."""
        left = self._counts.pop((prefix, namespace)) - 1
        if left:
            self._counts[prefix, namespace] = left
        elif self._drained is not None:
            self._drained.set()
            self._drained = None

    async def wait_until_none(self, *, prefix: str | None = None, namespace: str | None = None) -> None:
        """Waits until no create of the resource, or in the namespace, is in flight."""
        while any(prefix == one or namespace == other is not None for one, other in self._counts):
            self._drained = self._drained or asyncio.Event()
            await self._drained.wait()
