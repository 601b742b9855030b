"""The rules of Pods and PodTemplates: the object, what an update may change, and the status."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.pods import APP_ARMOR_CONTAINER, qos_class
from levelset.apiserver.registry.builtin.rules.checks import is_ip, label_key_problems, subdomain_problems
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import check_tolerations
from levelset.apiserver.registry.builtin.rules.pods.pod_spec import (
    MIRROR,
    check_pod_annotations,
    check_pod_images,
    check_pod_spec,
    check_profiles,
    check_template,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import Changes, Endpoint, KindRules, Table, on_create
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["POD", "POD_TEMPLATE", "check_container_changes"]

MUTABLE_FIELDS: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod(pod: Any, _at: str, out: list[Cause], _context: Any) -> None:
    metadata, spec = pod["metadata"], map_member(pod, "spec")
    if metadata.get("annotations"):
        check_pod_annotations(metadata["annotations"], spec, "metadata.annotations", out)
    check_pod_spec(spec, "spec", out, name=metadata.get("name") or "", is_pod=True)
    if "resourceClaims" in spec and MIRROR in map_member(metadata, "annotations"):
        out[:] = [one for one in out if not one.field.startswith("spec.resourceClaims[")]
        detail = "static pods do not support resource claims"
        out.extend([field_errors.forbidden("[]", detail) for _ in list_member(spec, "resourceClaims")])
    if not spec.get("serviceAccountName"):
        _no_token_volumes(spec, out)
    check_pod_images(spec, "spec", out)


def _no_token_volumes(spec: Any, out: list[Cause]) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        sources = list_member(volume["projected"], "sources") if "projected" in volume else ()
        for number, source in enumerate(sources):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                out.append(field_errors.forbidden(path, "must not be specified when serviceAccountName is not set"))


def _new_pod(pod: Any, _at: str, out: list[Cause], _context: Any) -> None:
    """What a new Pod must not have."""
    spec = map_member(pod, "spec")
    if spec.get("ephemeralContainers"):
        out.append(field_errors.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        out.append(field_errors.forbidden("spec.nodeName", detail))
    check_profiles(pod["metadata"], spec, "spec", out)


def _annotation_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    after, before = map_member(new["metadata"], "annotations"), map_member(old["metadata"], "annotations")
    at = "metadata.annotations"
    for key in sorted(key for key in before if after.get(key) != before[key]):
        if key.startswith(APP_ARMOR_CONTAINER):
            out.append(field_errors.forbidden(f"{at}[{key}]", "may not remove or update AppArmor annotations"))
        if key == MIRROR:
            out.append(field_errors.forbidden(f"{at}[{key}]", "may not remove or update mirror pod annotation"))
    for key in sorted(after.keys() - before.keys()):
        if key.startswith(APP_ARMOR_CONTAINER):
            out.append(field_errors.forbidden(f"{at}[{key}]", "may not add AppArmor annotations"))
        if key == MIRROR:
            out.append(field_errors.forbidden(f"{at}[{key}]", "may not add mirror pod annotation"))
    check_pod_annotations(after, map_member(new, "spec"), at, out)


def check_container_changes(new: Any, old: Any, at: str, out: list[Cause]) -> bool:
    """Checks that containers are neither added nor removed; returns whether the other checks make sense."""
    if len(new) != len(old):
        out.append(field_errors.forbidden(at, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        image = container.get("image") or ""
        if not image:
            out.append(field_errors.required(f"{at}[{index}].image"))
        if image != image.strip():
            detail = "must not have leading or trailing whitespace"
            out.append(field_errors.invalid(f"{at}[{index}].image", image, detail))
    return True


def _spec_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    spec, former = map_member(new, "spec"), map_member(old, "spec")
    for group in ("containers", "initContainers"):
        if not check_container_changes(list_member(spec, group), list_member(former, group), f"spec.{group}", out):
            return
    if not _deadline_change(spec, former, out):
        return
    _added_tolerations(spec, former, out)
    _deleted_gates(spec, former, out)
    if spec == former:
        return
    after, before = _fixed_fields(spec), _fixed_fields(former)
    grace, former_grace = spec.get("terminationGracePeriodSeconds"), former.get("terminationGracePeriodSeconds")
    if grace == 1 and former_grace is not None and former_grace < 0:
        after["terminationGracePeriodSeconds"] = former_grace
    if not former.get("nodeName"):
        after.pop("nodeName", None)  # a scheduler may also set it by an update, not only by a Binding
    if former.get("schedulingGates"):
        _gated_changes(after, before, out)
    if not equal(after, before):
        detail = f"pod updates may not change fields other than {MUTABLE_FIELDS}\n"
        changed = sorted(name for name in after.keys() | before.keys() if not equal(after.get(name), before.get(name)))
        out.append(field_errors.forbidden("spec", detail + "changed: " + ", ".join(f"spec.{name}" for name in changed)))


def _fixed_fields(spec: Any) -> Any:
    """The fields of a spec that cannot change."""
    free = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
    fields = {name: value for name, value in spec.items() if name not in free}
    for group in ("containers", "initContainers"):
        if fields.get(group):
            fields[group] = [{name: value for name, value in one.items() if name != "image"} for one in fields[group]]
    return fields


def _deadline_change(spec: Any, former: Any, out: list[Cause]) -> bool:
    after, before, at = (
        spec.get("activeDeadlineSeconds"),
        former.get("activeDeadlineSeconds"),
        "spec.activeDeadlineSeconds",
    )
    if after is None:
        if before is not None:
            detail = "must not update from a positive integer to nil value"
            out.append(field_errors.invalid(at, None, detail))
        return True
    if not 0 <= after < 2**31:
        out.append(field_errors.invalid(at, after, "must be between 0 and 2147483647, inclusive"))
        return False
    if before is not None and before < after:
        out.append(field_errors.invalid(at, after, "must be less than or equal to previous value"))
        return False
    return True


def _added_tolerations(spec: Any, former: Any, out: list[Cause]) -> None:
    def stripped(toleration: Any) -> Any:
        return frozenset([(name, value) for name, value in toleration.items() if name != "tolerationSeconds" and value])

    after = list_member(spec, "tolerations")
    given = {stripped(one) for one in after}
    if any(stripped(one) not in given for one in list_member(former, "tolerations")):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        out.append(field_errors.forbidden("spec.tolerations", detail))
        return
    check_tolerations(after, "spec.tolerations", out, None)


def _deleted_gates(spec: Any, former: Any, out: list[Cause]) -> None:
    known = {one.get("name") for one in list_member(former, "schedulingGates")}
    for index, gate in enumerate(list_member(spec, "schedulingGates")):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'"
            out.append(field_errors.forbidden(f"spec.schedulingGates[{index}].name", detail))


def _gated_changes(after: Any, before: Any, out: list[Cause]) -> None:
    """A Pod that is not to be scheduled yet may get more selectors of nodes."""
    selector, former = map_member(after, "nodeSelector"), map_member(before, "nodeSelector")
    if selector != former:
        if any(selector.get(key) != value for key, value in former.items()):
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            out.append(field_errors.invalid("spec.nodeSelector", after.get("nodeSelector"), detail))
        after["nodeSelector"] = former
    affinity, former_affinity = map_member(after, "affinity"), map_member(before, "affinity")
    if affinity.get("nodeAffinity") != former_affinity.get("nodeAffinity"):
        _node_affinity_change(affinity.get("nodeAffinity"), former_affinity.get("nodeAffinity"), out)
        restored = {**affinity, "nodeAffinity": former_affinity.get("nodeAffinity")}
        others = {name: value for name, value in restored.items() if value is not None}
        after["affinity"] = others or before.get("affinity")


def _node_affinity_change(new: Any, old: Any, out: list[Cause]) -> None:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    former = list_member(map_member(old, name), "nodeSelectorTerms")
    terms = list_member(map_member(new, name), "nodeSelectorTerms")
    at = f"spec.affinity.nodeAffinity.{name}.nodeSelectorTerms"
    if former and len(former) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        out.append(field_errors.invalid(at, map_member(new, name).get("nodeSelectorTerms"), detail))
        return
    for index, (term, before) in enumerate(zip(terms, former, strict=False)):
        if not _only_adds(term, before):
            detail = "only additions are allowed (no mutations or deletions)"
            out.append(field_errors.invalid(f"{at}[{index}]", term, detail))


def _only_adds(new: Any, old: Any) -> bool:
    pairs = [(list_member(new, one), list_member(old, one)) for one in ("matchExpressions", "matchFields")]
    if not any(before for _after, before in pairs):
        return not any(after for after, _before in pairs)
    return all(after[: len(before)] == before for after, before in pairs)


def _status(pod: Any, _at: str, out: list[Cause], _context: Any) -> None:
    status = map_member(pod, "status")
    for index, condition in enumerate(list_member(status, "conditions")):
        where, name = f"status.conditions[{index}]", condition.get("type") or ""
        if (condition.get("observedGeneration") or 0) < 0:
            value = condition["observedGeneration"]
            out.append(field_errors.invalid(f"{where}.observedGeneration", value, "must be a non-negative integer"))
        if name not in ("PodScheduled", "Ready", "Initialized"):
            out.extend([field_errors.invalid(f"{where}.Type", name, one) for one in label_key_problems(name)])
    claims = {one.get("name") for one in list_member(map_member(pod, "spec"), "resourceClaims")}
    for index, one in enumerate(list_member(status, "resourceClaimStatuses")):
        if one.get("name") not in claims:
            where, detail = f"status.resourceClaimStatuses[{index}].name", "must match the name of an entry in"
            out.append(field_errors.invalid(where, one.get("name") or "", f"{detail} `spec.resourceClaims`"))
    if (status.get("observedGeneration") or 0) < 0:
        value = status["observedGeneration"]
        out.append(field_errors.invalid("status.observedGeneration", value, "must be a non-negative integer"))


def _nominated_node(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    name, former = (
        map_member(new, "status").get("nominatedNodeName"),
        map_member(old, "status").get("nominatedNodeName"),
    )
    if not name or name == former:
        return
    at = "status.nominatedNodeName"
    out.extend([field_errors.invalid(at, name, one) for one in subdomain_problems(name)])
    if map_member(old, "spec").get("nodeName"):
        out.append(field_errors.forbidden(at, "may not be set on pods that are already bound to a node"))


def _qos_class(new: Any, _old: Any, at: str, out: list[Cause]) -> None:
    out.append(field_errors.invalid(at, new or "", "field is immutable"))


def _restarted(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    """A terminated container that does not restart stays terminated."""
    spec = map_member(old, "spec")
    for group, members in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        containers = {one.get("name"): one for one in list_member(spec, members)}
        after = {one.get("name"): one for one in list_member(map_member(new, "status"), group)}
        for index, status in enumerate(list_member(map_member(old, "status"), group)):
            ended = map_member(status, "state").get("terminated")
            later = after.get(status.get("name"))
            if ended is None or later is None or map_member(later, "state").get("terminated") is not None:
                continue
            policy = map_member(containers, status.get("name")).get("restartPolicy") or spec.get("restartPolicy")
            if policy == "Always" or (policy == "OnFailure" and ended.get("exitCode")):
                continue
            detail = "may not be transitioned to non-terminated state"
            out.append(field_errors.forbidden(f"status.{group}[{index}].state", detail))


def _addresses(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    status = map_member(new, "status")
    for name in ("podIPs", "hostIPs"):
        addresses = [one.get("ip") or "" for one in list_member(status, name)]
        if name == "hostIPs" and addresses and status.get("hostIP") != addresses[0]:
            out.append(field_errors.invalid("status.hostIPs[0].ip", addresses[0], "must be equal to `hostIP`"))
        known = [one.get("ip") for one in list_member(map_member(old, "status"), name)]
        for index, address in enumerate(addresses):
            if address not in known and not is_ip(address):
                detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                out.append(field_errors.invalid(f"status.{name}[{index}]", address, detail))
        families = [":" in one for one in addresses]
        if len(addresses) > 2 or (len(addresses) == 2 and families[0] == families[1]):
            detail = "may specify no more than one IP for each IP family"
            out.append(field_errors.invalid(f"status.{name}", status[name], detail))


_POD_CHANGES: Final[Changes] = (("", _annotation_changes), ("", _spec_changes))
_POD: Final = Table(("", _pod), ("", on_create(_new_pod)), root=True)


def _ephemeral_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    """Ephemeral containers may only be added."""
    at = "spec.ephemeralContainers"
    after = {one.get("name"): one for one in list_member(map_member(new, "spec"), "ephemeralContainers")}
    for one in list_member(map_member(old, "spec"), "ephemeralContainers"):
        name = one.get("name")
        if name not in after:
            detail = f'existing ephemeral containers "{name}" may not be removed\n'
            out.append(field_errors.forbidden(at, detail))
        elif not equal(after[name], one):
            detail = f'existing ephemeral containers "{name}" may not be changed\n'
            out.append(field_errors.forbidden(at, detail))


def _no_mirror(detail: str) -> Any:
    def check(_new: Any, old: Any, _at: str, out: list[Cause]) -> None:
        if MIRROR in map_member(old["metadata"], "annotations"):
            out[:] = [field_errors.forbidden("[]", detail)]

    return check


def _no_windows(_new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    if map_member(map_member(old, "spec"), "os").get("name") == "windows":
        out[:] = [field_errors.forbidden("[]", "windows pods cannot be resized")]


def _resize_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    """A resize changes cpu and memory of containers, and neither removes amounts nor changes the QoS class."""
    spec, former = map_member(new, "spec"), map_member(old, "spec")
    known = map_member(old, "status").get("qosClass") or qos_class(former)
    if qos_class(spec) != known:
        sent = map_member(new, "status").get("qosClass") or ""  # that of the old Pod, unless the containers are others
        out.append(field_errors.invalid("spec", sent, "Pod QOS Class may not change as a result of resizing"))
    before = len(out)
    for group in ("containers", "initContainers"):
        _same_containers(list_member(spec, group), list_member(former, group), group, out)
    if len(out) > before:
        return
    for group in ("initContainers", "containers"):
        for index, (one, other) in enumerate(zip(list_member(spec, group), list_member(former, group), strict=True)):
            _removed_resources(one, other, f"spec.{group}[{index}].resources", out)
    for one, other in zip(list_member(spec, "containers"), list_member(former, "containers"), strict=True):
        if not equal(_fixed_resources(one, has_claims=False), _fixed_resources(other)):
            out.append(field_errors.forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (one, other) in enumerate(
        zip(list_member(spec, "initContainers"), list_member(former, "initContainers"), strict=True)
    ):
        _init_container_resize(one, other, f"spec.initContainers[{index}]", out)


def _same_containers(containers: list[Any], former: list[Any], group: str, out: list[Cause]) -> None:
    if len(containers) != len(former):
        detail = f"{group} may not be added or removed on resize"
        out.append(field_errors.forbidden(f"spec.{group}", detail))
        return
    for index, (one, other) in enumerate(zip(containers, former, strict=True)):
        if one.get("name") != other.get("name"):
            detail = f"{group} may not be renamed or reordered on resize"
            out.append(field_errors.forbidden(f"spec.{group}[{index}].name", detail))


def _removed_resources(container: Any, former: Any, at: str, out: list[Cause]) -> None:
    for name in ("requests", "limits"):
        after, before = (map_member(map_member(one, "resources"), name) for one in (container, former))
        if len(before) > len(after) or before.keys() - after.keys():
            out.append(field_errors.forbidden(f"{at}.{name}", f"resource {name} cannot be removed"))


def _init_container_resize(container: Any, former: Any, at: str, out: list[Cause]) -> None:
    if not equal(_fixed_resources(container, has_claims=False), _fixed_resources(former)):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        out.append(field_errors.forbidden(at, detail))


def _fixed_resources(container: Any, *, has_claims: bool = True) -> Any:
    """A container without its cpu and memory, which may change; as upstream, new claims are not compared."""
    resources = map_member(container, "resources") if has_claims else {}
    amounts = map_member(container, "resources")
    fixed = {
        name: {key: value for key, value in map_member(amounts, name).items() if key not in ("cpu", "memory")}
        for name in ("requests", "limits")
    }
    return {**container, "resources": {**resources, **fixed}}


POD: Final = KindRules(
    rules=_POD,
    changes=_POD_CHANGES,
    status=Table(("", _status), root=True),
    status_changes=(
        ("", _annotation_changes),
        ("", _nominated_node),
        ("status.qosClass", _qos_class),
        ("", _restarted),
        ("", _addresses),
    ),
    endpoints={
        "ephemeralcontainers": Endpoint(
            _POD, (("", _ephemeral_changes), ("", _no_mirror("static pods do not support ephemeral containers")))
        ),
        "resize": Endpoint(
            _POD, (("", _resize_changes), ("", _no_windows), ("", _no_mirror("static pods cannot be resized")))
        ),
    },
)


def _pod_template(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    check_template(map_member(tree, "template"), "template", out)


POD_TEMPLATE: Final = KindRules(rules=Table(("", _pod_template), root=True))
