"""The rules of Ingresses, IngressClasses, NetworkPolicies, Endpoints and EndpointSlices."""

import ipaddress
import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    bytes_at_most,
    cidr,
    dns_label,
    dns_subdomain,
    domain_path,
    fails,
    ip_address,
    is_ip,
    label_key,
    label_selector,
    label_value,
    labels,
    one_of,
    path_segment_problems,
    port_name_problems,
    port_number,
    subdomain_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    always,
    given,
    immutable,
    on_create,
    required,
)
from levelset.apiserver.registry.builtin.rules.service_rules import check_balancer_address, check_endpoint_ip
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["ENDPOINTS", "ENDPOINT_SLICE", "INGRESS", "INGRESS_CLASS", "NETWORK_POLICY"]

PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_WILDCARD: Final = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def _host_problems(host: str) -> list[str]:
    if "*" not in host:
        return subdomain_problems(host)
    problems = ["must be no more than 253 characters"] if len(host) > 253 else []
    if not re.fullmatch(_WILDCARD, host):
        rule = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must"
        rule = (
            f"{rule} consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        problems.append(f"{rule} (e.g. '*.example.com', regex used for validation is '{_WILDCARD}')")
    return problems


def _something_served(given_spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    spec: dict[str, Any] = given_spec or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        out.append(field_errors.invalid(at, spec.get("rules"), detail))


def _backend(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    resource, service = value.get("resource"), value.get("service")
    if resource is not None and service is not None:
        out.append(field_errors.invalid(at, "", "cannot set both resource and service backends"))
    elif resource is not None:
        RESOURCE(resource, f"{at}.resource", out, None)
    elif service is None:
        out.append(field_errors.invalid(at, "", "resource or service backend is required"))
    else:
        _service_backend(service, at, out)


def _service_backend(service: Any, at: str, out: list[Cause]) -> None:
    name, port = service.get("name") or "", map_member(service, "port")
    if not name:
        out.append(field_errors.required(f"{at}.service.name"))
    elif not dns_label.is_valid(name):
        dns_label.report(name, f"{at}.service.name", out)
    if port.get("name") and port.get("number"):
        out.append(field_errors.invalid(at, "", "cannot set both port name & port number"))
    elif port.get("name"):
        path = f"{at}.service.port.name"
        out.extend([field_errors.invalid(path, port["name"], one) for one in port_name_problems(port["name"])])
    elif port.get("number"):
        if not port_number.is_valid(port["number"]):
            port_number.report(port["number"], f"{at}.service.port.number", out)
    else:
        out.append(field_errors.required(at, "port name or number is required"))


def _segment(value: str, at: str, out: list[Cause], _context: Any) -> None:
    out.extend([field_errors.invalid(at, value, one) for one in path_segment_problems(value)])


RESOURCE: Final = Table(("apiGroup", given(dns_subdomain)), ("kind", required, _segment), ("name", required, _segment))


def _path(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind, path = value.get("pathType"), value.get("path") or ""
    if kind is None:
        out.append(field_errors.required(f"{at}.pathType", "pathType must be specified"))
        return
    if kind in ("Exact", "Prefix"):
        if not path.startswith("/"):
            out.append(field_errors.invalid(f"{at}.path", path, "must be an absolute path"))
        for text in ("//", "/./", "/../", "%2f", "%2F"):
            if text in path:
                out.append(field_errors.invalid(f"{at}.path", path, f"must not contain '{text}'"))
        for text in ("/..", "/."):
            if path.endswith(text):
                out.append(field_errors.invalid(f"{at}.path", path, f"cannot end with '{text}'"))
    elif kind == "ImplementationSpecific":
        if path and not path.startswith("/"):
            out.append(field_errors.invalid(f"{at}.path", path, "must be an absolute path"))
    else:
        out.append(field_errors.not_supported(f"{at}.pathType", kind, PATH_TYPES))
    _backend(map_member(value, "backend"), f"{at}.backend", out, None)


def _host(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if is_ip(value):
        out.append(field_errors.invalid(at, value, "must be a DNS name, not an IP address"))
    out.extend([field_errors.invalid(at, value, one) for one in _host_problems(value)])


def _tls_host(value: str, at: str, out: list[Cause], _context: Any) -> None:
    out.extend([field_errors.invalid(at, value, one) for one in _host_problems(value)])


def _class_annotation(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    key = "kubernetes.io/ingress.class"
    note, name = map_member(tree["metadata"], "annotations").get(key), map_member(tree, "spec").get("ingressClassName")
    if note is not None and name is not None and note != name:
        detail = "must match `ingressClassName` when both are specified"
        out.append(field_errors.invalid(f"annotations.{key}", note, detail))


INGRESS: Final = KindRules(
    rules=Table(
        ("spec", always(_something_served)),
        (
            "spec",
            Table(
                ("defaultBackend", _backend),
                (
                    "rules[*]",
                    Table(("host", _host), ("http", Table(("paths", required), ("paths[*]", _path)))),
                ),
                ("tls[*]", Table(("hosts[*]", always(_tls_host)), ("secretName", dns_subdomain))),
                ("ingressClassName", given(dns_subdomain)),
            ),
        ),
        ("", on_create(_class_annotation)),
        root=True,
    ),
    status=Table(("status.loadBalancer", Table(("ingress[*]", check_balancer_address))), root=True),
)


def _parameters(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    PARAMETERS(value, at, out, None)
    scope, namespace = value.get("scope"), value.get("namespace")
    if scope == "Namespace" and namespace is None:
        out.append(field_errors.required(f"{at}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace" and not dns_label.is_valid(namespace):
        dns_label.report(namespace, f"{at}.namespace", out)
    if scope == "Cluster" and value.get("namespace") is not None:
        out.append(field_errors.forbidden(f"{at}.namespace", "`parameters.scope` is set to 'Cluster'"))


PARAMETERS: Final = Table(
    ("apiGroup", given(dns_subdomain)),
    ("kind", required, fails(path_segment_problems)),
    ("name", required, fails(path_segment_problems)),
    ("scope", given(one_of("Cluster", "Namespace"))),
)
INGRESS_CLASS: Final = KindRules(
    rules=Table(
        ("spec", Table(("controller", Required(), bytes_at_most(250), domain_path), ("parameters", _parameters))),
        root=True,
    ),
    changes=(("spec.controller", immutable),),
    changes_first=True,
)


def _policy_port(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    port, end = value.get("port"), value.get("endPort")
    if value.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        out.append(field_errors.not_supported(f"{at}.protocol", value["protocol"], ("TCP", "UDP", "SCTP")))
    if isinstance(port, int):
        if not port_number.is_valid(port):
            port_number.report(port, f"{at}.port", out)
        if end is not None and end < port:
            out.append(field_errors.invalid(f"{at}.endPort", port, "must be greater than or equal to `port`"))
        if end is not None and not port_number.is_valid(end):
            port_number.report(end, f"{at}.endPort", out)
    elif end is not None:
        detail = "not specified" if port is None else "non-numeric"
        out.append(field_errors.invalid(f"{at}.endPort", end, f"may not be specified when `port` is {detail}"))
    if isinstance(port, str):
        out.extend([field_errors.invalid(f"{at}.port", port, one) for one in port_name_problems(port)])


def _block(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    text = value.get("cidr") or ""
    if not text:
        out.append(field_errors.required(f"{at}.cidr"))
        return
    if not cidr.is_valid(text):
        cidr.report(text, f"{at}.cidr", out)
    if "/" not in text:
        return
    try:
        whole = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return
    for index, one in enumerate(list_member(value, "except")):
        where = f"{at}.except[{index}]"
        if not cidr.is_valid(one):
            cidr.report(one, where, out)
        try:
            part = ipaddress.ip_network(one, strict=False)
        except ValueError:
            continue
        inside = part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
        if not inside:
            out.append(field_errors.invalid(where, one, "must be a strict subset of `cidr`"))


def _peer(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    PEER(value, at, out, None)
    count = sum(value.get(name) is not None for name in ("podSelector", "namespaceSelector", "ipBlock"))
    if not count:
        out.append(field_errors.required(at, "must specify a peer"))
    elif count > 1 and value.get("ipBlock") is not None:
        out.append(field_errors.forbidden(at, "may not specify both ipBlock and another peer"))


PEER: Final = Table(("podSelector", label_selector), ("namespaceSelector", label_selector), ("ipBlock", _block))


def _policy_types(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if len(value) > 2:
        out.append(field_errors.invalid(at, value, "may not specify more than two policyTypes"))
        return
    for index, one in enumerate(value):
        if one not in ("Ingress", "Egress"):
            out.append(field_errors.not_supported(f"{at}[{index}]", one, ("Ingress", "Egress")))


NETWORK_POLICY: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("podSelector", label_selector),
                ("ingress[*]", Table(("ports[*]", _policy_port), ("from[*]", _peer))),
                ("egress[*]", Table(("ports[*]", _policy_port), ("to[*]", _peer))),
                ("policyTypes", _policy_types),
            ),
        ),
        root=True,
    ),
)


def _address(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    address = value.get("ip") or ""
    if ip_address.is_valid(address):
        check_endpoint_ip(address, f"{at}.ip", out)
    else:
        ip_address.report(address, f"{at}.ip", out)
        if not is_ip(address):
            out.append(field_errors.invalid(f"{at}.ip", address, "must be a valid IP address"))
    ADDRESS(value, at, out, None)


ADDRESS: Final = Table(("hostname", dns_label), ("nodeName", given(dns_subdomain)))


def _subset(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not value.get("addresses") and not value.get("notReadyAddresses"):
        out.append(field_errors.required(at, "must specify `addresses` or `notReadyAddresses`"))
    SUBSET(value, at, out, None)
    ports = list_member(value, "ports")
    for index, port in enumerate(ports):
        where = f"{at}.ports[{index}]"
        if len(ports) > 1 and not port.get("name"):
            out.append(field_errors.required(f"{where}.name"))
        elif port.get("name") and not dns_label.is_valid(port["name"]):
            dns_label.report(port["name"], f"{where}.name", out)
        ENDPOINT_PORT(port, where, out, None)


def _number(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not port_number.is_valid(value or 0):
        port_number.report(value or 0, at, out)


ENDPOINT_PORT: Final = Table(
    ("port", always(_number)), ("protocol", required, one_of("SCTP", "TCP", "UDP")), ("appProtocol", given(label_key))
)
SUBSET: Final = Table(("addresses[*]", _address), ("notReadyAddresses[*]", _address))
ENDPOINTS: Final = KindRules(rules=Table(("subsets[*]", _subset), root=True))


def _slice_endpoints(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    endpoints, kind = list_member(tree, "endpoints"), tree.get("addressType")
    if len(endpoints) > 1000:
        out.append(field_errors.too_many("endpoints", len(endpoints), 1000))
        return
    for index, endpoint in enumerate(endpoints):
        where, addresses = f"endpoints[{index}]", list_member(endpoint, "addresses")
        if not addresses:
            out.append(field_errors.required(f"{where}.addresses", "must contain at least 1 address"))
        elif len(addresses) > 100:
            out.append(field_errors.too_many(f"{where}.addresses", len(addresses), 100))
        for number, address in enumerate(addresses):
            _slice_address(address, f"{where}.addresses", number, out, kind)
        SLICE_ENDPOINT(endpoint, where, out, None)


def _hints(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The zones and nodes that an endpoint is for: at most eight, each of them once."""
    for member, test in (("forZones", label_value), ("forNodes", dns_subdomain)):
        hints = list_member(value, member)
        if len(hints) > 8:
            out.append(field_errors.too_many(f"{at}.{member}", len(hints), 8))
            return
        seen: set[str] = set()
        for index, one in enumerate(hints):
            name, where = one.get("name") or "", f"{at}.{member}[{index}].name"
            if name in seen:
                out.append(field_errors.duplicate(where, name))
            seen.add(name)
            if not test.is_valid(name):
                test.report(name, where, out)


SLICE_ENDPOINT: Final = Table(
    ("nodeName", given(dns_subdomain)),
    ("deprecatedTopology", labels),
    ("hostname", given(dns_label)),
    ("hints", _hints),
)


def _slice_address(address: str, of: str, index: int, out: list[Cause], kind: Any) -> None:
    at = f"{of}[{index}]"
    if kind == "FQDN":
        out.extend([field_errors.invalid(at, address, one) for one in subdomain_problems(address)])
    elif kind in ("IPv4", "IPv6"):
        wanted = ":" in address if kind == "IPv6" else ":" not in address
        if not ip_address.is_valid(address):
            ip_address.report(address, at, out)
        elif not wanted:
            out.append(field_errors.invalid(of, address, f"must be an {kind} address"))
        if ip_address.is_valid(address):
            check_endpoint_ip(address, at, out)


def _slice_ports(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    ports = list_member(tree, "ports")
    if len(ports) > 20000:
        out.append(field_errors.too_many("ports", len(ports), 20000))
        return
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"ports[{index}]", port.get("name") or ""
        if name and not dns_label.is_valid(name):
            dns_label.report(name, f"{where}.name", out)
        if name in names:
            out.append(field_errors.duplicate(f"{where}.name", name))
        names.add(name)
        SLICE_PORT(port, where, out, None)


SLICE_PORT: Final = Table(
    ("protocol", given(one_of("SCTP", "TCP", "UDP"))),
    ("appProtocol", given(label_key)),
)
ENDPOINT_SLICE: Final = KindRules(
    rules=Table(
        ("addressType", Required(), one_of("FQDN", "IPv4", "IPv6")),
        ("", _slice_endpoints),
        ("", _slice_ports),
        root=True,
    ),
    changes=(("addressType", immutable),),
)
