"""Serves webhooks over HTTPS, with certificates that are renewed while it serves.

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

from levelset.client.client import Client
from levelset.errors import ConfigError, NotReady
from levelset.http import (
    Handler,
    Identity,
    Limits,
    Server,
    load_identity,
    renew_identity,
    renew_periodically,
    validity_of,
)
from levelset.runtime.webhook.certificates import CertificateBundle
from levelset.runtime.webhook.webhook_set import Webhooks

__all__ = ["Endpoint"]

_log: Final = logging.getLogger("levelset.runtime.webhook")

_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""A ConversionReview may contain a whole list."""
_SHUTDOWN: Final = 10.0

OnTrust = Callable[[bytes | None], Awaitable[object]]


class Endpoint:
    """Serves webhooks over HTTPS from `start` to `stop`.

    The certificate is checked for renewal every `renew_every` seconds; new connections use the renewed one, open ones
    keep the old one. `on_trust` is awaited with a new CA bundle before a certificate that needs it is used. With
    `client_ca` (PEM) clients must present a certificate of that authority. `client` becomes `review.client`. `around`
    wraps the request handler, to count or to trace; `paths` are all paths that it serves. `now` is the wall clock, for
    `check`.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        *,
        client: Client | None = None,
        client_ca: bytes | None = None,
        renew_every: float = 60.0,
        on_trust: OnTrust | None = None,
        around: Callable[[Handler], Handler] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.webhooks = webhooks
        handler = webhooks.handler(client)
        self.paths = handler.paths
        self._handler: Handler = handler.handle if around is None else around(handler.handle)
        self._client, self._client_ca = client, client_ca
        self._renew_every = renew_every
        self._on_trust = on_trust
        self._now = now
        self._bundle: CertificateBundle | None = None
        self._context: ssl.SSLContext | None = None
        self._server: Server | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def ca(self) -> bytes | None:
        """The CA bundle that the API server must trust (PEM), if there is one; NotReady before `start`."""
        return self._current_bundle.ca

    @property
    def port(self) -> int:
        """The port that it listens on; NotReady before `start`."""
        return self._running_server.port

    @property
    def url(self) -> str:
        """The URL on this machine; NotReady before `start`."""
        return self._running_server.url

    @property
    def _running_server(self) -> Server:
        if self._server is None:
            raise NotReady("the endpoint is not started: use it in `async with`")
        return self._server

    @property
    def _current_bundle(self) -> CertificateBundle:
        if self._bundle is None:
            raise NotReady("the endpoint has no certificate yet: use it in `async with`")
        return self._bundle

    async def start(self) -> None:
        """Gets its certificate and starts to serve; ConfigError without one, or if the address is not available."""
        self._bundle = bundle = await self.webhooks.certificates.current(self.webhooks.client_config, self._client)
        self._context = await asyncio.to_thread(_context, bundle.identity, self._client_ca)
        server = Server(
            self._handler,
            host=self.webhooks.host,
            port=self.webhooks.port,
            tls=self._context,
            limits=Limits(body_bytes=_MAX_BODY_BYTES),
        )
        await server.start()
        self._server = server
        work = renew_periodically(self.renew, every=self._renew_every, log=_log)
        self._renewing = asyncio.get_running_loop().create_task(work, name="webhooks/renewing")

    async def stop(self) -> None:
        """Finishes the requests in flight, and stops."""
        renewing, server = self._renewing, self._server
        self._renewing = self._server = None
        if renewing is not None:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
        if server is not None:
            await server.stop(within=_SHUTDOWN)

    async def renew(self) -> bool:
        """Uses a renewed certificate if there is one; returns whether there was. ConfigError keeps the old one."""
        current, context = self._current_bundle, self._context
        assert context is not None  # set by `start`
        bundle = await self.webhooks.certificates.current(self.webhooks.client_config, self._client)
        if bundle == current:
            return False
        await asyncio.to_thread(_check, bundle.identity)
        if bundle.ca != current.ca and self._on_trust is not None:
            await self._on_trust(bundle.ca)
        await renew_identity(context, bundle.identity)
        self._bundle = bundle
        _log.info("using a renewed certificate", extra={"until": str(validity_of(bundle.identity.certificate).end)})
        return True

    def check(self) -> str:
        """The check for `/readyz`: until when the certificate is valid; NotReady if it has expired."""
        if self._server is None:
            raise NotReady("the webhooks are not served")
        (begin, end), now = validity_of(self._current_bundle.identity.certificate), self._now()
        if end <= now:
            raise NotReady(f"the certificate of the webhooks expired at {end:%Y-%m-%d %H:%M}")
        if now < begin:
            raise NotReady(
                f"the certificate of the webhooks is not valid before {begin:%Y-%m-%d %H:%M}: check the clock"
            )
        return f"valid until {end:%Y-%m-%d}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _context(identity: Identity, client_ca: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"client_ca is not a certificate in PEM: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    load_identity(context, identity)
    return context


def _check(identity: Identity) -> None:
    """Checks that key and certificate match, since loading a wrong pair would clear the context's old one."""
    load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), identity)
