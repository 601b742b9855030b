"""The API server as one object: give it a storage, start it, and there is Kubernetes to talk to.

```python
async with ApiServer() as server:
    print(server.url, server.token)
```

All kinds of one server, put together: the catalog with the built-in kinds, and what keeps it up to date.

Puts the parts of the server together: what is served, who answers, and what works in the background.
"""

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from types import TracebackType
from typing import Any, Final, Self, cast

from levelset.apiserver.admission.chain import Admitter, Chain
from levelset.apiserver.admission.policies.policy_index import Policies
from levelset.apiserver.admission.webhooks import RemoteHooks
from levelset.apiserver.app import App
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.authenticator import Access
from levelset.apiserver.authn.service_account_tokens import Accounts
from levelset.apiserver.authn.users import MASTERS, OWNER, Caller
from levelset.apiserver.authz.rbac import Rbac
from levelset.apiserver.compaction import Compaction
from levelset.apiserver.controllers.bootstrap_roles import restore_roles
from levelset.apiserver.controllers.crd_cleanup import Cleanup
from levelset.apiserver.controllers.event_expiry import EventExpiry
from levelset.apiserver.controllers.garbage_collector import GarbageCollector
from levelset.apiserver.controllers.namespaces import Namespaces
from levelset.apiserver.controllers.policy_status import PolicyStatus
from levelset.apiserver.controllers.role_aggregation import RoleAggregation
from levelset.apiserver.discovery import DiscoveryPages
from levelset.apiserver.health import Health
from levelset.apiserver.openapi.endpoint import OpenApiPages
from levelset.apiserver.package_data import wait_data
from levelset.apiserver.priority_and_fairness import Flow, InFlight, Shares
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.builtin.services import RANGE, Services
from levelset.apiserver.registry.conversion_webhook import RemoteConversion
from levelset.apiserver.registry.crd import definitions
from levelset.apiserver.registry.crd.definitions import Definitions
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import Tree, World, utc_now
from levelset.apiserver.verbs.subresources.eviction import Evictions
from levelset.apiserver.verbs.subresources.namespace_finalize import finalize
from levelset.apiserver.verbs.subresources.pod_logs import LogSource, answer_logs, refuse_logs
from levelset.apiserver.verbs.subresources.token_request import TokenRequests
from levelset.apiserver.verbs.watch_feeds import feeds_of
from levelset.apiserver.wire.webhook_targets import Targets
from levelset.errors import ConfigError
from levelset.http import Authority, Failure, Handler, Limits, Peer, Request, Response, Server, to_status
from levelset.storage import MemoryStorage, Storage

__all__ = ["ApiServer", "Kinds", "Parts", "assemble"]


class Kinds:
    """The catalog of a server with its definitions and services; `load` once, before the first request."""

    def __init__(self, *, now: Callable[[], datetime] = utc_now, service_addresses: str = RANGE) -> None:
        self.services = Services(service_addresses)
        self.definitions = Definitions(now=now)
        special = {
            ("", "Service"): self.services.rules,
            (definitions.GROUP, definitions.KIND): self.definitions.rules,
        }
        self.catalog = Catalog(builtin_kinds(special))

    def serve_logs(self, group: str, kind: str, handler: Callable[..., Any]) -> None:
        """Has the `log` subresource of a kind answered by `handler(world, served, namespace, name, request)`."""
        served = self.catalog.kinds(group, kind)
        if served is None or served.custom:
            self.definitions.serve_logs(group, kind, handler)
        else:
            self.catalog.change(remove=[served], add=[replace(served, logs=handler)])

    async def load(self, world: World) -> None:
        """Takes in what is stored, and from then on follows every write to this world."""
        await self.services.load(world)
        await self.definitions.load(world)


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


_IN_FLIGHT: Final = 400


