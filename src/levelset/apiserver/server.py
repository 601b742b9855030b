"""The API server as one object: give it a storage, start it, and there is Kubernetes to talk to.

```python
async with ApiServer() as server:
    print(server.url, server.token)
```
"""

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from random import Random
from types import TracebackType
from typing import Final, Self, cast

from levelset.apiserver.access import Access
from levelset.apiserver.admission import Admitter, Chain
from levelset.apiserver.app import App
from levelset.apiserver.assembly import Parts, assemble
from levelset.apiserver.audit import AuditLog
from levelset.apiserver.callers import MASTERS, OWNER, Caller
from levelset.apiserver.feeds import feeds_of
from levelset.apiserver.flow import Flow, Shares
from levelset.apiserver.inflight import InFlight
from levelset.apiserver.log_sources import LogSource, answer_logs
from levelset.apiserver.remote_targets import Targets
from levelset.apiserver.services import RANGE
from levelset.apiserver.world import Tree, World, utc_now
from levelset.errors import ConfigError
from levelset.storage import MemoryStorage, Storage
from levelset.web import Authority, Failure, Handler, Limits, Peer, Request, Response, Server, to_status

__all__ = ["ApiServer"]

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
