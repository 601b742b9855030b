"""What kube-apiserver warns of in objects of built-in kinds that it accepts: deprecated, ignored and ambiguous fields.

A function gets the new object, and the old one of an update. The texts are those of kube-apiserver, as users know them.
"""

import ipaddress
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, Final

from levelset.apiserver.registry.builtin.pods import warn_of_container_profiles, warn_of_pod_profile
from levelset.apiserver.registry.builtin.rules.checks import quantity
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import check_dns1123_label, check_label_value, is_dns1123_label

__all__ = ["object_warnings"]

Warner = Callable[[Object, Object | None], Iterable[str]]
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_VOLUME_NAMES: Final = frozenset(_VOLUMES)
_MEMORY: Final = ("memory", "ephemeral-storage")
_WHOLE: Final = Pattern(r"[0-9]+(?:[kMGTPE]|[KMGTPE]i)?").fullmatch
_LEADING_ZEROS: Final = Pattern(r"\b0+(?=[0-9])")
_DEPRECATED_NOTES: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"
_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def object_warnings(group: str, kind: str) -> Warner | None:
    """What the objects of a kind are warned of; None if there is nothing."""
    return _WARNERS.get((group, kind))


def _service(new: Object, _old: Object | None) -> Iterator[str]:
    spec = map_member(new, "spec")
    kind, external = spec.get("type"), list_member(spec, "externalIPs")
    is_headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if not is_headless and spec.get("clusterIP"):
        yield from _addresses(spec, "clusterIPs")
    if is_headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    yield from _addresses(spec, "externalIPs")
    if external and not is_headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if external and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _addresses(spec: Object, name: str) -> Iterator[str]:
    for index, text in enumerate(list_member(spec, name)):
        if text != "None":
            yield from _address(text, f"spec.{name}[{index}]")


def _address(text: str, at: str) -> Iterator[str]:
    """An IPv6 address that is not in its canonical form, or one that not all programs read alike."""
    plain = text if ":" in text else _LEADING_ZEROS.sub("", text)
    try:
        found = ipaddress.ip_address(plain)
    except ValueError:
        return
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    if mapped is not None or plain != text:
        yield f'{at}: non-standard IP address "{text}" is invalid: use "{mapped or found}"'
    elif ":" in text and str(found) != text:
        yield f'{at}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{found}")'


def _node(new: Object, _old: Object | None) -> Iterator[str]:
    spec = map_member(new, "spec")
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _volume(new: Object, _old: Object | None) -> Iterator[str]:
    spec = map_member(new, "spec")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "The Recycle reclaim policy is deprecated."
        advice = "Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: {text} {advice}"
    for name in ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"):
        if name in spec:
            yield f"spec.{'storageOS' if name == 'storageos' else name}: {_VOLUMES[name]}"


def _claim(new: Object, _old: Object | None) -> Iterator[str]:
    yield from _claim_spec(map_member(new, "spec"), "spec")


def _claim_spec(spec: Object, at: str) -> Iterator[str]:
    yield from _resources(map_member(spec, "resources"), ("requests", "limits"), ("storage",), at)


def _resources(resources: Object, parts: tuple[str, ...], names: tuple[str, ...], at: str) -> Iterator[str]:
    for name in names:
        for part in parts:
            amounts = resources.get(part)
            if amounts and name in amounts:
                yield from _fraction(amounts, name, f"{at}.resources.{part}")


def _is_whole(amount: Any) -> bool:
    """Whether an amount is written as a whole number; one that is written otherwise may still be one."""
    # A cache of long texts, of refused requests even, would fill the memory.
    if amount.__class__ is str and len(amount) <= _MAX_CACHED:
        return _is_whole_text(amount)
    return amount.__class__ is int or _WHOLE(str(amount)) is not None


_MAX_CACHED: Final = 40  # characters


@lru_cache(maxsize=2048)
def _is_whole_text(amount: str) -> bool:
    return _WHOLE(amount) is not None


