"""Service names are parsed and resolved as a cluster's DNS would."""

import pytest

from levelset_machine.network.service_names import ServiceName, parse_service_name, resolve_host, resolve_url

KNOWN = {("web", "shop"): "127.96.0.7"}


def lookup(name: str, namespace: str) -> str | None:
    return KNOWN.get((name, namespace))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("web.shop.svc.cluster.local", ServiceName("web", "shop")),
        ("web.shop.svc.cluster.local.", ServiceName("web", "shop")),
        ("WEB.shop.svc", ServiceName("web", "shop")),
        ("web.shop", ServiceName("web", "shop")),
        ("web", ServiceName("web", "mine")),
        ("pod.web.shop.svc.cluster.local", None),
        ("web.shop.cluster.local", None),
        ("www.example.com", None),
        ("127.0.0.1", None),
        ("10.1", None),
        ("web..svc", None),
        ("", None),
    ],
)
def test_all_forms_of_a_service_name_are_parsed(host: str, expected: ServiceName | None) -> None:
    assert parse_service_name(host, namespace="mine") == expected


def test_a_short_name_needs_the_namespace_of_the_client() -> None:
    assert parse_service_name("web") is None


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://web.shop.svc.cluster.local:8080/a?b=c#d", "http://127.96.0.7:8080/a?b=c#d"),
        ("http://me:secret@web.shop/a", "http://me:secret@127.96.0.7/a"),
        ("ws://web.shop.svc:1/", "ws://127.96.0.7:1/"),
        ("http://other.shop.svc.cluster.local/", "http://other.shop.svc.cluster.local/"),
        ("http://127.0.0.1:80/", "http://127.0.0.1:80/"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("http://[broken/", "http://[broken/"),
        ("no url", "no url"),
    ],
)
def test_a_url_gets_the_address_of_a_known_service_and_is_unchanged_otherwise(url: str, found: str) -> None:
    assert resolve_url(url, lookup) == found


def test_a_host_with_a_port_keeps_it() -> None:
    assert resolve_host("web:80", lookup, namespace="shop") == "127.96.0.7:80"
    assert resolve_host("web.shop.svc.example.org", lookup, domain="example.org") == "127.96.0.7"
