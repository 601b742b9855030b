"""Puts the parts of the server together: what is served, who answers, and what works in the background."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from levelset.apiserver.access import Access
from levelset.apiserver.accounts import Accounts
from levelset.apiserver.app import App
from levelset.apiserver.bootstrap_roles import restore_roles
from levelset.apiserver.compaction import Compaction
from levelset.apiserver.definition_cleanup import Cleanup
from levelset.apiserver.discovery import DiscoveryPages
from levelset.apiserver.evictions import Evictions
from levelset.apiserver.expiry import EventExpiry
from levelset.apiserver.finalizing import finalize
from levelset.apiserver.garbage import GarbageCollector
from levelset.apiserver.health import Health
from levelset.apiserver.kinds import Kinds
from levelset.apiserver.namespaces import Namespaces
from levelset.apiserver.openapi import OpenApiPages
from levelset.apiserver.pod_logs import refuse_logs
from levelset.apiserver.policies import Policies
from levelset.apiserver.policy_status import PolicyStatus
from levelset.apiserver.preloading import wait_data
from levelset.apiserver.rbac import Rbac
from levelset.apiserver.remote_conversion import RemoteConversion
from levelset.apiserver.remote_hooks import RemoteHooks
from levelset.apiserver.remote_targets import Targets
from levelset.apiserver.role_aggregation import RoleAggregation
from levelset.apiserver.services import RANGE
from levelset.apiserver.token_requests import TokenRequests
from levelset.apiserver.world import World
from levelset.storage import Storage

__all__ = ["Parts", "assemble"]


@dataclass(slots=True, eq=False)
class Parts:
    """The parts of a server that are not its edge."""

    world: World
    app: App
    health: Health
    kinds: Kinds
    garbage: GarbageCollector
    namespaces: Namespaces
    expiry: EventExpiry
    accounts: Accounts
    webhooks: RemoteHooks
    policies: Policies
    policy_status: PolicyStatus
    rbac: Rbac | None = None
    aggregation: RoleAggregation | None = None
    cleanup: Cleanup | None = field(default=None, init=False)
    _cleaning: asyncio.Task[None] | None = field(default=None, init=False)

    async def start(self) -> None:
        """Takes in what is stored, and brings to life what works in the background."""
        await wait_data()
        await self.kinds.load(self.world)
        self.cleanup = Cleanup(self.world, self.kinds.definitions)
        self._cleaning = asyncio.create_task(self.cleanup.run(), name="cleanup of definitions")
        await self.garbage.start()
        await self.namespaces.start()
        await self.expiry.start()
        await self.accounts.load()
        await self.webhooks.start()
        await self.policies.start()
        self.policy_status.start()
        if self.rbac is not None and self.aggregation is not None:
            await self.rbac.load(self.world)
            await restore_roles(self.world)
            self.aggregation.start()

    async def stop(self) -> None:
        """Ends what works in the background."""
        if self.aggregation is not None:
            await self.aggregation.stop()
        await self.policy_status.stop()
        await self.expiry.stop()
        await self.namespaces.stop()
        await self.garbage.stop()
        if self._cleaning is not None:
            self._cleaning.cancel()
            await asyncio.gather(self._cleaning, return_exceptions=True)
            self._cleaning = None
        self.webhooks.targets.close()

    async def wait_idle(self) -> None:
        """Waits until nothing in the background has anything left to do."""
        roles = () if self.aggregation is None else (self.aggregation.worker,)
        workers = (self.garbage.worker, self.namespaces.worker, self.expiry.worker, self.policy_status.worker, *roles)
        while True:
            if self.cleanup is not None:
                await self.cleanup.settle()
            busy = [worker for worker in workers if not worker.is_idle]
            if not busy:
                return
            for worker in busy:
                await worker.wait_idle()


def assemble(
    storage: Storage,
    *,
    access: Access,
    now: Callable[[], datetime],
    random: Random,
    rbac: bool = False,
    targets: Targets | None = None,
    service_addresses: str = RANGE,
) -> Parts:
    """A server's inside on top of a storage; with `rbac`, roles decide what those may do who are not masters."""
    kinds, called = Kinds(now=now, service_addresses=service_addresses), targets or Targets()
    kinds.serve_logs("", "Pod", refuse_logs)
    kinds.definitions.remote = lambda webhook: RemoteConversion(webhook, called, random)
    world = World(storage, kinds.catalog, access=access, now=now, random=random)
    world.special["", "namespaces", "finalize"] = finalize
    world.accounts = accounts = Accounts(world)
    access.accounts = accounts.caller
    world.special["", "serviceaccounts", "token"] = TokenRequests(accounts).answer
    world.special["", "pods", "eviction"] = Evictions().answer
    if rbac:
        world.rbac = Rbac()
        access.allows, access.admits_anonymous = world.rbac.allows, True
    health = Health()
    discovery, openapi, compaction = DiscoveryPages(world.catalog), OpenApiPages(world.catalog), Compaction(world)
    app = App(world, pages=[health.page, discovery.respond, openapi.respond, compaction.page])
    world.policies = policies = Policies(world)
    return Parts(
        world=world,
        app=app,
        health=health,
        kinds=kinds,
        garbage=GarbageCollector(world),
        namespaces=Namespaces(world),
        expiry=EventExpiry(world),
        accounts=accounts,
        webhooks=RemoteHooks(world, called),
        policies=policies,
        policy_status=PolicyStatus(world, policies),
        rbac=world.rbac,
        aggregation=None if world.rbac is None else RoleAggregation(world, world.rbac),
    )
