"""The IP families of Services: single stack or dual stack, and which addresses a Service still needs; pure."""

import ipaddress
from collections.abc import Sequence
from typing import Final

from levelset.apiserver.resources.json_members import list_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["HEADLESS", "address_key", "complete_addresses", "complete_families", "family_of"]

HEADLESS: Final = "None"
"""The clusterIP of a headless Service, which has no address."""
_OTHER: Final = {"IPv4": "IPv6", "IPv6": "IPv4"}
_POLICY: Final = "spec.ipFamilyPolicy"


def family_of(address: str) -> str:
    """The family of an address."""
    return "IPv6" if ":" in address else "IPv4"


def address_key(address: str) -> str:
    """The same text for all forms of an address."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def complete_addresses(spec: Object, former: Object | None) -> None:
    """Makes `clusterIP` and `clusterIPs` agree; an update that leaves them out keeps those of the former spec."""
    if former is None:
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return
    one, many = spec.get("clusterIP") or "", list_member(spec, "clusterIPs")
    was, before = former.get("clusterIP") or "", list_member(former, "clusterIPs")
    if "ExternalName" not in (spec.get("type"), former.get("type")):
        one, many = one or was, many or before
    if one == was:
        many = many or before
    elif many == before:
        many = [one] if one else []
    for name, value in (("clusterIP", one), ("clusterIPs", many)):
        if value or name in spec:
            spec[name] = value


def complete_families(spec: Object, former: Object | None, configured: Sequence[str]) -> list[Cause]:
    """Sets the policy and the families of a Service in a cluster with these families, the default one first.

    The addresses that are missing for the families are to be allocated. Returns the causes why the Service cannot have
    what it requests; then the spec is unchanged.
    """
    # Imported late: the rules are loaded with the first Service.
    from levelset.apiserver.registry.builtin.rules.service_rules import check_addresses  # noqa: PLC0415

    if spec.get("type") == "ExternalName" or (former is not None and _keeps_preferred_families(spec, former)):
        return []
    policy = _policy(spec, former)
    families, addresses = [*list_member(spec, "ipFamilies")], [*list_member(spec, "clusterIPs")]
    causes: list[Cause] = []
    check_addresses({**spec, "ipFamilyPolicy": policy}, "spec", causes, None)
    if causes:
        return causes
    if former is not None:
        causes += _release_second(policy, families, addresses, former)
    causes += _check_policy(policy, families, addresses)
    causes += _infer_families(families, addresses, configured)
    if causes:
        return causes
    if not _is_open(spec):
        causes = _check_configured(policy, families, configured)
    if causes:
        return causes
    families = families or [configured[0]]
    if policy != "SingleStack" and len(families) == 1 and (_is_open(spec) or len(configured) == 2):
        families.append(_OTHER[families[0]])
    spec["ipFamilyPolicy"], spec["ipFamilies"] = policy, families
    if addresses:
        spec["clusterIPs"] = addresses
    return []


def _is_open(spec: Object) -> bool:
    """Whether it is headless and without a selector: it may have any families, as others make its endpoints."""
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def _policy(spec: Object, former: Object | None) -> str:
    """The policy of a Service; one without keeps the former one."""
    for given in (spec, former or {}):
        policy: str | None = given.get("ipFamilyPolicy")
        if policy is not None:
            return policy
    return "RequireDualStack" if _is_open(spec) else "SingleStack"


def _keeps_preferred_families(spec: Object, former: Object) -> bool:
    """Whether it prefers dual stack as before, and changes nothing: then it stays as it is when the cluster changes."""
    return (
        spec.get("ipFamilyPolicy") == "PreferDualStack"
        and former.get("ipFamilyPolicy") in (None, "PreferDualStack")
        and spec.get("type") == former.get("type")
        and all(list_member(spec, name) == list_member(former, name) for name in ("clusterIPs", "ipFamilies"))
    )


def _release_second(policy: str, families: list[str], addresses: list[str], former: Object) -> list[Cause]:
    """A Service that becomes single-stack loses its second family and address; with another policy it may not."""
    causes: list[Cause] = []
    for values, name, what in ((addresses, "clusterIPs", "cluster IP"), (families, "ipFamilies", "IP family")):
        before = list_member(former, name)
        if policy == "SingleStack" and values == before:
            del values[1:]
        elif policy != "SingleStack" and 0 < len(values) < len(before):
            detail = f"must be 'SingleStack' to release the secondary {what}"
            causes.append(field_errors.invalid(_POLICY, policy, detail))
    return causes


def _check_policy(policy: str, families: list[str], addresses: list[str]) -> list[Cause]:
    if policy != "SingleStack":
        return []
    detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    several = (("cluster IPs", addresses), ("IP families", families))
    return [field_errors.invalid(_POLICY, policy, detail.format(what)) for what, many in several if len(many) == 2]


def _infer_families(families: list[str], addresses: list[str], configured: Sequence[str]) -> list[Cause]:
    """Appends the families of the addresses for which none is given."""
    causes: list[Cause] = []
    for index, address in enumerate(addresses):
        if address == HEADLESS:
            break
        if index < len(families):
            continue
        family = family_of(address)
        if family in configured:
            families.append(family)
        else:
            detail = f"{family} is not configured on this cluster"
            causes.append(field_errors.invalid(f"spec.clusterIPs[{index}]", addresses, detail))
    return causes


def _check_configured(policy: str, families: list[str], configured: Sequence[str]) -> list[Cause]:
    causes: list[Cause] = []
    if policy == "RequireDualStack" and len(configured) < 2:
        detail = "this cluster is not configured for dual-stack services"
        causes.append(field_errors.invalid(_POLICY, policy, detail))
    for index, family in enumerate(families):
        if family not in configured:
            detail = "not configured on this cluster"
            causes.append(field_errors.invalid(f"spec.ipFamilies[{index}]", family, detail))
    return causes
