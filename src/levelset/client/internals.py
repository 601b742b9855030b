"""The internal seam of the client: what the cache, the controllers and the test tools need beyond its public verbs.

Only levelset's own packages import this module; `levelset.client` does not export it, and it may change in any release.
Programs use the verbs of `Client`, `Client(hooks=...)`, the other options of its constructor, and `in_namespace`.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from levelset.client.client import Client, WriteObserver
from levelset.client.lists import ObjectPage, Transform
from levelset.client.object_types import Kind, view_of
from levelset.client.requests import Fields, Labels, Match, Validation
from levelset.client.transport.interface import Call, CallTap, Hook, Response
from levelset.client.transport.sockets import SocketTransport
from levelset.errors import ConfigError

__all__ = [
    "apply_body",
    "attach_tap",
    "known_documents",
    "list_page",
    "observe_writes",
    "send_once",
    "server_url",
    "with_hook",
    "with_settings",
]

C = TypeVar("C", bound=Client)


class _Internals(Client):
    """Holds the functions below; never instantiated.

    It derives from Client because protected members may be used only by subclasses, which pyright checks. A subclass
    may use those of any client.
    """

    # An alias and not a function around it: controllers apply with it, and each call counts there.
    apply_body = Client._apply_body

    @staticmethod
    def list_page(
        client: Client,
        kind: Kind[Any],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        match: Match | None = None,
        managed_fields: bool = True,
        transform: Transform | None = None,
    ) -> Coroutine[Any, Any, ObjectPage]:
        return client._list_page(
            view_of(kind),
            is_repeated=False,
            namespace=namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            match=match,
            managed_fields=managed_fields,
            transform=transform,
        )

    @staticmethod
    def attach_tap(client: Client, tap: CallTap) -> Callable[[], None]:
        return client._attach(tap)

    @staticmethod
    def known_documents(client: Client) -> Sequence[tuple[str, bytes]]:
        return client._known_documents()

    @staticmethod
    def observe_writes(client: Client, observer: WriteObserver) -> Callable[[], None]:
        return client._observe_writes(observer)

    @staticmethod
    def send_once(client: Client, call: Call) -> Coroutine[Any, Any, Response]:
        return client._pipeline.send_raw(call, is_repeated=False)

    @staticmethod
    def server_url(client: Client) -> str:
        transport = client._pipeline.transport
        if isinstance(transport, SocketTransport):
            return transport.server
        try:
            return str(getattr(client.in_process_server, "url", ""))
        except ConfigError:
            return ""  # it does not listen

    @staticmethod
    def with_hook(client: C, hook: Hook) -> C:
        return client._with_hook(hook)

    @staticmethod
    def with_settings(
        client: C,
        *,
        namespace: str | None = None,
        manager: str | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
        validation: Validation | None = None,
    ) -> C:
        given = {
            "namespace": namespace,
            "manager": manager,
            "timeout": timeout,
            "dry_run": dry_run,
            "validation": validation,
        }
        return client._derive({name: value for name, value in given.items() if value is not None})


apply_body: Final = _Internals.apply_body
"""`client.apply` for a caller that has built the `RequestBody` and its `encode_for_apply` already."""

list_page: Final = _Internals.list_page
"""One page of a list as cached objects: metadata and bytes, nothing else decoded. The request is never retried.

With `managed_fields=False` these are cut out of the bytes; then `transform` may change the bytes.
"""

attach_tap: Final = _Internals.attach_tap
"""Has one more tap see each call of this client and of all others with its connections; returns how to detach it."""

known_documents: Final = _Internals.known_documents
"""What the REST mapper of this client knows already, as discovery documents with their paths."""

observe_writes: Final = _Internals.observe_writes
"""Calls `observer` after each write of this client, or one derived from it, that succeeds; returns how to detach it."""

send_once: Final = _Internals.send_once
"""Sends a raw call once, without a retry, and returns its response whatever its status."""

server_url: Final = _Internals.server_url
"""The URL of the server of a client; empty if it is in this process and listens nowhere."""

with_hook: Final = _Internals.with_hook
"""The same client with one more hook, which sees each verb before all others. Closing it does not close connections."""

with_settings: Final = _Internals.with_settings
"""The same client with other settings. Closing it does not close the connections, which both share."""
