"""The names by which Services are called inside a cluster, and the addresses they stand for where no DNS knows them.

`http://web.shop.svc.cluster.local:8080/` becomes `http://127.96.0.7:8080/`, if somebody can say which address `web` in
`shop` has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Lookup", "ServiceName", "parse_service_name", "resolve_host", "resolve_url"]

Lookup = Callable[[str, str], str | None]
"""Gives the address of a Service for its name and namespace, or None if it has none."""

_DOMAIN: Final = "cluster.local"


@dataclass(frozen=True, slots=True)
class ServiceName:
    """A Service, as it is meant by a name."""

    name: str
    namespace: str


def parse_service_name(host: str, *, namespace: str | None = None, domain: str = _DOMAIN) -> ServiceName | None:
    """The Service that a host name may mean, or None if it cannot be one.

    `web.shop.svc.cluster.local`, `web.shop.svc` and `web.shop` are a name in a namespace; `web` alone is one in the
    namespace of whoever asks. Whether there is such a Service is another question: `example.com` looks like one.
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
    """The address of the Service that a host name, or `host:port`, means; as it was if it means none."""
    name, colon, port = host.partition(":")
    meant = parse_service_name(name, namespace=namespace, domain=domain)
    address = None if meant is None else lookup(meant.name, meant.namespace)
    return host if address is None else f"{address}{colon}{port}"


def resolve_url(url: str, lookup: Lookup, *, namespace: str | None = None, domain: str = _DOMAIN) -> str:
    """The URL with the address of the Service in the place of its name; as it was if it names none, or is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    user, at, place = parts.netloc.rpartition("@")
    if not place or place.startswith("["):
        return url
    return parts._replace(netloc=user + at + resolve_host(place, lookup, namespace=namespace, domain=domain)).geturl()
