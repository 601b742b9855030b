"""Runs the webhooks of a manager: attached to an in-process API server, or served over HTTPS and registered."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from levelset.client.client import Client
from levelset.errors import LevelsetError
from levelset.runtime.manager.health import Health
from levelset.runtime.manager.metrics import WebhookMetrics
from levelset.runtime.manager.prometheus_text import Registry
from levelset.runtime.webhook.client_config import Url
from levelset.runtime.webhook.endpoint import Endpoint
from levelset.runtime.webhook.registration import register, unregister
from levelset.runtime.webhook.webhook_set import InProcessServer, NestedWebhooks, Webhooks

__all__ = ["WebhookHosting"]

_log: Final = logging.getLogger("levelset.runtime.manager")


class WebhookHosting:
    """Makes the API server of a client call these webhooks between `open` and `close`."""

    def __init__(self, webhooks: Sequence[Webhooks | NestedWebhooks], health: Health, registry: Registry) -> None:
        match webhooks:
            case [Webhooks() as only]:  # its address and certificates are kept
                self.webhooks = only
            case _:
                self.webhooks = Webhooks(*webhooks)
        self._health, self._registry = health, registry
        self._detach: Callable[[], None] | None = None
        self._endpoint: Endpoint | None = None
        self._client: Client | None = None

    @property
    def urls(self) -> Mapping[str, str]:
        """The URL of the endpoint, if there is one."""
        return {} if self._endpoint is None else {"webhooks": self._endpoint.url}

    async def open(self, client: Client) -> None:
        """Returns when the webhooks are attached or registered; ConfigError if their address is not known."""
        if not self.webhooks:
            return
        server = client.in_process_server
        if isinstance(server, InProcessServer):
            self._detach = self.webhooks.attach(server, client=client)
            return

        async def register_all(ca: bytes | None) -> None:
            applied = await register(client, self.webhooks, ca=ca)
            _log.info("registered webhooks", extra={"applied": ", ".join(applied)})

        registers = self.webhooks.registers
        metrics, on_trust = WebhookMetrics(), register_all if registers else None
        self._endpoint = endpoint = Endpoint(self.webhooks, client=client, on_trust=on_trust, around=metrics.around)
        metrics.add(endpoint.paths)
        self._registry.add(metrics.families)
        # It serves before it is registered: from then on every write in the cluster waits for it.
        await endpoint.start()
        self._health.ready.add("webhooks", endpoint.check)
        if registers:
            self._client = client
            await register_all(endpoint.ca)

    async def close(self) -> None:
        """Detaches or stops the webhooks.

        A registration for a Service stays: other replicas answer, and writes must not bypass admission while there is
        none. A registration for a URL is removed: it was this single process, and every write would time out.
        """
        if self._detach is not None:
            self._detach()
        if self._endpoint is None:
            return
        if self._client is not None and isinstance(self.webhooks.client_config, Url):
            try:
                await unregister(self._client, self.webhooks)
            except LevelsetError as error:
                _log.warning("webhooks stay registered", extra={"webhooks": self.webhooks.name, "error": str(error)})
        await self._endpoint.stop()
