"""The webhooks on the network: HTTPS, with certificates that are renewed while it serves.

```python
async with Endpoint(Webhooks(*admission, url="https://hooks.example.dev:9443")) as endpoint:
    await register(client, endpoint.webhooks, ca=endpoint.ca)
```
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from levelset.aio import timing
from levelset.client.client import Client
from levelset.errors import ConfigError, LevelsetError, NotReady
from levelset.http import Handler, Identity, Limits, Server, load_identity, renew_identity
from levelset.runtime.webhook.certificates import Papers, validity_of
from levelset.runtime.webhook.webhook_set import Webhooks

__all__ = ["Endpoint"]

_log: Final = logging.getLogger("levelset.runtime.webhook")

_LARGEST: Final = 64 * 1024 * 1024
"""A whole list may be sent to be converted in one review."""
_SHUTDOWN: Final = 10.0

Trusted = Callable[[bytes | None], Awaitable[object]]


class Endpoint:
    """Serves webhooks over HTTPS from `start` to `stop`.

    The papers are looked at again every `renew_every` seconds; new connections see a renewed certificate, those that
    are open keep the old one, and nothing is restarted. `on_trust` is told, before a certificate is shown that the API
    server could not believe yet, what it has to trust from now on. With `client_ca` (PEM) only those are answered who
    show a certificate of that authority. `client` is what functions find as `review.client`. `around` may put something
    before the handler, to count or to trace; `paths` are all that it serves.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        *,
        client: Client | None = None,
        client_ca: bytes | None = None,
        renew_every: float = 60.0,
        on_trust: Trusted | None = None,
        around: Callable[[Handler], Handler] | None = None,
    ) -> None:
        self.webhooks = webhooks
        answers = webhooks.answers(client)
        self.paths = answers.paths
        self._handler: Handler = answers.handle if around is None else around(answers.handle)
        self._client, self._client_ca = client, client_ca
        self._renew_every = renew_every
        self._on_trust = on_trust
        self._papers: Papers | None = None
        self._context: ssl.SSLContext | None = None
        self._server: Server | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def ca(self) -> bytes | None:
        """What an API server has to trust, as PEM; None if somebody else tells it. NotReady before the start."""
        return self._shown.ca

    @property
    def port(self) -> int:
        """The port that it listens on; NotReady before the start."""
        return self._served.port

    @property
    def url(self) -> str:
        """Where it listens, as seen from this machine; NotReady before the start."""
        return self._served.url

    @property
    def _served(self) -> Server:
        if self._server is None:
            raise NotReady("the endpoint is not started: use it in `async with`")
        return self._server

    @property
    def _shown(self) -> Papers:
        if self._papers is None:
            raise NotReady("the endpoint has no certificate yet: use it in `async with`")
        return self._papers

    async def start(self) -> None:
        """Gets its papers and begins to answer; ConfigError if there are none, or if the address cannot be had."""
        self._papers = papers = await self.webhooks.certificates.current(self.webhooks.reach, self._client)
        self._context = await asyncio.to_thread(_context, papers.identity, self._client_ca)
        server = Server(
            self._handler,
            host=self.webhooks.host,
            port=self.webhooks.port,
            tls=self._context,
            limits=Limits(body_bytes=_LARGEST),
        )
        await server.start()
        self._server = server
        self._renewing = asyncio.get_running_loop().create_task(self._keep_renewing(), name="webhooks/renewing")

    async def stop(self) -> None:
        """Answers what is under way, and ends."""
        renewing, server = self._renewing, self._server
        self._renewing = self._server = None
        if renewing is not None:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
        if server is not None:
            await server.stop(within=_SHUTDOWN)

    async def renew(self) -> bool:
        """Looks whether there are other papers, and takes them; whether there were. ConfigError keeps the old ones."""
        shown, context = self._shown, self._context
        assert context is not None  # it is made with the first papers
        papers = await self.webhooks.certificates.current(self.webhooks.reach, self._client)
        if papers == shown:
            return False
        await asyncio.to_thread(_check, papers.identity)
        if papers.ca != shown.ca and self._on_trust is not None:
            await self._on_trust(papers.ca)
        await renew_identity(context, papers.identity)
        self._papers = papers
        _log.info("shows a new certificate", extra={"until": str(validity_of(papers.identity.certificate).end)})
        return True

    def check(self) -> str:
        """For `/readyz`: says until when the certificate is valid; NotReady if nobody could be answered now."""
        if self._server is None:
            raise NotReady("the webhooks are not served")
        end = validity_of(self._shown.identity.certificate).end
        if end <= datetime.now(UTC):
            raise NotReady(f"the certificate of the webhooks has ended at {end:%Y-%m-%d %H:%M}")
        return f"valid until {end:%Y-%m-%d}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _keep_renewing(self) -> None:
        while True:
            await timing.sleep(self._renew_every)
            try:
                await self.renew()
            except (LevelsetError, OSError) as error:
                # What is shown now is valid for a while: there is time to try again, and somebody may look meanwhile.
                _log.error("the certificate could not be renewed", extra={"error": str(error)})


def _context(identity: Identity, client_ca: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"client_ca is no certificate in PEM: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    load_identity(context, identity)
    return context


def _check(identity: Identity) -> None:
    """Makes sure that key and certificate belong together: a context that is told otherwise forgets the old ones."""
    load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), identity)
