"""`Webhooks`: all webhooks of a program as one value, with client config, certificates and registration."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from levelset.client.client import Client
from levelset.errors import ConfigError
from levelset.objects.names import check_dns1123_subdomain
from levelset.objects.resource import Object
from levelset.runtime.webhook.admission import AdmissionHook, Webhook
from levelset.runtime.webhook.certificates import Certificates, OwnCertificates
from levelset.runtime.webhook.client_config import (
    SERVICE_VARIABLE,
    URL_VARIABLE,
    ClientConfig,
    Service,
    Url,
    client_config_from_environment,
)
from levelset.runtime.webhook.conversion import Conversion, Conversions
from levelset.runtime.webhook.review_handler import ReviewHandler

__all__ = ["InProcessServer", "NestedWebhooks", "Webhook", "Webhooks"]

NestedWebhooks = Webhook | Iterable["NestedWebhooks"]
"""One webhook or several, in any nesting."""

PORT: Final = 9443


@runtime_checkable
class InProcessServer(Protocol):
    """An API server in this process, which calls hooks and conversions directly."""

    def admit(self, *admitters: Any) -> Callable[[], None]:
        """Adds admission plugins; returns the function that removes them."""
        ...

    def convert_with(self, group: str, kind: str, convert: Callable[[Any, str], Any]) -> Callable[[], None]:
        """Sets the conversion function of a kind; returns the function that removes it."""
        ...


class Webhooks:
    """The values of `defaults`, `validates` and `converts`, and how they are served to a cluster.

    `Webhooks(*admission, service=Service("shop-webhooks", "shop"))`. The cluster calls them by a `service` in it or by
    a `url`; the program listens on `host` and `port`, by default the port of the URL, or 9443. A plain list of the
    values is enough for an in-process server, or if the environment has the Service
    (LEVELSET_WEBHOOK_SERVICE=name.namespace) or the URL (LEVELSET_WEBHOOK_URL). `name` is the name of the
    configurations in the cluster. By default `certificates` are signed by an authority of our own, which for a Service
    is stored in the Secret `<service>-certificates`. Without `registers`, the configurations and their CA bundle must
    be applied by other means.
    """

    def __init__(
        self,
        *webhooks: "NestedWebhooks | Webhooks",
        name: str | None = None,
        service: Service | None = None,
        url: str | None = None,
        host: str = "0.0.0.0",  # noqa: S104 - a pod must accept connections from the API server
        port: int | None = None,
        certificates: Certificates | None = None,
        registers: bool = True,
    ) -> None:
        found = list(_flat(webhooks))
        self.hooks: Sequence[AdmissionHook] = tuple(one for one in found if isinstance(one, AdmissionHook))
        self.conversions: Sequence[Conversion] = tuple(one for one in found if isinstance(one, Conversion))
        self._name = name
        self.name = name or _default_name(found)
        if service is not None and url is not None:
            raise ConfigError(f"webhooks {self.name}: give a service or a url, not both")
        self._client_config: ClientConfig | None = service if url is None else Url(url)
        self.host, self._port = host, port
        self.registers = registers
        self._certificates = certificates
        if self.name and check_dns1123_subdomain(self.name):
            raise ConfigError(f"name {self.name!r}: must be a DNS subdomain such as website-operator")
        ReviewHandler(self.hooks, self.conversions)  # raises ConfigError for duplicate names

    def __bool__(self) -> bool:
        return bool(self.hooks or self.conversions)

    def with_more(self, *webhooks: "NestedWebhooks | Webhooks") -> "Webhooks":
        """A copy with more webhooks."""
        return Webhooks(
            self.hooks,
            self.conversions,
            *webhooks,
            name=self._name,
            service=self._client_config if isinstance(self._client_config, Service) else None,
            url=self._client_config.base if isinstance(self._client_config, Url) else None,
            host=self.host,
            port=self._port,
            certificates=self._certificates,
            registers=self.registers,
        )

    @property
    def client_config(self) -> ClientConfig:
        """How the API server reaches this process; ConfigError if it is not configured."""
        found = self._client_config or client_config_from_environment()
        if found is None:
            raise ConfigError(
                f"webhooks {self.name}: the API server needs their address: pass "
                f"Webhooks(..., service=Service(name, namespace)) or url=, or set {SERVICE_VARIABLE} or {URL_VARIABLE}"
            )
        return found

    @property
    def port(self) -> int:
        """The port to listen on: the given one, that of the URL which is registered, or 9443."""
        if self._port is not None:
            return self._port
        found = self._client_config or client_config_from_environment()
        return (found.port if isinstance(found, Url) else None) or PORT

    @property
    def certificates(self) -> Certificates:
        """The source of the serving certificate."""
        if self._certificates is None:
            client_config = self.client_config
            secret = f"{client_config.name}-certificates" if isinstance(client_config, Service) else None
            self._certificates = OwnCertificates(secret=secret)
        return self._certificates

    @property
    def kinds(self) -> Sequence[type[Object]]:
        """The classes of all kinds with hooks or conversions, each once; of several versions the hub first."""
        versions = [one for several in Conversions(self.conversions).kinds.values() for one in several]
        return tuple(dict.fromkeys([*versions, *(one.kind for one in self.hooks if isinstance(one.kind, type))]))

    def handler(self, client: Client | None = None) -> ReviewHandler:
        """The HTTP handler of all webhooks."""
        return ReviewHandler(self.hooks, self.conversions, client=client)

    def attach(self, server: InProcessServer, *, client: Client | None = None) -> Callable[[], None]:
        """Attaches the webhooks to an in-process server; returns the function that detaches them."""
        conversions = Conversions(self.conversions)
        convert = conversions.convert  # one bound method, since the server compares it by identity
        ends = [server.admit(*(one.with_client(client) for one in self.hooks))]
        ends += [server.convert_with(group, kind, convert) for group, kind in conversions.kinds]

        def end() -> None:
            for one in ends:
                one()

        return end

    def __repr__(self) -> str:
        return f"Webhooks({', '.join(map(repr, (*self.hooks, *self.conversions)))})"


def _flat(webhooks: Iterable[Any]) -> Iterator[AdmissionHook | Conversion]:
    for one in webhooks:
        if isinstance(one, AdmissionHook | Conversion):
            yield one
        elif isinstance(one, Webhooks):
            yield from one.hooks
            yield from one.conversions
        elif not isinstance(one, str) and hasattr(one, "__iter__"):
            yield from _flat(one)
        else:
            raise ConfigError(f"{one!r} is not a webhook: pass the results of defaults, validates or converts")


def _default_name(webhooks: Sequence[AdmissionHook | Conversion]) -> str:
    if not webhooks:
        return ""
    first = webhooks[0]
    gvk = first.gvk
    return (
        f"{first.plural}.{gvk.group or 'core'}"
        if isinstance(first, AdmissionHook)
        else f"{gvk.kind.lower()}.{gvk.group}"
    )
