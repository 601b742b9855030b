"""All webhooks of a program as one value: what they are, how an API server reaches them, and which papers they show."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from levelset.client.client import Client
from levelset.errors import ConfigError
from levelset.objects.names import check_dns1123_subdomain
from levelset.objects.resource import Object
from levelset.runtime.webhook.admission import Hook, Webhook
from levelset.runtime.webhook.certificates import Certificates, OwnCertificates
from levelset.runtime.webhook.client_config import SERVICE, URL, Reach, Service, Url, reach_from_environment
from levelset.runtime.webhook.conversion import Conversions, Converts
from levelset.runtime.webhook.review_handler import Answers

__all__ = ["Admits", "Several", "Webhook", "Webhooks"]

Several = Webhook | Iterable["Several"]
"""One webhook or several, in any nesting."""

PORT: Final = 9443


@runtime_checkable
class Admits(Protocol):
    """A server in this process that asks hooks and converts without any connection."""

    def admit(self, *admitters: Any) -> Callable[[], None]:
        """Asks these from now on; gives the function that ends it."""
        ...

    def convert_with(self, group: str, kind: str, convert: Callable[[Any, str], Any]) -> Callable[[], None]:
        """Converts the versions of a kind with this function; gives the function that ends it."""
        ...


class Webhooks:
    """What `defaults`, `validates` and `converts` have made, together with how it is served to a cluster.

    `Webhooks(*admission, service=Service("shop-webhooks", "shop"))`. A list of such values will do where a server in
    this process is used, or where the environment names the Service (LEVELSET_WEBHOOK_SERVICE=name.namespace) or the
    address (LEVELSET_WEBHOOK_URL). `name` is that of the configurations in the cluster. Without `certificates` there is
    an authority of our own, for a Service kept in the Secret `<service>-certificates`. Unless it `registers`, somebody
    else puts the configurations into the cluster, and the authority into them.
    """

    def __init__(
        self,
        *webhooks: "Several | Webhooks",
        name: str | None = None,
        service: Service | None = None,
        url: str | None = None,
        host: str = "0.0.0.0",  # noqa: S104 - a pod is asked from outside
        port: int = PORT,
        certificates: Certificates | None = None,
        registers: bool = True,
    ) -> None:
        found = list(_flat(webhooks))
        self.hooks: Sequence[Hook] = tuple(one for one in found if isinstance(one, Hook))
        self.conversions: Sequence[Converts] = tuple(one for one in found if isinstance(one, Converts))
        self._name = name
        self.name = name or _default_name(found)
        if service is not None and url is not None:
            raise ConfigError(f"webhooks {self.name}: give a service or a url, not both")
        self._reach: Reach | None = service if url is None else Url(url)
        self.host, self.port = host, port
        self.registers = registers
        self._certificates = certificates
        if self.name and check_dns1123_subdomain(self.name):
            raise ConfigError(f"name {self.name!r}: the name of the configurations is one such as website-operator")
        Answers(self.hooks, self.conversions)  # says at once what is there twice

    def __bool__(self) -> bool:
        return bool(self.hooks or self.conversions)

    def with_more(self, *webhooks: "Several | Webhooks") -> "Webhooks":
        """The same, with more of them."""
        return Webhooks(
            self.hooks,
            self.conversions,
            *webhooks,
            name=self._name,
            service=self._reach if isinstance(self._reach, Service) else None,
            url=self._reach.base if isinstance(self._reach, Url) else None,
            host=self.host,
            port=self.port,
            certificates=self._certificates,
            registers=self.registers,
        )

    @property
    def reach(self) -> Reach:
        """How an API server reaches this process; ConfigError if nobody has said."""
        found = self._reach or reach_from_environment()
        if found is None:
            raise ConfigError(
                f"webhooks {self.name}: the API server must be told where they are: give "
                f"Webhooks(..., service=Service(name, namespace)) or url=, or set {SERVICE} or {URL}"
            )
        return found

    @property
    def certificates(self) -> Certificates:
        """Where the papers come from."""
        if self._certificates is None:
            reach = self.reach
            secret = f"{reach.name}-certificates" if isinstance(reach, Service) else None
            self._certificates = OwnCertificates(secret=secret)
        return self._certificates

    @property
    def kinds(self) -> Sequence[type[Object]]:
        """The classes of all kinds that are asked about or converted, each once; of versions the hub comes first."""
        versions = [one for several in Conversions(self.conversions).kinds.values() for one in several]
        return tuple(dict.fromkeys([*versions, *(one.kind for one in self.hooks if isinstance(one.kind, type))]))

    def answers(self, client: Client | None = None) -> Answers:
        """The handler that serves them."""
        return Answers(self.hooks, self.conversions, client=client)

    def attach(self, server: Admits, *, client: Client | None = None) -> Callable[[], None]:
        """Has a server in this process ask and convert without any connection; gives the function that ends it."""
        conversions = Conversions(self.conversions)
        convert = conversions.convert  # one object, by which a server knows it again
        ends = [server.admit(*(one.with_client(client) for one in self.hooks))]
        ends += [server.convert_with(group, kind, convert) for group, kind in conversions.kinds]

        def end() -> None:
            for one in ends:
                one()

        return end

    def __repr__(self) -> str:
        return f"Webhooks({', '.join(map(repr, (*self.hooks, *self.conversions)))})"


def _flat(webhooks: Iterable[Any]) -> Iterator[Hook | Converts]:
    for one in webhooks:
        if isinstance(one, Hook | Converts):
            yield one
        elif isinstance(one, Webhooks):
            yield from one.hooks
            yield from one.conversions
        elif not isinstance(one, str) and hasattr(one, "__iter__"):
            yield from _flat(one)
        else:
            raise ConfigError(f"{one!r} is no webhook: give what defaults, validates or converts have made")


def _default_name(webhooks: Sequence[Hook | Converts]) -> str:
    if not webhooks:
        return ""
    first = webhooks[0]
    gvk = first.gvk
    return f"{first.plural}.{gvk.group or 'core'}" if isinstance(first, Hook) else f"{gvk.kind.lower()}.{gvk.group}"
