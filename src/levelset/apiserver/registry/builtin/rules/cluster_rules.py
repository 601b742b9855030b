"""The rules of Namespaces, Nodes, ServiceAccounts and APIServices."""

import ipaddress
import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    cidr,
    dns1035_label,
    dns_subdomain,
    label_key_problems,
    label_value_problems,
    one_of,
    path_segment_problems,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_containers import check_quantity
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import TAINT_EFFECTS
from levelset.apiserver.registry.builtin.rules.rule_tables import Endpoint, KindRules, Table, always, on_create, zero
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["API_SERVICE", "NAMESPACE", "NODE"]

STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")


def _check_finalizer(name: str, at: str, out: list[Cause]) -> None:
    out.extend([field_errors.invalid(at, name, one) for one in label_key_problems(name)])
    if "/" not in name and name not in STANDARD_FINALIZERS:
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        out.append(field_errors.invalid(at, name, detail))


def _finalizers(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    for name in list_member(map_member(tree, "spec"), "finalizers"):
        _check_finalizer(name, "spec.finalizers", out)


def _finalizers_by_index(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    for index, name in enumerate(list_member(map_member(tree, "spec"), "finalizers")):
        _check_finalizer(name, f"spec.finalizers[{index}]", out)


def _phase(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    deleting = tree["metadata"].get("deletionTimestamp") is not None
    phase, known = map_member(tree, "status").get("phase") or "", "Terminating" if deleting else "Active"
    if phase != known:
        detail = f"may only be '{known}' if `deletionTimestamp` is {'not empty' if deleting else 'empty'}"
        out.append(field_errors.invalid("status.Phase", phase, detail))


NAMESPACE: Final = KindRules(
    rules=Table(("", on_create(_finalizers)), root=True),
    status=Table(("", _phase), root=True),
    endpoints={"finalize": Endpoint(Table(("", _finalizers_by_index), root=True))},
)


def _taints(value: list[Any], _at: str, out: list[Cause], _context: Any) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(value):
        at, key, effect = f"metadata.taints[{index}]", taint.get("key") or "", taint.get("effect") or ""
        out.extend([field_errors.invalid(f"{at}.key", key, one) for one in label_key_problems(key)])
        problems = label_value_problems(taint.get("value") or "")
        if problems:
            out.append(field_errors.invalid(f"{at}.value", taint["value"], ";".join(problems)))
        if not effect:
            out.append(field_errors.required(f"{at}.effect"))
        elif effect not in TAINT_EFFECTS:
            out.append(field_errors.not_supported(f"{at}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = field_errors.duplicate(at, taint)
            out.append(Cause(at, shown.reason, f"{shown.message}: taints must be unique by key and effect pair"))
        seen.add((key, effect))


def _pod_cidrs(value: list[str], at: str, out: list[Cause], _context: Any) -> None:
    for index, text in enumerate(value):
        if not cidr.is_valid(text):
            cidr.report(text, f"{at}[{index}]", out)
    wrong = next((one for one in enumerate(value) if not _family(one[1])), None) if len(value) > 1 else None
    if wrong is not None:
        problem = f"invalid CIDR[{wrong[0]}]: <nil> (invalid CIDR address: {wrong[1]})"
        detail = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{problem}"
        out.append(Cause(at, "InternalError", detail))
    families = {_family(one) for one in value}
    if len(value) > 1 and (wrong is not None or len(value) > 2 or len(families) < 2):
        detail = "may specify no more than one CIDR for each IP family"
        out.append(field_errors.invalid(at, value, detail))


def _family(text: str) -> int:
    if "/" not in text:
        return 0
    try:
        return ipaddress.ip_interface(text).version
    except ValueError:
        return 0


def _resources(status: Any, _at: str, out: list[Cause], _context: Any) -> None:
    for where in ("capacity", "allocatable"):
        amounts = map_member(status, where)
        for name in sorted(amounts):
            check_quantity(name, amounts[name], f"status.{where}.{name}", out)


def _addresses(status: Any, _at: str, out: list[Cause], _context: Any) -> None:
    seen: set[tuple[Any, Any]] = set()
    for index, one in enumerate(list_member(status, "addresses")):
        key = (one.get("type"), one.get("address"))
        if key in seen:
            shown = {"Type": key[0] or "", "Address": key[1] or ""}
            out.append(field_errors.duplicate(f"status.addresses[{index}]", shown))
        seen.add(key)


def _declared_features(status: Any, _at: str, out: list[Cause], _context: Any) -> None:
    features = list_member(status, "declaredFeatures")
    for index, name in enumerate(features):
        at = f"status.declaredFeatures[{index}]"
        problem = _feature_problem(name)
        if problem:
            out.append(field_errors.invalid(at, name, f'invalid feature name "{name}": {problem}'))
        if index + 1 < len(features):
            following = features[index + 1]
            if name == following:
                out.append(field_errors.duplicate(f"status.declaredFeatures[{index + 1}]", following))
            elif name > following:
                where = f"status.declaredFeatures[{index + 1}]"
                out.append(field_errors.invalid(where, following, "list must be sorted alphabetically"))


def _feature_problem(name: str) -> str:
    if len(name) > 253:
        return "must be no more than 253 characters"
    if not re.fullmatch("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", name):
        return (
            "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
            "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
        )
    return ""


def _node_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    after, before = map_member(new, "spec"), map_member(old, "spec")
    blocks, former = list_member(after, "podCIDRs"), list_member(before, "podCIDRs")
    detail = 'node updates may not change podCIDR except from "" to valid'
    if former and len(blocks) != len(former):
        out.append(field_errors.forbidden("spec.podCIDRs", detail))
    elif former:
        changed = [one for one, other in zip(blocks, former, strict=True) if one != other]
        out.extend([field_errors.forbidden("spec.podCIDRs", detail) for _ in changed])
    if before.get("providerID") and before["providerID"] != after.get("providerID"):
        detail = 'node updates may not change providerID except from "" to valid'
        out.append(field_errors.forbidden("spec.providerID", detail))
    _taints(list_member(after, "taints"), "", out, None)
    if (after.get("externalID") or "") != (before.get("externalID") or ""):
        out.append(field_errors.forbidden("spec.externalID", "may not be updated"))


_NODE_STATUS: Final = Table(("", _resources, _declared_features, _addresses))


def _stored_addresses(node: Any, _at: str, out: list[Cause], old: Any) -> None:
    if old is not None:  # those of a new node are checked only when it is written again, as upstream
        _addresses(map_member(node, "status"), "status", out, None)


NODE: Final = KindRules(
    rules=Table(
        ("spec.taints", _taints),
        ("status", Table(("", _resources, _declared_features))),
        ("", _stored_addresses),
        ("spec.podCIDRs", _pod_cidrs),
        root=True,
    ),
    changes=(("", _node_changes),),
    status=Table(("status", _NODE_STATUS), root=True),
    status_changes=(("", _node_changes),),
)


def _api_service_name(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    spec, metadata = map_member(tree, "spec"), tree["metadata"]
    wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    given = {word: metadata.get(word) or wanted for word in ("name", "generateName")}  # that both are absent is checked
    for word, name in given.items():
        if name != wanted and not path_segment_problems(name):
            detail = f'must be `spec.version+"."+spec.group`: "{wanted}"'
            out.append(field_errors.invalid(f"metadata.{word}", name, detail))


def _api_group(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    spec = map_member(tree, "spec")
    group, version = spec.get("group") or "", spec.get("version") or ""
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        out.append(field_errors.required("spec.group", detail))
    if group and not dns_subdomain.is_valid(group):
        dns_subdomain.report(group, "spec.group", out)
    if not dns1035_label.is_valid(version):
        dns1035_label.report(version, "spec.version", out)


def _at_most(limit: int) -> Any:
    def check(value: int, at: str, out: list[Cause], _context: Any) -> None:
        if not 0 < value <= limit:
            out.append(field_errors.invalid(at, value, f"must be positive and less than {limit}"))

    return check


def _api_service_target(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    spec = map_member(tree, "spec")
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    if service is None:
        if bundle:
            size = len(bundle) * 3 // 4 - bundle.count("=")
            detail = "local APIServices may not have a caBundle"
            out.append(field_errors.invalid("spec.caBundle", f"{size} bytes", detail))
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            out.append(field_errors.invalid("spec.insecureSkipTLSVerify", insecure, detail))
        return
    for name in ("namespace", "name"):
        if not service.get(name):
            out.append(field_errors.required(f"spec.service.{name}"))
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        out.append(field_errors.invalid("spec.service.port", port, detail))
    if insecure and bundle:
        out.append(
            field_errors.invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present")
        )


_CONDITION_STATUS: Final = one_of("True", "False", "Unknown")


def _condition_status(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not _CONDITION_STATUS.is_valid(value or ""):
        _CONDITION_STATUS.report(value or "", at, out)


API_SERVICE: Final = KindRules(
    rules=Table(
        ("", _api_service_name, _api_group),
        ("spec.groupPriorityMinimum", zero, _at_most(20_000)),
        ("spec.versionPriority", zero, _at_most(1_000)),
        ("", _api_service_target),
        root=True,
    ),
    status=Table(("status.conditions[*]", Table(("status", always(_condition_status)))), root=True),
)