def _fraction(amounts: Object, name: str, at: str) -> Iterator[str]:
    """An amount of bytes that is not a whole number."""
    if name in amounts and not _is_whole(amounts[name]):
        shown = quantity(amounts[name])
        milli = -(-shown.nanos // 1_000_000)
        if milli % 1000:
            yield f'{at}[{name}]: fractional byte value "{shown}" is invalid, must be an integer'


def _ingress(new: Object, old: Object | None) -> Iterator[str]:
    name = "kubernetes.io/ingress.class"
    is_annotated = old is None and name in map_member(new["metadata"], "annotations")
    if is_annotated and map_member(new, "spec").get("ingressClassName") is None:
        yield f"annotation \"{name}\" is deprecated, please use 'spec.ingressClassName' instead"


def _slice(new: Object, old: Object | None) -> Iterator[str]:
    if new.get("addressType") == "FQDN" and old is None:
        yield "spec.addressType: FQDN endpoints are deprecated"


def _named_for_pods(new: Object, old: Object | None, names: str = "Pod names and hostnames") -> Iterator[str]:
    name = new["metadata"].get("name", "")
    if old is None and not is_dns1123_label(name):
        problems = check_dns1123_label(name)
        text = f"this is used in {names}, which can result in surprising behavior"
        yield f"metadata.name: {text}; a DNS label is recommended: [{' '.join(problems)}]"


def _replicas(new: Object, old: Object | None) -> Iterator[str]:
    yield from _named_for_pods(new, old)
    yield from _template("spec.template", new, old)


def _replication_controller(new: Object, old: Object | None) -> Iterator[str]:
    if old is None:  # as upstream, which warns of the templates of all other kinds when they change, too
        yield from _replicas(new, old)


def _cron_job(new: Object, old: Object | None) -> Iterator[str]:
    yield from _named_for_pods(new, old)
    yield from _template("spec.jobTemplate.spec.template", new, old)


def _stateful_set(new: Object, old: Object | None) -> Iterator[str]:
    yield from _template("spec.template", new, old)
    spec = map_member(new, "spec")
    for index, one in enumerate(list_member(spec, "volumeClaimTemplates")):
        where = f"spec.volumeClaimTemplates[{index}]{'' if old is None else '.Spec'}"  # as upstream spells it
        yield from _claim_spec(map_member(one, "spec"), where)
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _template(path: str, new: Object, old: Object | None) -> Iterable[str]:
    """A template of pods; an update that does not change the spec is not warned again."""
    if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
        return ()
    template: Any = new
    for name in path.split("."):
        template = map_member(template, name)
    notes = map_member(map_member(template, "metadata"), "annotations")
    return _pod_spec(map_member(template, "spec"), f"{path}.spec", notes)


def _pod(new: Object, old: Object | None) -> Iterable[str]:
    if old is not None:
        return ()
    found = _pod_spec(map_member(new, "spec"), "spec", map_member(new["metadata"], "annotations"))
    return [*_named_for_pods(new, old, "the Pod's hostname"), *found]


def _pod_spec(spec: Object, at: str, notes: Object) -> list[str]:
    # Lists instead of generators, which cost most here: each new Pod comes through, and few are warned of anything.
    found: list[str] = []
    if not _WARNED_OF_NODES.isdisjoint(spec):
        _warn_of_members(_NODE_WARNERS, spec, at, found)
    where = f"{at.removesuffix('spec')}metadata.annotations" if notes else ""
    if notes:
        found += [f"{where}[{name}]: {text}" for name, text in _DEPRECATED_NOTES.items() if name in notes]
    if not _RARELY_WARNED.isdisjoint(spec):
        _warn_of_members(_SPEC_WARNERS, spec, at, found)
    if notes:
        found += warn_of_pod_profile(spec, notes, where)
    _warn_of_containers(spec, at, found, notes)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{at}.terminationGracePeriodSeconds: {text}")
    if "affinity" in spec:
        found += _affinity(spec, at)
    if "dnsConfig" in spec or "hostAliases" in spec:
        found += _pod_addresses(spec, at)
    return found


def _warn_of_members(warners: "_SpecWarners", spec: Object, at: str, found: list[str]) -> None:
    for name, warner in warners:
        if name in spec:
            found += warner(spec, at)


def _pod_addresses(spec: Object, at: str) -> Iterator[str]:
    for index, server in enumerate(list_member(map_member(spec, "dnsConfig"), "nameservers")):
        yield from _address(server, f"{at}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(list_member(spec, "hostAliases")):
        yield from _address(alias.get("ip") or "", f"{at}.hostAliases[{index}].ip")


def _node_selector(spec: Object, at: str) -> Iterator[str]:
    for name in map_member(spec, "nodeSelector"):
        if name in _NODE_LABELS:
            yield f"{at}.nodeSelector[{name}]: {_NODE_LABELS[name]}"


def _node_affinity(spec: Object, at: str) -> Iterator[str]:
    affinity = map_member(map_member(spec, "affinity"), "nodeAffinity")
    required, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    where = f"{at}.affinity.nodeAffinity"
    for index, one in enumerate(list_member(map_member(affinity, required), "nodeSelectorTerms")):
        yield from _node_term(one, f"{where}.{required}.nodeSelectorTerms[{index}]")
    for index, one in enumerate(list_member(affinity, preferred)):
        term, place = map_member(one, "preference"), f"{where}.{preferred}[{index}].preference"
        yield from _node_term(term, place, with_values=True)


def _node_term(term: Object, at: str, *, with_values: bool = False) -> Iterator[str]:
    for index, one in enumerate(list_member(term, "matchExpressions")):
        where = f"{at}.matchExpressions[{index}]"
        if one.get("key") in _NODE_LABELS:
            yield f"{where}.key: {one['key']} is {_NODE_LABELS[one['key']]}"
        for number, value in enumerate(list_member(one, "values") if with_values else ()):
            yield from (f"{where}.values[{number}]: {value} is invalid, {why}" for why in check_label_value(value))


def _spread(spec: Object, at: str) -> Iterator[str]:
    for index, one in enumerate(list_member(spec, "topologySpreadConstraints")):
        where = f"{at}.topologySpreadConstraints[{index}]"
        if one.get("topologyKey") in _NODE_LABELS:
            yield f"{where}.topologyKey: {one['topologyKey']} is {_NODE_LABELS[one['topologyKey']]}"
        if one.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NULL_SELECTOR}"


def _aliases(spec: Object, at: str) -> Iterator[str]:
    yield from _twice(spec, "hostAliases", "ip", at)


def _pull_secrets(spec: Object, at: str) -> Iterator[str]:
    yield from _twice(spec, "imagePullSecrets", "name", at)
    for index, one in enumerate(list_member(spec, "imagePullSecrets")):
        if not one.get("name"):
            yield f'{at}.imagePullSecrets[{index}].name: invalid empty name ""'


def _overhead(spec: Object, at: str) -> Iterator[str]:
    for name in _MEMORY:
        yield from _fraction(map_member(spec, "overhead"), name, f"{at}.overhead")


def _volumes(spec: Object, at: str) -> Iterator[str]:
    for index, volume in enumerate(list_member(spec, "volumes")):
        if not _VOLUME_NAMES.isdisjoint(volume):
            for name, text in _VOLUMES.items():
                if volume.get(name) is not None:
                    yield f"{at}.volumes[{index}].{'storageOS' if name == 'storageos' else name}: {text}"
        if "ephemeral" in volume:
            template = map_member(map_member(volume, "ephemeral"), "volumeClaimTemplate")
            where = f"{at}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from _claim_spec(map_member(template, "spec"), where)


def _virtual_paths(spec: Object, _at: str) -> list[str]:
    """Paths of files in a volume that are the same, or of which one is in the other."""
    found: list[str] = []
    for volume in list_member(spec, "volumes"):
        if not _WITH_FILES.isdisjoint(volume):
            found += _virtual_paths_of(volume)
    return found


def _virtual_paths_of(volume: Object) -> Iterator[str]:
    for member, shown in _FILE_SOURCES:
        if volume.get(member):
            yield from _overlaps(_paths_of(volume[member], ""), volume, _described(volume[member], shown))
    if "projected" in volume:
        yield from _projected(volume)


_FILE_SOURCES: Final = (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI"))
_WITH_FILES: Final = frozenset({"projected", *(name for name, _ in _FILE_SOURCES)})
_Paths = list[tuple[str, str]]  # with what they are of, where it has to be said


def _described(source: Object, shown: str) -> str:
    return shown if shown == "DownwardAPI" else f'{shown} "{source.get("name") or source.get("secretName") or ""}"'


def _paths_of(source: Object, origin: str) -> _Paths:
    return [((one.get("path") or "").rstrip("/"), origin) for one in list_member(source, "items")]


def _projected(volume: Object) -> Iterator[str]:
    paths: _Paths = []
    for source in list_member(volume["projected"], "sources"):
        if not any(one is not None for one in source.values()):
            yield f'volume "{volume.get("name")}" (Projected) has no sources provided'
        for member, shown in _FILE_SOURCES:
            paths += _paths_of(source.get(member) or {}, _described(source.get(member) or {}, shown))
        token = source.get("serviceAccountToken")
        if token is not None:
            paths.append(((token.get("path") or "").rstrip("/"), "ServiceAccountToken"))
        for name, shown in (("certificateChainPath", "chain"), ("keyPath", "key"), ("credentialBundlePath", "bundle")):
            path = map_member(source, "podCertificate").get(name)
            if path:
                words = "credential bundle" if shown == "bundle" else shown
                paths.append((path.rstrip("/"), f"PodCertificate {words}"))
    yield from _overlaps(paths, volume, "Projected")


def _overlaps(paths: _Paths, volume: Object, what: str) -> Iterator[str]:
    if len({path for path, _ in paths}) == len(paths) and not any("/" in path for path, _ in paths):
        return
    for index, (path, origin) in enumerate(paths):
        for other, its in paths[:index]:
            if path and other and (f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")):
                pair = f"{_shown_path(path, origin)} with {_shown_path(other, its)}"
                yield f'volume "{volume.get("name")}" ({what}): overlapping paths: {pair}'


def _shown_path(path: str, origin: str) -> str:
    return f'"{path}" ({origin})' if origin else f'"{path}"'


def _twice(spec: Object, name: str, key: str, at: str) -> Iterator[str]:
    seen: set[Any] = set()
    for index, one in enumerate(list_member(spec, name)):
        value = one.get(key, "")
        if value in seen:
            yield f'{at}.{name}[{index}].{key}: duplicate {key} "{value}"'
        seen.add(value)


def _warn_of_containers(spec: Object, at: str, found: list[str], notes: Object) -> None:
    count = 0
    for part in _CONTAINER_GROUPS:
        if part in spec:
            for index, container in enumerate(list_member(spec, part)):
                if notes:
                    where, is_template = f"{at.removesuffix('spec')}metadata.annotations", at != "spec"
                    found += warn_of_container_profiles(container, spec, notes, where, is_template=is_template)
                if container.get("resources") and not _has_whole_amounts(container["resources"]):
                    where = f"{at}.{part}[{index}]"
                    found += _resources(container["resources"], ("limits", "requests"), _MEMORY, where)
                variables = container.get("env") or ()
                if len(variables) > 1 and len({one.get("name") for one in variables}) < len(variables):
                    found += _environment(container, f"{at}.{part}[{index}]")
                ports = container.get("ports")
                if ports:
                    count += len(ports) + any("hostIP" in one for one in ports)
    if count > 1:
        found += _ports(_all_ports(spec, at))


_CONTAINER_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")


def _has_whole_amounts(resources: Object) -> bool:
    """Whether all amounts of memory are written as whole numbers, as they mostly are."""
    for part in ("limits", "requests"):
        amounts = resources.get(part)
        if amounts:
            for name in _MEMORY:
                if name in amounts and not _is_whole(amounts[name]):
                    return False
    return True


def _all_ports(spec: Object, at: str) -> list[tuple[str, Object]]:
    return [
        (f"{at}.{part}[{index}].ports[{number}]", port)
        for part in _CONTAINER_GROUPS
        for index, container in enumerate(list_member(spec, part))
        for number, port in enumerate(list_member(container, "ports"))
    ]


def _environment(container: Object, at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(list_member(container, "env")):
        name, value = one.get("name", ""), one.get("value") or ""
        reference = f"$({name})"
        if name in seen and (one.get("valueFrom") is not None or value == reference or reference not in value):
            yield f'{at}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(ports: list[tuple[str, Object]]) -> Iterator[str]:
    seen: dict[tuple[Any, Any], list[tuple[str, Object]]] = {}
    names: dict[str, str] = {}
    repeated: list[str] = []
    for where, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{where}: hostIP set without hostPort: {_in_go(port)}"
        others = seen.setdefault((port.get("containerPort"), port.get("protocol", "TCP")), [])
        for other, former in others:
            word = _overlap(port, former)
            if word:
                yield f"{where}: {word} port definition with {other}"
        others.append((where, port))
        name = port.get("name")
        if name and name in names:
            first = names[name]
            text = f"with {first}, services and probes that select ports by name will use {first}"
            repeated.append(f'{where}: duplicate port name "{name}" {text}')
        elif name:
            names[name] = where
    yield from repeated


def _in_go(port: Object) -> str:
    """The port as Go prints it."""
    numbers = f"HostPort:{port.get('hostPort') or 0} ContainerPort:{port.get('containerPort') or 0}"
    return f"{{Name:{port.get('name') or ''} {numbers} Protocol:{port.get('protocol', 'TCP')} HostIP:{port['hostIP']}}}"


def _overlap(port: Object, former: Object) -> str:
    (address, number), (other, its) = (((one.get("hostIP") or ""), one.get("hostPort") or 0) for one in (port, former))
    if (address, number) == (other, its):
        return "duplicate"
    if not number or not its:
        return "overlapping"
    return "dangerously ambiguous" if number == its and bool(address) != bool(other) else ""


def _affinity(spec: Object, at: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = map_member(map_member(spec, "affinity"), kind)
        where = f"{at}.affinity.{kind}"
        for index, one in enumerate(list_member(terms, "requiredDuringSchedulingIgnoredDuringExecution")):
            if one.get("labelSelector") is None:
                name = f"requiredDuringSchedulingIgnoredDuringExecution[{index}]"
                yield f"{where}.{name}.labelSelector: {_NULL_SELECTOR}"
        for index, one in enumerate(list_member(terms, "preferredDuringSchedulingIgnoredDuringExecution")):
            if map_member(one, "podAffinityTerm").get("labelSelector") is None:
                name = f"preferredDuringSchedulingIgnoredDuringExecution[{index}]"
                yield f"{where}.{name}.podAffinityTerm.labelSelector: {_NULL_SELECTOR}"


def _secret(secret: Object, _old: Object | None) -> Iterator[str]:
    if secret.get("type") == "kubernetes.io/tls" and find_spec("cryptography") is not None:
        # Loads the library of certificates, which is an extra, and which most servers do not need here.
        from levelset.apiserver.registry.builtin.tls_pairs import pair_problem  # noqa: PLC0415

        data = map_member(secret, "data")
        problem = pair_problem(*(b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key")))
        if problem:
            yield problem


def _driver(driver: Object, old: Object | None) -> Iterator[str]:
    spec = map_member(driver, "spec")
    requests = list_member(spec, "tokenRequests")
    is_new = old is None or requests != list_member(map_member(old, "spec"), "tokenRequests")
    if requests and is_new and spec.get("serviceAccountTokenInSecrets") is None:
        advice = "set to true to prevent possible logging of tokens in volume attributes"
        yield f"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, {advice}"


# By the first member that a warning is about, in the order of kube-apiserver; only those in the spec are called.
_SpecWarners = tuple[tuple[str, Callable[[Object, str], Iterable[str]]], ...]
_NODE_WARNERS: Final[_SpecWarners] = (
    ("nodeSelector", _node_selector),
    ("affinity", _node_affinity),
    ("topologySpreadConstraints", _spread),
)
_SPEC_WARNERS: Final[_SpecWarners] = (
    ("volumes", _volumes),
    ("volumes", _virtual_paths),
    ("hostAliases", _aliases),
    ("imagePullSecrets", _pull_secrets),
    ("overhead", _overhead),
)
_WARNED_OF_NODES: Final = frozenset(name for name, _ in _NODE_WARNERS)
_RARELY_WARNED: Final = frozenset(name for name, _ in _SPEC_WARNERS)
_WARNERS: Final[dict[tuple[str, str], Warner]] = {
    ("", "Service"): _service,
    ("", "Node"): _node,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("", "PodTemplate"): partial(_template, "template"),
    ("", "Secret"): _secret,
    ("", "ReplicationController"): _replication_controller,
    ("apps", "DaemonSet"): partial(_template, "spec.template"),
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "CronJob"): _cron_job,
    ("batch", "Job"): _replicas,
    ("discovery.k8s.io", "EndpointSlice"): _slice,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("storage.k8s.io", "CSIDriver"): _driver,
}
