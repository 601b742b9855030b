"""The rules of Services, as far as they do not depend on what other Services have."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    cidr,
    dns_label,
    ip_address,
    is_ip,
    label_key,
    labels,
    one_of,
    port_number,
    port_number_or_name,
    subdomain_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Table, always, given, required
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["SERVICE", "check_addresses", "check_balancer_address", "check_endpoint_ip"]

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
MAX_AFFINITY_SECONDS: Final = 86400


def _is_headless(spec: Any) -> bool:
    return list_member(spec, "clusterIPs") == ["None"] or spec.get("clusterIP") == "None"


def _ports_needed(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not spec.get("ports") and not _is_headless(spec) and spec.get("type") != "ExternalName":
        out.append(field_errors.required(f"{at}.ports"))


def _by_type(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind = spec.get("type")
    if kind in ("LoadBalancer", "NodePort") and _is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        out.append(field_errors.invalid(f"{at}.clusterIPs[0]", "None", detail))
    if kind != "ExternalName":
        return
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) or (name == "clusterIPs" and spec.get("clusterIP")):
            out.append(field_errors.forbidden(f"{at}.{name}", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        out.append(field_errors.required(f"{at}.externalName"))
    else:
        out.extend([field_errors.invalid(f"{at}.externalName", name, one) for one in subdomain_problems(name)])


def _ports(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    ports = list_member(spec, "ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{at}.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            out.append(field_errors.required(f"{where}.name"))
        elif name:
            if not dns_label.is_valid(name):
                dns_label.report(name, f"{where}.name", out)
            if name in names:
                out.append(field_errors.duplicate(f"{where}.name", name))
            names.add(name)
        PORT(port, where, out, None)


def _port_number(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not 1 <= (value or 0) <= 65535:
        out.append(field_errors.invalid(at, value or 0, "must be between 1 and 65535, inclusive"))


PORT: Final = Table(
    ("port", always(_port_number)),
    ("protocol", required, one_of("SCTP", "TCP", "UDP")),
    ("targetPort", port_number_or_name),
    ("appProtocol", given(label_key)),
)


def _affinity(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    config = spec.get("sessionAffinityConfig")
    if spec.get("sessionAffinity") == "ClientIP":
        seconds = map_member(config, "clientIP").get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= MAX_AFFINITY_SECONDS:
            detail = f"must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
            out.append(field_errors.invalid(f"{at}.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail))


def check_addresses(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Addresses and families agree with each other."""
    if spec.get("type") == "ExternalName":
        return
    one, many = spec.get("clusterIP") or "", list_member(spec, "clusterIPs")
    families, policy = list_member(spec, "ipFamilies"), spec.get("ipFamilyPolicy")
    if one and many and one != many[0]:
        out.append(field_errors.invalid(f"{at}.clusterIPs", many, "first value must match `clusterIP`"))
    elif many and not one:
        out.append(field_errors.invalid(f"{at}.clusterIPs", many, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(families):
        if family not in ("IPv4", "IPv6"):
            out.append(field_errors.not_supported(f"{at}.ipFamilies[{index}]", family, ("IPv4", "IPv6")))
        if family in families[:index]:
            out.append(field_errors.duplicate(f"{at}.ipFamilies[{index}]", family))
    if policy is not None and policy not in ("PreferDualStack", "RequireDualStack", "SingleStack"):
        allowed = ("PreferDualStack", "RequireDualStack", "SingleStack")
        out.append(field_errors.not_supported(f"{at}.ipFamilyPolicy", policy, allowed))
    _check_cluster_ips(many, families, f"{at}.clusterIPs", out)


def _check_cluster_ips(addresses: list[str], families: list[str], at: str, out: list[Cause]) -> None:
    before = len(out)
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                out.append(field_errors.invalid(at, addresses, "'None' must be the first and only value"))
        elif not is_ip(address):
            ip_address.report(address, f"{at}[{index}]", out)
    if len(addresses) > 2:
        out.append(field_errors.invalid(at, addresses, "may only hold up to 2 values"))
    if len(out) > before or "None" in addresses:
        return
    if len(addresses) > 1 and len({":" in one for one in addresses}) < len(addresses):
        out.append(field_errors.invalid(at, addresses, "may specify no more than one IP for each IP family"))
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in ("IPv4", "IPv6") and (":" in address) != (family == "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            out.append(field_errors.invalid(f"{at}[{index}]", address, detail))


def check_balancer_address(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Checks an address of a load balancer: an IP address or a host name."""
    address, name = value.get("ip"), value.get("hostname")
    if address and not ip_address.is_valid(address):
        ip_address.report(address, f"{at}.ip", out)
    if name:
        out.extend([field_errors.invalid(f"{at}.hostname", name, one) for one in subdomain_problems(name)])
        if is_ip(name):
            out.append(field_errors.invalid(f"{at}.hostname", name, "must be a DNS name, not an IP address"))


def _balancer_mode(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    mode = value.get("ipMode")
    if not value.get("ip") and mode is not None:
        out.append(field_errors.forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set"))
    elif mode is not None and mode not in ("Proxy", "VIP"):
        out.append(field_errors.not_supported(f"{at}.ipMode", mode, ("Proxy", "VIP")))


def _balanced(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    ingress = list_member(map_member(map_member(tree, "status"), "loadBalancer"), "ingress")
    if ingress and map_member(tree, "spec").get("type") != "LoadBalancer":
        detail = "may only be used when `spec.type` is 'LoadBalancer'"
        out.append(field_errors.forbidden("status.loadBalancer.ingress", detail))
        return
    for index, one in enumerate(ingress):
        at = f"status.loadBalancer.ingress[{index}]"
        check_balancer_address(one, at, out, None)
        _balancer_mode(one, at, out, None)


def _address_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    """A second address may be added and released; others may not change, nor may the class of the load balancer."""
    spec, former = map_member(new, "spec"), map_member(old, "spec")
    if "ExternalName" not in (spec.get("type"), former.get("type")):
        headless = [list_member(one, "clusterIPs") == ["None"] for one in (spec, former)]
        if not all(headless):
            _check_unchanged(spec, former, "clusterIPs", out)
        if not any(headless):
            _check_unchanged(spec, former, "ipFamilies", out)
    both = spec.get("type") == former.get("type") == "LoadBalancer"
    if both and spec.get("loadBalancerClass") != former.get("loadBalancerClass"):
        shown = spec.get("loadBalancerClass")
        out.append(field_errors.invalid("spec.loadBalancerClass", shown, "may not change once set"))
    _load_balancer_class(spec, "spec", out)  # as upstream, which checks it again


def _check_unchanged(spec: Any, former: Any, name: str, out: list[Cause]) -> None:
    """Checks that the addresses or families of a Service that stay are those that it had, in their places."""
    after, before = list_member(spec, name), list_member(former, name)
    changed = [index for index, (one, other) in enumerate(zip(after, before, strict=False)) if one != other]
    for index in changed:
        # Families are reported at the first place, with the addresses if their number has changed, as upstream.
        where = index if name == "clusterIPs" else 0
        shown = after if name == "clusterIPs" or len(after) == len(before) else list_member(spec, "clusterIPs")
        out.append(field_errors.invalid(f"spec.{name}[{where}]", shown, "may not change once set"))


def _health_port_change(spec: Any, at: str, out: list[Cause], old: Any) -> None:
    former = map_member(old, "spec")
    kinds = {(one.get("type"), one.get("externalTrafficPolicy")) for one in (spec, former)}
    if kinds == {("LoadBalancer", "Local")} and spec.get("healthCheckNodePort") != former.get("healthCheckNodePort"):
        out.append(field_errors.forbidden(f"{at}.healthCheckNodePort", "field is immutable"))


def check_endpoint_ip(address: str, at: str, out: list[Cause], *, loopback: bool = True) -> None:
    """Checks that an address is one that packets can be sent to; with `loopback` also one of this machine."""
    if address in ("0.0.0.0", "::"):  # noqa: S104 - an address in an object, not one to listen on
        out.append(field_errors.invalid(at, address, f"may not be unspecified ({address})"))
    if not loopback and (address.startswith("127.") or address == "::1"):
        out.append(field_errors.invalid(at, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.startswith(("169.254.", "fe80:")):
        out.append(field_errors.invalid(at, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if address.startswith(("224.0.0.", "ff02:")):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        out.append(field_errors.invalid(at, address, detail))


def _external_ip(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if ip_address.is_valid(value):
        check_endpoint_ip(value, at, out, loopback=False)
    else:
        ip_address.report(value, at, out)


def _node_ports(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    ports = list_member(spec, "ports")
    if spec.get("type") == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                out.append(field_errors.forbidden(f"{at}.ports[{index}].nodePort", detail))
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("nodePort"))
        if port.get("nodePort") and key in numbers:
            out.append(field_errors.duplicate(f"{at}.ports[{index}].nodePort", key[1]))
        numbers.add(key)
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port") or 0)
        if key in seen:
            out.append(field_errors.duplicate(f"{at}.ports[{index}]", {"Protocol": key[0], "Port": key[1]}))
        seen.add(key)


def _load_balancer(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    ranges, is_balanced = list_member(spec, "loadBalancerSourceRanges"), spec.get("type") == "LoadBalancer"
    detail = "may only be used when `type` is 'LoadBalancer'"
    if ranges and not is_balanced:
        out.append(field_errors.forbidden(f"{at}.LoadBalancerSourceRanges", detail))
    for index, value in enumerate(ranges):
        if not cidr.is_valid(value.strip()):
            cidr.report(value.strip(), f"{at}.LoadBalancerSourceRanges[{index}]", out)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not is_balanced:
        out.append(field_errors.forbidden(f"{at}.allocateLoadBalancerNodePorts", detail))
    _load_balancer_class(spec, at, out)


def _load_balancer_class(spec: Any, at: str, out: list[Cause]) -> None:
    chosen = spec.get("loadBalancerClass")
    if chosen is not None and spec.get("type") != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        out.append(field_errors.forbidden(f"{at}.loadBalancerClass", detail))
    elif chosen is not None and not label_key.is_valid(chosen):
        label_key.report(chosen, f"{at}.loadBalancerClass", out)


def _traffic(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind, policy = spec.get("type"), spec.get("externalTrafficPolicy")
    accessible = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if not accessible and policy:
        detail = "may only be set for externally-accessible services"
        out.append(field_errors.invalid(f"{at}.externalTrafficPolicy", policy, detail))
    elif accessible and policy and policy not in ("Cluster", "Local"):
        out.append(field_errors.not_supported(f"{at}.externalTrafficPolicy", policy, ("Cluster", "Local")))
    health, is_checked = spec.get("healthCheckNodePort") or 0, kind == "LoadBalancer" and policy == "Local"
    if not is_checked and health:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        out.append(field_errors.invalid(f"{at}.healthCheckNodePort", health, detail))
    elif is_checked and health and not port_number.is_valid(health):
        port_number.report(health, f"{at}.healthCheckNodePort", out)


_DISTRIBUTIONS: Final = one_of("PreferClose", "PreferSameZone", "PreferSameNode")
SERVICE: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("", _ports_needed),
                ("", _by_type),
                ("", _ports),
                ("selector", labels),
                ("sessionAffinity", required, one_of("ClientIP", "None")),
                ("", _affinity),
                ("", check_addresses),
                ("externalIPs[*]", always(_external_ip)),
                ("type", required, one_of(*TYPES)),
                ("", _node_ports),
                ("", _load_balancer),
                ("", _health_port_change),
                ("", _traffic),
                ("internalTrafficPolicy", given(one_of("Cluster", "Local"))),
                ("trafficDistribution", given(_DISTRIBUTIONS)),
            ),
        ),
        root=True,
    ),
    changes=(("", _address_changes),),
    changes_first=True,
    status=Table(
        ("", _balanced),
        root=True,
    ),
)
