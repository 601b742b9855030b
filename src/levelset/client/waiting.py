"""Waits until an object is as it should be, or is no more: a read, and then a watch of that one object.

Whatever can get better (a server that is away, a watch that ends, a forgotten version) is tried again until the time
is up; what cannot (no permission, a request that makes no sense) is raised at once.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.kinds import View, view_of
from levelset.client.reading import Reading
from levelset.client.responses import retry_after_of
from levelset.errors import Deadline, Expired, ServerFailed, TooManyRequests, Unreachable
from levelset.objects.fieldselectors import FieldSelector
from levelset.objects.identity import Ref
from levelset.objects.kept import Kept

__all__ = ["Waiting"]

K = TypeVar("K")

_PASSING = (Expired, ServerFailed, TooManyRequests, Unreachable)


class Waiting(Reading):
    """The verbs that take as long as it takes."""

    async def wait(self, ref: Ref[K], condition: Callable[[K], bool], /, *, within: float | None = 30.0) -> K:
        """The object as soon as it is there and `condition` holds for it; Deadline if that does not happen in time.

        What the condition raises is raised here. Needs the permission to list and watch, not only to get.
        """
        view: View[K] = view_of(ref.class_ or ref.gvk)
        name = getattr(condition, "__name__", "the condition").strip("<>")

        def check(kept: Kept | None) -> bool:
            return kept is not None and condition(view.read(kept.raw))

        kept = await self._wait(ref, check, within, name)
        assert kept is not None  # or the check would have failed
        return view.read(kept.raw)

    async def wait_gone(self, ref: Ref[Any], /, *, uid: str | None = None, within: float | None = 30.0) -> None:
        """Returns when there is no such object; with a uid, also when another object has taken its name."""

        def is_gone(kept: Kept | None) -> bool:
            return kept is None or (uid is not None and kept.uid != uid)

        await self._wait(ref, is_gone, within, "its end")

    async def _wait(
        self, ref: Ref[Any], condition: Callable[[Kept | None], bool], within: float | None, what: str
    ) -> Kept | None:
        target = await self._one(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace)
        one = _One(self, ref, condition, target.namespace)
        limit = timing.within(within)
        try:
            async with limit:
                return await one.run()
        except TimeoutError:
            if not limit.expired():
                raise
            raise Deadline(f"{ref}: {what} did not happen within {within:g} seconds; {one.said()}") from one.trouble


class _One:
    """The state of one wait."""

    def __init__(
        self, client: Reading, ref: Ref[Any], condition: Callable[[Kept | None], bool], namespace: str | None
    ) -> None:
        self._client = client
        self._kind: Any = ref.class_ or ref.gvk
        self._condition = condition
        self._options: dict[str, Any] = {
            "namespace": namespace,
            "fields": FieldSelector.of({"metadata.name": ref.name}),
        }
        self._seen: Kept | None = None
        self._has_seen = False
        self.trouble: Exception | None = None

    async def run(self) -> Kept | None:
        delays = Backoff(first=0.2, cap=10.0).delays()
        while True:
            try:
                if await self._follow():
                    return self._seen
                wait = next(delays) if self._has_seen else 0.0
            except _PASSING as error:
                if self._client.is_closed:
                    raise
                self.trouble = error
                wait = max(next(delays), retry_after_of(error) or 0.0)
            await timing.sleep(wait)

    async def _follow(self) -> bool:
        """Reads the object and then watches it; whether the condition holds before the watch ends."""
        page = await self._client.list_kept(self._kind, **self._options)
        if self._holds(page.items[0] if page.items else None):
            return True
        version = page.resource_version
        async with self._client.watch(self._kind, resource_version=version, **self._options) as batches:
            async for events in batches:
                for event in events:
                    if event.status is not None:
                        raise event.status
                    if event.type != "BOOKMARK" and self._holds(None if event.type == "DELETED" else event.kept):
                        return True
        return False

    def _holds(self, kept: Kept | None) -> bool:
        self._seen, self._has_seen, self.trouble = kept, True, None
        return self._condition(kept)

    def said(self) -> str:
        """What was seen last, in words."""
        if self.trouble is not None:
            return f"the last attempt to look failed: {self.trouble}"
        if not self._has_seen:
            return "it could not be looked at"
        return "there is no such object" if self._seen is None else f"it is at version {self._seen.resource_version}"