class ApiServer:
    """An embedded Kubernetes API server, over loopback or without any socket.

    Without a storage everything is in memory and gone at the end; a storage that is given stays the caller's to close.
    `token` is the secret of the owner, made up if there is none; `tokens` are more of them. With `tls` (the default,
    and what kubectl needs to send a token) the server makes its own authority, whose certificate is `ca`.

    Requests in the same process go to `handle`; they are the owner's if their `peer` is `ApiServer.owner`. Those over
    the network are answered with 429 while `in_flight` others wait.

    With `rbac` roles and bindings decide what others may do than the owner: users of `tokens` (a mapping from tokens to
    callers), holders of certificates, service accounts, and anybody. `shares` bounds what each of them has under way;
    the owner has no bound then. `audit` is the log of all requests, opened and closed with the server.

    `admission` are those who are asked before a client's write, in this order; `admit` adds more of them. The webhooks
    that configurations name are asked after them; `targets` says which addresses may be called, and where Services are.
    Services get their addresses from the range `service_addresses`.
    """

    owner: Final = Peer(OWNER.name, (MASTERS,))
    """Who a request in the same process comes from, if nobody is to be asked for a token."""

    def __init__(
        self,
        storage: Storage | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: bool = True,
        token: str | None = None,
        tokens: Iterable[str] | Mapping[str, Caller] = (),
        authority: Authority | None = None,
        limits: Limits | None = None,
        in_flight: int = _IN_FLIGHT,
        rbac: bool = False,
        shares: Shares | None = None,
        audit: AuditLog | None = None,
        now: Callable[[], datetime] = utc_now,
        random: Random | None = None,
        admission: Iterable[Admitter] = (),
        targets: Targets | None = None,
        service_addresses: str = RANGE,
    ) -> None:
        self._owns_storage = storage is None
        self._storage: Storage = MemoryStorage() if storage is None else storage
        self.token = token or secrets.token_urlsafe(32)
        access = Access({**_callers(tokens), self.token: OWNER})
        random = random or Random()  # noqa: S311 - for what must differ, see World; the token above is the secret
        self._parts: Parts = assemble(
            self._storage,
            access=access,
            now=now,
            random=random,
            rbac=rbac,
            targets=targets,
            service_addresses=service_addresses,
        )
        self._parts.health.ready["shutdown"] = lambda: not self._is_stopping
        self.admit(*admission)
        self._app: App = self._parts.app
        # With roles there are users to be fair to, and the owner is never asked to wait for them.
        self._app.flow = Flow(shares or Shares(in_flight=in_flight)) if rbac else None
        self._handler: Handler = self._app.handle if rbac else InFlight(self._app.handle, in_flight).handle
        self._audit = audit
        self._is_started = self._is_stopping = False
        self.authority = authority
        self._is_secure = tls
        self._host, self._port, self._limits = host, port, limits
        self._server: Server | None = None

    @property
    def world(self) -> World:
        """What the parts of the server share: storage, catalog, clock, validators, listeners."""
        return self._parts.world

    @property
    def url(self) -> str:
        """Where to reach the server; raises ConfigError before it is started."""
        if self._server is None:
            raise ConfigError("The server has no address yet: start it first.")
        return self._server.url

    @property
    def ca(self) -> bytes | None:
        """The certificate that clients have to trust, as PEM; None without TLS, and before the start."""
        return self.authority.certificate if self.authority is not None and self._is_secure else None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answers a request: at once if it can, otherwise with something to wait for."""
        return self._app.handle(request)

    def admit(self, *admitters: Admitter) -> Callable[[], None]:
        """Asks these before every write of a client that they are for; gives the function that ends it.

        What the server does on its own behalf, such as collecting garbage, is nobody else's business.
        """
        world = self._parts.world
        chain = Chain(() if world.admission is None else world.admission.admitters)
        world.admission = chain.with_more(admitters).or_none()

        def end() -> None:
            if world.admission is not None:
                world.admission = world.admission.without(admitters).or_none()

        return end

    def convert_with(self, group: str, kind: str, convert: Callable[[Tree, str], Tree]) -> Callable[[], None]:
        """Has the versions of a custom kind converted by this function, which is pure; gives the one that ends it.

        It gets an object and the apiVersion that is wanted, whatever strategy the definition names. What it raises is
        answered with 500, and of the metadata it may change the labels and the annotations only.
        """
        return self._parts.kinds.definitions.convert_with(group, kind, convert)

    def serve_logs(self, group: str, kind: str, source: LogSource) -> None:
        """Has the `log` subresource of a kind answered by this source, now and whenever the kind is defined."""
        self._parts.kinds.serve_logs(group, kind, answer_logs(source))

    def serve_page(self, page: Callable[[Request], Response | Awaitable[Response] | None]) -> None:
        """Has paths that belong to no resource answered by `page`, which gives None for those that are not its own.

        Whoever is not known is refused before; who is known, and is not the owner, may only GET.
        """
        self._app.add_page(page)

    async def start(self, *, listen: bool = True) -> None:
        """Brings the objects and controllers to life, and begins to accept connections (unless told not to).

        Raises ConfigError if the address cannot be had.
        """
        if self._is_stopping:
            raise ConfigError("A server that was stopped stays so: make a new one on the same storage.")
        if self._is_started:
            return
        self._is_started = True
        try:
            if self._audit is not None:
                await self._open_log(self._audit)
            await self._parts.start()
            if listen:
                await self._listen()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, *, within: float = 10.0) -> None:
        """Is no longer ready, ends watches, answers what is under way, and leaves nothing behind."""
        if not self._is_started:
            return
        self._is_stopping = True
        feeds_of(self.world).close()
        try:
            if self._server is not None:
                await self._server.stop(within=within)
        finally:
            self._is_started = False
            await self._parts.stop()
            if self._owns_storage:
                await self._storage.close()
            if self._audit is not None:
                self._app.journal = None
                await asyncio.to_thread(self._audit.close)

    async def idle(self) -> None:
        """Waits until the garbage collector and the namespaces have nothing left to do."""
        await self._parts.wait_idle()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _listen(self) -> None:
        # Making certificates takes a while and reads files: not on the loop.
        context = await asyncio.to_thread(self._context) if self._is_secure else None
        self._server = Server(
            self._handler,
            host=self._host,
            port=self._port,
            tls=context,
            limits=self._limits,
            on_error=self._refuse,
        )
        await self._server.start()

    async def _open_log(self, audit: AuditLog) -> None:
        audit.now = self.world.now
        await asyncio.to_thread(audit.open)
        self._app.journal = audit

    def _refuse(self, failure: Failure) -> Response:
        """What somebody is told whose request never came as far as to be one."""
        answer = to_status(failure)
        return answer if self._audit is None else self._audit.refuse(failure, answer)

    def _context(self) -> ssl.SSLContext:
        self.authority = authority = self.authority or Authority.create("levelset")
        host = self._host
        names = ["localhost"] if _is_address(host) else ["localhost", host]
        addresses = {"127.0.0.1", "::1", *([host] if _is_address(host) else [])}
        return authority.server_context(authority.issue_server(names, sorted(addresses)))


def _callers(tokens: Iterable[str] | Mapping[str, Caller]) -> dict[str, Caller]:
    if isinstance(tokens, Mapping):
        return dict(cast("Mapping[str, Caller]", tokens))
    return dict.fromkeys(tokens, OWNER)


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
