"""The Lease by which one of several API servers runs the controllers inside the server.

All servers keep the indexes of these controllers current, so that a new holder begins at once; only the holder
reconciles. Each of the controllers would be correct on several servers at the same time, since all their writes name
the revision that they change: the Lease saves work, nothing depends on it for being right.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists, ApiError
from levelset.objects import decode_tree
from levelset.objects.timestamps import MicroTime, format_time

__all__ = ["NAME", "NAMESPACE", "ControllerLease"]

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
NAME: Final = "levelset-controllers"
_DURATION_SECONDS: Final = 6
_RENEW_SECONDS: Final = 2.0


class ControllerLease:
    """Holds the Lease, or waits for it; `on_lead` and `on_follow` are awaited when that changes.

    A holder that stops releases the Lease, and another server takes it at once. If it ends otherwise, the others take
    it when it was not renewed for six seconds, by their own clocks. A holder that cannot renew stops by then.
    """

    def __init__(
        self,
        state: ServerState,
        *,
        identity: str,
        on_lead: Callable[[], Awaitable[None]],
        on_follow: Callable[[], Awaitable[None]],
    ) -> None:
        self._state = state
        self.identity = identity
        self._on_lead = on_lead
        self._on_follow = on_follow
        self.is_held = False
        self._renewed = self._seen_at = 0.0
        self._seen = -1
        self._released = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes the Lease if it is free, and goes on to renew it or to wait for it."""
        self._state.add_resource_listener(self._kind().prefix, self._on_write)
        await self._attempt()
        self._task = asyncio.create_task(self._run(), name="controller lease")

    async def stop(self) -> None:
        """Ends it, and releases the Lease if it is held."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if self.is_held:
            self.is_held = False
            try:
                await self._mutate(lambda lease: self._with_holder(lease, "") if self._is_mine(lease) else None)
            except ApiError as error:
                log.warning("the lease of the controllers was not released", extra={"error": str(error)})

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_RENEW_SECONDS):
                    await self._released.wait()
            except TimeoutError:
                pass
            self._released.clear()
            await self._attempt()

    async def _attempt(self) -> None:
        """Renews or takes the Lease, and follows from what came of it."""
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_RENEW_SECONDS):
                is_held = await self._renew_or_take(now)
        except (ApiError, TimeoutError) as error:
            log.warning("the lease of the controllers was not renewed", extra={"error": str(error)})
            is_held = self.is_held and now - self._renewed < _DURATION_SECONDS - _RENEW_SECONDS
        except Exception:
            log.exception("the lease of the controllers was not renewed")
            is_held = False
        else:
            self._renewed = now
        if is_held != self.is_held:
            self.is_held = is_held
            log.info("the controllers of this server %s", "run now" if is_held else "wait now")
            await (self._on_lead() if is_held else self._on_follow())

    async def _renew_or_take(self, now: float) -> bool:
        item = self._state.reader.get_nowait(self._kind().key(NAMESPACE, NAME))
        if item is None:
            return await self._create()
        if item.revision != self._seen:
            self._seen, self._seen_at = item.revision, now
        lease: Object = decode_tree(item.value)
        holder = map_member(lease, "spec").get("holderIdentity")
        if holder and holder != self.identity and now - self._seen_at < _DURATION_SECONDS:
            return False
        version = str(item.revision)

        def take(found: Object) -> Object | None:
            # Another server may have taken or renewed it meanwhile.
            is_same = found["metadata"].get("resourceVersion") == version
            return self._with_holder(found, self.identity) if is_same else None

        written = await self._mutate(take)
        return written is not None and self._is_mine(written)

    async def _create(self) -> bool:
        tree: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}}
        tree["metadata"]["namespace"] = NAMESPACE
        try:
            await create_and_update.create(self._state, self._kind(), NAMESPACE, self._with_holder(tree, self.identity))
        except AlreadyExists:
            return False
        return True

    async def _mutate(self, change: Callable[[Object], Object | None]) -> Object | None:
        return await create_and_update.mutate(self._state, self._kind(), NAMESPACE, NAME, change)

    def _with_holder(self, lease: Object, holder: str) -> Object:
        spec, now = dict(map_member(lease, "spec")), format_time(MicroTime.of(self._state.now()))
        if holder != spec.get("holderIdentity"):
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {"holderIdentity": holder, "leaseDurationSeconds": _DURATION_SECONDS, "renewTime": now}
        return {**lease, "spec": spec}

    def _is_mine(self, lease: Object) -> bool:
        return map_member(lease, "spec").get("holderIdentity") == self.identity

    def _on_write(self, _served: ServedResource, _before: Object | None, after: Object | None) -> None:
        if after is None or after["metadata"]["name"] != NAME or after["metadata"].get("namespace") != NAMESPACE:
            return
        if not map_member(after, "spec").get("holderIdentity"):
            self._released.set()

    def _kind(self) -> ServedResource:
        found = self._state.catalog.find("coordination.k8s.io", "v1", "leases")
        assert found is not None  # built in
        return found
