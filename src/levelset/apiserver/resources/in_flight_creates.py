"""In-flight creates by namespace and resource, so that namespace and CRD deletion can wait for them.

A create checks that its namespace is active, and then awaits admission and the storage. If the namespace were removed
in between, the object would be committed into a namespace that no longer exists, and reappear when one of the same name
is created.
"""

import asyncio

__all__ = ["InFlightCreates"]


class InFlightCreates:
    """The creates that may have passed the "is it terminating" check and are not committed yet.

    Namespace and CRD deletion wait until there are none of theirs before the final sweep.
    """

    __slots__ = ("_ended", "scopes")

    def __init__(self) -> None:
        self.scopes: dict[int, tuple[str, str | None]] = {}
        """The storage prefix and namespace of each, by the id of its tree; a create adds itself before the check."""
        self._ended: asyncio.Event | None = None

    def end(self, tree: object) -> None:
        """Removes the create of this object: it is committed, or it failed."""
        del self.scopes[id(tree)]
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    async def wait_until_none(self, *, prefix: str | None = None, namespace: str | None = None) -> None:
        """Waits until no create of the resource, or in the namespace, is in flight."""
        while any(prefix == one or namespace == other is not None for one, other in self.scopes.values()):
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()
