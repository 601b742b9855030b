"""The rules of a pod spec, and of the templates that have one."""

import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.pods import (
    APP_ARMOR_CONTAINER,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    KnownOutlines,
    pod_outline,
)
from levelset.apiserver.registry.builtin.rules.checks import (
    annotations,
    between,
    dns_label,
    dns_subdomain,
    ip_address,
    label_key_problems,
    labels,
    one_of,
    subdomain_problems,
    user_id,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_containers import (
    APP_ARMOR,
    SECCOMP,
    WINDOWS_OPTIONS,
    check_containers,
    check_ephemeral_containers,
    check_image,
    check_init_containers,
    check_pod_resources,
    check_resource_list,
    has_valid_resources,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import (
    AFFINITY,
    check_scheduling_gates,
    check_spread_constraints,
    check_tolerations,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import check_volumes
from levelset.apiserver.registry.builtin.rules.rule_tables import Present, Table, Whole, given, if_set, required
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = [
    "PodContext",
    "all_containers",
    "check_pod_annotations",
    "check_pod_images",
    "check_pod_spec",
    "check_profiles",
    "check_template",
]


_CONTAINER_GROUPS: Final = ("containers", "initContainers")
_NO_CLAIMS: Final[set[Any]] = set()


class PodContext:
    """What the rules of containers and volumes need to know of their pod."""

    __slots__ = ("claims", "grace", "has_files", "host_users", "is_pod", "name", "os", "restart_policy", "volumes")

    def __init__(self, spec: Any, *, name: str, is_pod: bool) -> None:
        self.name = name
        self.is_pod = is_pod
        self.grace: int = spec.get("terminationGracePeriodSeconds") or 0
        self.host_users = spec.get("hostUsers") is not False
        self.os: str = spec["os"].get("name") or "" if spec.get("os") else ""
        self.restart_policy: str = spec.get("restartPolicy") or ""
        claims = spec.get("resourceClaims")
        self.claims = {one["name"] for one in claims if one.get("name")} if claims else _NO_CLAIMS
        self.volumes: dict[str, Any] = {}
        # Set by a variable that is read from a file.
        self.has_files = False


_VALID: Final = KnownOutlines(), KnownOutlines()
"""The outlines of valid specs, of templates and of Pods."""


def check_pod_spec(spec: Any, at: str, out: list[Cause], *, name: str = "", is_pod: bool = False) -> None:
    """Checks the spec of a Pod, or of a template, which has no name."""
    known, outline = _VALID[is_pod], pod_outline(spec)
    if outline in known and all(has_valid_resources(spec[group]) for group in _CONTAINER_GROUPS if group in spec):
        return
    before = len(out)
    _check_pod_spec(spec, at, out, name=name, is_pod=is_pod)
    # The name of the Pod matters for ephemeral volumes.
    if len(out) == before and b'"ephemeral":' not in outline:
        known.add(outline)


def _check_pod_spec(spec: Any, at: str, out: list[Cause], *, name: str, is_pod: bool) -> None:
    pod = PodContext(spec, name=name, is_pod=is_pod)
    volumes = spec.get("volumes")
    if volumes:
        pod.volumes = check_volumes(volumes, f"{at}.volumes", out, pod)
    if "resourceClaims" in spec:
        _resource_claims(spec["resourceClaims"], f"{at}.resourceClaims", out)
    containers = list_member(spec, "containers")
    check_containers(containers, f"{at}.containers", out, pod)
    if "initContainers" in spec:
        check_init_containers(spec["initContainers"], containers, f"{at}.initContainers", out, pod)
    if "ephemeralContainers" in spec:
        others = containers + list_member(spec, "initContainers")
        check_ephemeral_containers(spec["ephemeralContainers"], others, f"{at}.ephemeralContainers", out, pod)
    POD_SPEC(spec, at, out, pod)


def all_containers(spec: Any, at: str) -> list[tuple[Any, str]]:
    """All containers of a pod with their paths: init containers, containers, ephemeral containers."""
    found: list[tuple[Any, str]] = []
    for group in ("initContainers", "containers", "ephemeralContainers"):
        found += [(one, f"{at}.{group}[{index}]") for index, one in enumerate(spec.get(group) or ())]
    return found


def _resource_claims(value: Any, at: str, out: list[Cause]) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(value):
        where, name = f"{at}[{index}]", claim.get("name") or ""
        if not name:
            out.append(field_errors.required(f"{where}.name"))
        elif name in seen:
            out.append(field_errors.duplicate(f"{where}.name", name))
        elif not dns_label.is_valid(name):
            dns_label.report(name, f"{where}.name", out)
        seen.add(name)
        given = [one for one in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(one) is not None]
        if len(given) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            out.append(field_errors.invalid(where, claim, detail))
        elif not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            out.append(field_errors.invalid(where, claim, detail))
        for one in given:
            path = f"{where}.{one}"
            out.extend([field_errors.invalid(path, claim[one], text) for text in subdomain_problems(claim[one])])


def _host_network_ports(spec: Any, at: str, out: list[Cause], pod: Any) -> None:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(list_member(spec, "containers")):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (pod.is_pod or host) and host != port.get("containerPort"):
                path = f"{at}.containers[{index}].ports[{number}].hostPort"
                out.append(field_errors.invalid(path, host, "must match `containerPort` when `hostNetwork` is true"))


def _process_namespace(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        out.append(field_errors.invalid(f"{at}.securityContext.shareProcessNamespace", True, detail))


def _sysctls(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not spec.get("securityContext"):
        return
    seen: set[str] = set()
    for index, one in enumerate(list_member(map_member(spec, "securityContext"), "sysctls")):
        where, name = f"{at}.securityContext.sysctls[{index}].name", one.get("name") or ""
        if not name:
            out.append(field_errors.required(where))
        elif len(name) > 253 or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most 253 characters and match regex ^{_SYSCTL}$"
            out.append(field_errors.invalid(where, name, detail))
        elif name in seen:
            out.append(field_errors.duplicate(where, name))
        seen.add(name)
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            out.append(field_errors.invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (
            plain.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or plain == "kernel.sem"
        ):
            out.append(field_errors.invalid(where, name, "may not be specified when 'hostIPC' is true"))


_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SECURITY_IDS: Final = Table(
    ("fsGroup", user_id), ("runAsUser", user_id), ("runAsGroup", user_id), ("supplementalGroups[*]", user_id)
)
_SECURITY_PROFILES: Final = Table(
    ("fsGroupChangePolicy", if_set("fsGroupChangePolicy", one_of("Always", "OnRootMismatch"))),
    ("seccompProfile", SECCOMP),
    ("windowsOptions", WINDOWS_OPTIONS),
    ("appArmorProfile", APP_ARMOR),
    ("supplementalGroupsPolicy", if_set("supplementalGroupsPolicy", one_of("Merge", "Strict"))),
    ("seLinuxChangePolicy", if_set("seLinuxChangePolicy", one_of("Recursive"))),
)


def _dns_config(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    config = spec.get("dnsConfig")
    if config is None and spec.get("dnsPolicy") != "None":
        return
    at = f"{at}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            out.append(field_errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            out.append(field_errors.required(f"{at}.nameservers", detail))
            return
    servers, searches = list_member(config, "nameservers"), list_member(config, "searches")
    if len(servers) > 3:
        out.append(field_errors.invalid(f"{at}.nameservers", servers, "must not have more than 3 nameservers"))
    _DNS_SERVERS(config, at, out, None)
    if len(searches) > 32:
        out.append(field_errors.invalid(f"{at}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        detail = "must not have more than 2048 characters (including spaces) in the search list"
        out.append(field_errors.invalid(f"{at}.searches", searches, detail))
    for index, search in enumerate(searches):
        if search != ".":
            text = search.removesuffix(".")
            path = f"{at}.searches[{index}]"
            out.extend([field_errors.invalid(path, text, one) for one in _search_problems(text)])
    for index, option in enumerate(list_member(config, "options")):
        if not option.get("name"):
            out.append(field_errors.required(f"{at}.options[{index}]", "must not be empty"))


_DNS_SERVERS: Final = Table(("nameservers[*]", ip_address))


def _search_problems(text: str) -> list[str]:
    problems = ["must be no more than 253 characters"] if len(text) > 253 else []
    label = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    expression = rf"{label}(\.{label})*"
    if not re.fullmatch(r"_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:\._?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*", text):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and"
        rule = f"{rule} must start and end with an alphanumeric character"
        problems.append(f"{rule} (e.g. 'example.com', regex used for validation is '{expression}')")
    return problems


def _readiness_gate(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    name = value.get("conditionType") or ""
    out.extend([field_errors.invalid(f"{at}.conditionType", name, one) for one in label_key_problems(name)])


def _host_process(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    own = spec.get("securityContext")
    pod = map_member(own, "windowsOptions").get("hostProcess") if own else None
    if pod is None and not _has_windows_options(spec.get("containers"), spec.get("initContainers")):
        return
    count = hosted = 0
    for container, path in all_containers(spec, at):
        count += 1
        own = map_member(map_member(container, "securityContext"), "windowsOptions").get("hostProcess")
        if pod is not None and own is not None and pod != own:
            shown = str(pod).lower()
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            out.append(field_errors.invalid(f"{path}.securityContext.windowsOptions.hostProcess", own, detail))
        hosted += bool(own if own is not None else pod)
    if not hosted:
        return
    if hosted != count:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        out.append(field_errors.invalid(at, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        out.append(field_errors.invalid(f"{at}.hostNetwork", False, detail))


def _has_windows_options(*groups: Any) -> bool:
    for group in groups:
        for container in group or ():
            if "securityContext" in container and "windowsOptions" in (container["securityContext"] or ()):
                return True
    return False


def _host_users(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if spec.get("hostUsers") is not False:
        return
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            shown = name if name == "hostNetwork" else name[0].upper() + name[1:]
            out.append(field_errors.forbidden(f"{at}.{shown}", "when `hostUsers` is false"))
    for container, path in all_containers(spec, at):
        if container.get("volumeDevices"):
            out.append(field_errors.forbidden(f"{path}.volumeDevices", "when `hostUsers` is false"))


def _hostname_override(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    name, at = spec.get("hostnameOverride"), f"{at}.hostnameOverride"
    if name is None:
        return
    if spec.get("setHostnameAsFQDN"):
        out.append(field_errors.forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        out.append(field_errors.forbidden(at, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        out.append(field_errors.too_long(at, 64))
    out.extend([field_errors.invalid(at, name, one) for one in subdomain_problems(name)])


def _operating_system(spec: Any, at: str, out: list[Cause], pod: Any) -> None:
    system = spec.get("os")
    if system is None:
        return
    if not pod.os:
        out.append(field_errors.required(f"{at}.os.name"))
    elif pod.os not in ("linux", "windows"):
        out.append(field_errors.not_supported(f"{at}.os", pod.os, ("linux", "windows")))
    elif pod.os == "linux":
        _linux(spec, at, out)
    else:
        _windows(spec, at, out)


def _linux(spec: Any, at: str, out: list[Cause]) -> None:
    detail = "windows options cannot be set for a linux pod"
    for one, path in [(spec, at), *all_containers(spec, at)]:
        if map_member(one, "securityContext").get("windowsOptions") is not None:
            out.append(field_errors.forbidden(f"{path}.securityContext.windowsOptions", detail))


_NOT_ON_WINDOWS: Final = (
    *("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC"),
    *("securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy"),
    *("securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup"),
    *("securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy"),
    "securityContext.seLinuxChangePolicy",
)
_PLAIN_FLAGS: Final = ("hostPID", "hostIPC")  # those of which false is nothing
_NOT_ON_WINDOWS_CONTAINERS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem"),
    *("privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def _windows(spec: Any, at: str, out: list[Cause]) -> None:
    detail = "cannot be set for a windows pod"
    for path in _NOT_ON_WINDOWS:
        parent = map_member(spec, "securityContext") if "." in path else spec
        value = parent.get(path.rpartition(".")[2])
        if value is not None and (value is not False or path not in _PLAIN_FLAGS):
            out.append(field_errors.forbidden(f"{at}.{path}", detail))
    for container, path in all_containers(spec, at):
        context = map_member(container, "securityContext")
        for name in _NOT_ON_WINDOWS_CONTAINERS:
            if context.get(name) is not None:
                out.append(field_errors.forbidden(f"{path}.securityContext.{name}", detail))


def _policy_and_file_references(spec: Any, at: str, out: list[Cause], pod: Any) -> None:
    if spec.get("preemptionPolicy") == "":  # behind a pointer: it is not absent
        out.append(field_errors.required(f"{at}.preemptionPolicy"))
    if not pod.has_files:
        return
    volumes = {one.get("name"): one for one in list_member(spec, "volumes")}
    for container, path in all_containers(spec, at):
        for index, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            where, name = f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName", reference.get("volumeName") or ""
            if name not in volumes:
                out.append(field_errors.not_found(where, name))
            elif volumes[name].get("emptyDir") is None:
                out.append(field_errors.invalid(where, name, "referenced volume must be of type emptyDir"))


def _overhead(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    check_resource_list(value, f"{at}.limits", out)


def _host_alias(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    address = value.get("ip") or ""
    if not ip_address.is_valid(address):
        ip_address.report(address, f"{at}.ip", out)
    for index, name in enumerate(list_member(value, "hostnames")):
        path = f"{at}.hostnames[{index}]"
        out.extend([field_errors.invalid(path, name, one) for one in subdomain_problems(name)])


POD_SPEC: Final = Table(
    ("resources", check_pod_resources),
    ("hostNetwork", Whole(_host_network_ports)),
    ("restartPolicy", required, one_of("Always", "OnFailure", "Never")),
    ("dnsPolicy", required, one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    ("nodeSelector", labels),
    ("securityContext", _SECURITY_IDS),
    ("shareProcessNamespace", Whole(_process_namespace)),
    ("", _sysctls),
    ("securityContext", _SECURITY_PROFILES),
    ("affinity", AFFINITY),
    ("", _dns_config),
    ("readinessGates[*]", _readiness_gate),
    ("schedulingGates", check_scheduling_gates),
    ("topologySpreadConstraints", check_spread_constraints),
    ("", _host_process),
    ("hostUsers", Whole(_host_users)),
    ("hostnameOverride", Present(_hostname_override)),
    ("serviceAccountName", dns_subdomain),
    ("nodeName", dns_subdomain),
    ("activeDeadlineSeconds", between(1, 2**31 - 1)),
    ("hostname", dns_label),
    ("subdomain", dns_label),
    ("tolerations", check_tolerations),
    ("hostAliases[*]", _host_alias),
    ("priorityClassName", dns_subdomain),
    ("runtimeClassName", given(dns_subdomain)),
    ("preemptionPolicy", one_of("PreemptLowerPriority", "Never")),
    ("overhead", _overhead),
    ("os", Whole(_operating_system)),
    ("", _policy_and_file_references),
)
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
MIRROR: Final = "kubernetes.io/config.mirror"


def check_pod_annotations(value: Any, spec: Any, at: str, out: list[Cause]) -> None:
    """Checks the annotations that have a meaning for pods."""
    if not value:
        return
    if MIRROR in value and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        out.append(field_errors.invalid(f"{at}[{MIRROR}]", value[MIRROR], detail))
    cost = value.get(DELETION_COST)
    if cost is not None and not _is_cost(cost):
        out.append(field_errors.invalid(f"{at}[{DELETION_COST}]", cost, "must be a 32bit integer"))
    for key in sorted(value):
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            _seccomp_annotation(value[key], f"{at}.{key}", out)
    names = {one.get("name") for one, _path in all_containers(spec, "")}
    for key in sorted(value):
        if not key.startswith(APP_ARMOR_CONTAINER):
            continue
        container = key.removeprefix(APP_ARMOR_CONTAINER)
        if container not in names:
            out.append(field_errors.invalid(f"{at}[{key}]", container, "container not found"))
        profile = value[key]
        if profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
            out.append(field_errors.invalid(f"{at}[{key}]", profile, f'invalid AppArmor profile name: "{profile}"'))


def _is_cost(text: str) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]*", text) is not None and -(2**31) <= int(text) < 2**31


def _seccomp_annotation(profile: str, at: str, out: list[Cause]) -> None:
    if profile.startswith("localhost/") or profile in ("runtime/default", "docker/default", "unconfined"):
        return
    out.append(field_errors.invalid(at, profile, "must be a valid seccomp profile"))


def check_profiles(metadata: Any, spec: Any, at: str, out: list[Cause]) -> None:
    """Checks that the profiles in annotations and in fields agree."""
    notes = metadata.get("annotations")
    if not notes:
        return
    own = map_member(spec, "securityContext")
    if own.get("seccompProfile") is not None and SECCOMP_POD in notes:
        _same_profile(notes[SECCOMP_POD], own["seccompProfile"], f"{at}.securityContext.seccompProfile", "seccomp", out)
    for container, path in all_containers(spec, at):
        context = map_member(container, "securityContext")
        key = SECCOMP_CONTAINER + str(container.get("name"))
        if context.get("seccompProfile") is not None and key in notes:
            where = f"{path}.securityContext.seccompProfile"
            _same_profile(notes[key], context["seccompProfile"], where, "seccomp", out)
    if map_member(spec, "os").get("name") == "windows":
        return
    for container, path in all_containers(spec, at):
        profile = map_member(container, "securityContext").get("appArmorProfile") or own.get("appArmorProfile")
        key = APP_ARMOR_CONTAINER + str(container.get("name"))
        if profile is not None and key in notes:
            _same_profile(notes[key], profile, f"{path}.securityContext.appArmorProfile", "apparmor", out)


def _same_profile(note: str, profile: Any, at: str, what: str, out: list[Cause]) -> None:
    kind = profile.get("type")
    known: dict[str, tuple[str, ...]] = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
    allowed = known.get(kind, ())
    if what == "seccomp" and kind == "RuntimeDefault":
        allowed = ("runtime/default", "docker/default")
    if kind == "Localhost" and note.startswith("localhost/"):
        if note.removeprefix("localhost/") != profile.get("localhostProfile"):
            detail = f"{what} profile in annotation and field must match"
            out.append(field_errors.forbidden(f"{at}.localhostProfile", detail))
    elif note not in allowed:
        out.append(field_errors.forbidden(f"{at}.type", f"{what} type in annotation and field must match"))


def check_template(template: Any, at: str, out: list[Cause]) -> None:
    """Checks a pod template: labels, annotations and spec."""
    metadata, spec = map_member(template, "metadata"), map_member(template, "spec")
    if metadata.get("labels"):
        labels(metadata["labels"], f"{at}.labels", out, None)
    if metadata.get("annotations"):
        annotations(metadata["annotations"], f"{at}.annotations", out, None)
        check_pod_annotations(metadata["annotations"], spec, f"{at}.annotations", out)
    check_pod_spec(spec, f"{at}.spec", out)
    check_profiles(metadata, spec, f"{at}.spec", out)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        out.append(field_errors.forbidden(f"{at}.spec.ephemeralContainers", detail))


def check_pod_images(spec: Any, at: str, out: list[Cause]) -> None:
    """Checks the images of the containers of a Pod; those of a template are not checked."""
    for group in ("containers", "initContainers"):
        if group in spec:
            for index, one in enumerate(spec[group] or ()):
                check_image(one, f"{at}.{group}[{index}]", out)
