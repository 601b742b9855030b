"""DNS names of Services, resolved without a cluster DNS.

`http://web.shop.svc.cluster.local:8080/` becomes `http://127.96.0.7:8080/`, if the lookup knows the address of the
Service `web` in `shop`.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

__all__ = ["Lookup", "ServiceName", "parse_service_name", "resolve_host", "resolve_url"]

Lookup = Callable[[str, str], str | None]
"""Returns the address of a Service by its name and namespace, or None if it has none."""

_DOMAIN: Final = "cluster.local"


class ServiceName(Struct, frozen=True):
    """The Service that a DNS name refers to."""

    name: str
    namespace: str


def parse_service_name(host: str, *, namespace: str | None = None, domain: str = _DOMAIN) -> ServiceName | None:
    """The Service that a host name refers to, or None if it is not a Service name.

    `web.shop.svc.cluster.local`, `web.shop.svc` and `web.shop` are a name in a namespace; `web` alone is a Service in
    `namespace`, that of the client. The Service need not exist: `example.com` has the form of one.
    """
    labels = host.lower().removesuffix(".").removesuffix(f".{domain}").split(".")
    if len(labels) == 3 and labels[2] == "svc":
        labels.pop()
    elif host.lower().removesuffix(".").endswith(f".{domain}"):
        return None
    if not all(labels) or labels[-1].isdigit() or len(labels) > 2:
        return None
    if len(labels) == 2:
        return ServiceName(labels[0], labels[1])
    return None if namespace is None else ServiceName(labels[0], namespace)


def resolve_host(host: str, lookup: Lookup, *, namespace: str | None = None, domain: str = _DOMAIN) -> str:
    """A host name or `host:port` with the address of its Service; unchanged if it names none that is known."""
    name, colon, port = host.partition(":")
    service = parse_service_name(name, namespace=namespace, domain=domain)
    address = None if service is None else lookup(service.name, service.namespace)
    return host if address is None else f"{address}{colon}{port}"


def resolve_url(url: str, lookup: Lookup, *, namespace: str | None = None, domain: str = _DOMAIN) -> str:
    """A URL with the address of its Service; unchanged if it names none that is known, or is not a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    user, at, host = parts.netloc.rpartition("@")
    if not host or host.startswith("["):
        return url
    return parts._replace(netloc=user + at + resolve_host(host, lookup, namespace=namespace, domain=domain)).geturl()
