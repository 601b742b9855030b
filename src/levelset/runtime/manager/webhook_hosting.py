"""The webhooks of a manager, from its start to its end: asked in this process, or served to the cluster over HTTPS."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from levelset.client.client import Client
from levelset.errors import LevelsetError
from levelset.runtime.manager.health import Health
from levelset.runtime.manager.metrics import WebhookNumbers
from levelset.runtime.manager.prometheus_text import Registry
from levelset.runtime.webhook.client_config import Url
from levelset.runtime.webhook.endpoint import Endpoint
from levelset.runtime.webhook.registration import register, unregister
from levelset.runtime.webhook.webhook_set import Admits, Webhooks

__all__ = ["WebhookHosting"]

_log: Final = logging.getLogger("levelset.runtime.manager")


class WebhookHosting:
    """Has the server of a client ask these webhooks between `open` and `close`."""

    def __init__(self, webhooks: Webhooks, health: Health, registry: Registry) -> None:
        self.webhooks = webhooks
        self._health, self._registry = health, registry
        self._detach: Callable[[], None] | None = None
        self._endpoint: Endpoint | None = None
        self._client: Client | None = None

    @property
    def urls(self) -> Mapping[str, str]:
        """Where they are served, if they are."""
        return {} if self._endpoint is None else {"webhooks": self._endpoint.url}

    async def open(self, client: Client) -> None:
        """Returns when the server asks them, or has been told to; ConfigError if it cannot be told where they are."""
        if not self.webhooks:
            return
        server = client.inside
        if isinstance(server, Admits):
            self._detach = self.webhooks.attach(server, client=client)
            return

        async def announce(ca: bytes | None) -> None:
            applied = await register(client, self.webhooks, ca=ca)
            _log.info("registered webhooks", extra={"applied": ", ".join(applied)})

        registers = self.webhooks.registers
        numbers, trust = WebhookNumbers(), announce if registers else None
        self._endpoint = endpoint = Endpoint(self.webhooks, client=client, on_trust=trust, around=numbers.around)
        numbers.add(endpoint.paths)
        self._registry.add(numbers.families)
        # It answers before the server is told of it: from then on every write would wait for it.
        await endpoint.start()
        self._health.ready.add("webhooks", endpoint.check)
        if registers:
            self._client = client
            await announce(endpoint.ca)

    async def close(self) -> None:
        """Has them asked no longer.

        What was registered for a Service stays: other replicas answer, and nothing may slip by while none is there. A
        single process outside of the cluster is gone when it ends, and every write would wait for it in vain.
        """
        if self._detach is not None:
            self._detach()
        if self._endpoint is None:
            return
        if self._client is not None and isinstance(self.webhooks.reach, Url):
            try:
                await unregister(self._client, self.webhooks)
            except LevelsetError as error:
                _log.warning("webhooks stay registered", extra={"webhooks": self.webhooks.name, "error": str(error)})
        await self._endpoint.stop()
