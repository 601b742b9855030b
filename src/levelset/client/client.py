"""The client: one object with a verb for everything that can be asked of an API server.

```python
client = await Client.connect()  # KUBECONFIG, in the cluster, or ~/.kube/config
async with client:
    site = await client.get(Website, "blog")
```
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from levelset.client.asking import Asking, Resolves, Settings
from levelset.client.calls import Answer, Call, Hook, Transport
from levelset.client.connecting import Where, open_transport
from levelset.client.ensuring import Ensuring
from levelset.client.inside import Handles, InsideTransport
from levelset.client.logs import Logs
from levelset.client.mapper import Mapper
from levelset.client.requests import Validation
from levelset.client.retrying import Retries
from levelset.client.sending import Sender
from levelset.client.waiting import Waiting
from levelset.errors import ConfigError
from levelset.web.messages import Peer

__all__ = ["Client"]

_RETRIES: Final = Retries()


class Client(Ensuring, Waiting, Logs):
    """Typed, unstructured and metadata-only access to every kind of one server.

    A namespaced object that is asked for without a namespace is looked for in `namespace`; lists and watches without
    one are of all namespaces. `hooks` see each verb once, `wire_hooks` each attempt of it, and both may answer in the
    server's place. `on_warning` is told what the server warns of; each distinct warning is logged once by default.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "default",
        mapper: Resolves | None = None,
        manager: str = "levelset",
        timeout: float = 30.0,
        retries: Retries = _RETRIES,
        hooks: Sequence[Hook] = (),
        wire_hooks: Sequence[Hook] = (),
        dry_run: bool = False,
        validation: Validation | None = None,
        on_warning: Callable[[Call, str], None] | None = None,
    ) -> None:
        sender = Sender(transport, retries=retries, hooks=hooks, wire_hooks=wire_hooks, on_warning=on_warning)
        settings = Settings(
            namespace=namespace, manager=manager, timeout=timeout, dry_run=dry_run, validation=validation
        )
        known = Mapper(sender.send_plainly, timeout=timeout) if mapper is None else mapper
        super().__init__(sender, settings, known, [])
        self._owns_transport = True

    @classmethod
    async def connect(
        cls,
        where: Where = None,
        /,
        *,
        context: str | None = None,
        peer: Peer | None = None,
        namespace: str | None = None,
        **options: Any,
    ) -> Self:
        """A client of the server that a kubeconfig names, of one that a Config describes, or of one in this process.

        Without an argument KUBECONFIG, the cluster that this process runs in, and `~/.kube/config` are looked at, in
        that order. `peer` is who asks a server in this process, its owner by default; `options` are those of `Client`.
        """
        transport, found = await open_transport(where, context=context, peer=peer)
        return cls(transport, namespace=namespace or found or "default", **options)

    @property
    def inside(self) -> Handles | None:
        """The server of this process that it asks; None if it talks to one elsewhere."""
        transport = self._sender.transport
        return transport.server if isinstance(transport, InsideTransport) else None

    def using(
        self,
        *,
        namespace: str | None = None,
        manager: str | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
        validation: Validation | None = None,
    ) -> Self:
        """The same client with other settings: it shares the connections, and whoever opened them closes them."""
        changes = {
            "namespace": namespace,
            "manager": manager,
            "timeout": timeout,
            "dry_run": dry_run,
            "validation": validation,
        }
        return self._with({name: value for name, value in changes.items() if value is not None})

    def in_namespace(self, namespace: str, /) -> Self:
        """The same client, confined to one namespace: all verbs mean that one, and another one is refused.

        Kinds that are not namespaced stay reachable.
        """
        if self._settings.only_namespace not in {None, namespace}:
            raise ConfigError(f"this client is for namespace {self._settings.only_namespace} only, not {namespace}")
        return self._with({"only_namespace": namespace})

    def hooked(self, hook: Hook, /) -> Self:
        """The same client with one more hook, which sees each verb before all others do; it shares the connections."""
        made = self._with({})
        made._sender = self._sender.hooked(hook)
        return made

    async def send(self, call: Call, /) -> Answer:
        """The answer to a call of one's own; ApiError for a refusal."""
        return await self._sender.send(call)

    async def aclose(self) -> None:
        """Closes the connections; streams that are still open end with Unreachable."""
        if self._owns_transport:
            await self._sender.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _with(self, changes: dict[str, Any]) -> Self:
        made = object.__new__(type(self))
        settings = msgspec.structs.replace(self._settings, **changes)
        Asking.__init__(made, self._sender, settings, self._mapper, self._observers)
        made._owns_transport = False
        return made
