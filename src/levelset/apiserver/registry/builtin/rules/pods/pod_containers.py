"""The rules of the containers in a pod spec: ports, environment, mounts, probes, lifecycle, resources, security."""

import re
from functools import partial
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    at_least,
    config_key,
    dns_label,
    dns_subdomain,
    env_name,
    fails,
    label_key_problems,
    local_path,
    no_backsteps,
    non_negative,
    one_of,
    port_name_problems,
    port_number,
    port_number_or_name,
    quantity,
    subdomain_problems,
    user_id,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import (
    PULL_POLICIES,
    check_field_reference,
    check_resource_reference,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    Present,
    Required,
    Table,
    Whole,
    always,
    given,
    remembered,
    required,
)
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.quantity import Quantity

__all__ = [
    "APP_ARMOR",
    "SECCOMP",
    "WINDOWS_OPTIONS",
    "check_container_resource_name",
    "check_containers",
    "check_ephemeral_containers",
    "check_image",
    "check_init_containers",
    "check_pod_resources",
    "check_quantity",
    "check_resource_list",
    "check_resource_name",
    "has_valid_resources",
    "is_extended_resource",
    "is_native_resource",
    "is_overcommit_allowed",
]

ENV_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
ENV_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _ports(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    names: set[str] = set()
    for index, port in enumerate(value):
        where, name = f"{at}[{index}]", port.get("name")
        if name:
            problems = port_name_problems(name)
            out.extend([field_errors.invalid(f"{where}.name", name, one) for one in problems])
            if not problems and name in names:
                out.append(field_errors.duplicate(f"{where}.name", name))
            names.add(name)
        PORT(port, where, out, None)


def _host_port(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value and not port_number.is_valid(value):
        port_number.report(value, at, out)


PORT: Final = Table(
    ("containerPort", required, port_number),
    ("hostPort", _host_port),
    ("protocol", required, one_of("SCTP", "TCP", "UDP")),
)


def _env_source(value: Any, at: str, out: list[Cause], pod: Any) -> None:
    source, at = value["valueFrom"], f"{at}.valueFrom"
    pod.has_files = pod.has_files or "fileKeyRef" in source
    check = _source_beside_value if value.get("value") else _only_source
    check(source, at, out, None)


def _check_env_source(source: Any, at: str, out: list[Cause], _context: Any, *, has_value: bool) -> None:
    ENV_SOURCE(source, at, out, None)
    count = sum(source.get(name) is not None for name in ENV_SOURCES)
    if not count:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        out.append(field_errors.invalid(at, "", f"must specify one of: {listed}"))
    elif has_value:
        out.append(field_errors.invalid(at, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        out.append(field_errors.invalid(at, "", "may not have more than one field specified at a time"))


_source_beside_value: Final = partial(_check_env_source, has_value=True)
_only_source: Final = remembered(partial(_check_env_source, has_value=False))


def _env_field(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    check_field_reference(value, at, out, ENV_FIELDS)


def _env_resource(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    check_resource_reference(value, at, out, volume=False)


def _object_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    out.extend([field_errors.invalid(at, value or "", one) for one in subdomain_problems(value or "")])


KEY_REFERENCE: Final = Table(("name", always(_object_name)), ("key", required, config_key))
FILE_REFERENCE: Final = Table(
    ("key", required, env_name), ("volumeName", required, dns_label), ("path", required, no_backsteps)
)
ENV_SOURCE: Final = Table(
    ("fieldRef", _env_field),
    ("resourceFieldRef", _env_resource),
    ("configMapKeyRef", KEY_REFERENCE),
    ("secretKeyRef", KEY_REFERENCE),
    ("fileKeyRef", FILE_REFERENCE),
)
ENV: Final = Table(("name", required, env_name), ("valueFrom", Whole(_env_source)))


def _env_from(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for index, source in enumerate(value):
        ENV_FROM(source, f"{at}[{index}]", out, None)
        count = sum(source.get(name) is not None for name in ("configMapRef", "secretRef"))
        if not count:
            out.append(field_errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            out.append(field_errors.invalid(at, "", "may not have more than one field specified at a time"))


ENV_FROM: Final = Table(
    ("prefix", env_name),
    ("configMapRef", Table(("name", required, dns_subdomain))),
    ("secretRef", Table(("name", required, dns_subdomain))),
)
PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def _mounts(container: Any, at: str, out: list[Cause], pod: Any) -> None:
    mounts = container["volumeMounts"]
    given = container.get("volumeDevices")
    devices = {one.get("name"): one.get("devicePath") for one in given} if given else {}
    places: set[str] = set()
    at = f"{at}.volumeMounts"
    for index, mount in enumerate(mounts):
        where, name, path = f"{at}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            out.append(field_errors.required(f"{where}.name"))
        if name not in pod.volumes:
            out.append(field_errors.not_found(f"{where}.name", name))
        if not path:
            out.append(field_errors.required(f"{where}.mountPath"))
        if path in places:
            out.append(field_errors.invalid(f"{where}.mountPath", path, "must be unique"))
        places.add(path)
        if devices and name in devices:
            out.append(field_errors.invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if devices and path in devices.values():
            detail = "must not already exist as a path in volumeDevices"
            out.append(field_errors.invalid(f"{where}.mountPath", path, detail))
        if len(mount) > 2 or not path:
            _mount_options(mount, at, where, out, container)


def _mount_options(mount: Any, at: str, where: str, out: list[Cause], container: Any) -> None:
    """The optional fields of a mount; upstream reports some of them without the index."""
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        local_path(sub_path, f"{at}.subPath", out, None)
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            out.append(field_errors.invalid(f"{where}.subPathExpr", expression, detail))
        local_path(expression, f"{at}.subPathExpr", out, None)
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None:
        if propagation not in PROPAGATIONS:
            out.append(field_errors.not_supported(f"{at}.mountPropagation", propagation, PROPAGATIONS))
        if propagation == "Bidirectional" and not map_member(container, "securityContext").get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            out.append(field_errors.forbidden(f"{at}.mountPropagation", detail))
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            detail = "may only be specified when readOnly is true"
            out.append(field_errors.forbidden(f"{at}.recursiveReadOnly", detail))
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            out.append(field_errors.forbidden(f"{at}.recursiveReadOnly", detail))
    elif recursive not in (None, "Disabled"):
        out.append(field_errors.not_supported(f"{at}.recursiveReadOnly", recursive, RECURSIVE))


def _devices(container: Any, at: str, out: list[Cause], pod: Any) -> None:
    devices = container["volumeDevices"]
    mounts = {one.get("name"): one.get("mountPath") for one in list_member(container, "volumeMounts")}
    names: set[str] = set()
    places: set[str] = set()
    for index, device in enumerate(devices):
        where, name, path = f"{at}.volumeDevices[{index}]", device.get("name") or "", device.get("devicePath") or ""
        volume = pod.volumes.get(name)
        if not name:
            out.append(field_errors.required(f"{where}.name"))
        if name and name in names:
            out.append(field_errors.invalid(f"{where}.name", name, "must be unique"))
        if volume is None:
            out.append(field_errors.not_found(f"{where}.name", name))
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            out.append(field_errors.invalid(f"{where}.name", name, detail))
        if not path:
            out.append(field_errors.required(f"{where}.devicePath"))
        if path in places:
            out.append(field_errors.invalid(f"{where}.devicePath", path, "must be unique"))
        if ".." in path.split("/"):
            out.append(field_errors.invalid(f"{where}.devicePath", path, "can not contain backsteps ('..')"))
        else:
            places.add(path)
        if name in mounts:
            out.append(field_errors.invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if path in mounts.values():
            detail = "must not already exist as a path in volumeMounts"
            out.append(field_errors.invalid(f"{where}.devicePath", path, detail))
        names.add(name)


STANDARD_RESOURCES: Final = frozenset(
    (
        *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services"),
        *("replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "storage", "requests.storage"),
        *("services.nodeports", "services.loadbalancers"),
    )
)
CONTAINER_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
INTEGER_RESOURCES: Final = frozenset(
    (
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    )
)


def is_native_resource(name: str) -> bool:
    """Whether a resource is one of Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Whether a resource is an extended one, which is counted in whole numbers."""
    return (
        not is_native_resource(name) and not name.startswith("requests.") and not label_key_problems(f"requests.{name}")
    )


def is_overcommit_allowed(name: str) -> bool:
    """Whether a request may be smaller than the limit."""
    return is_native_resource(name) and not name.startswith("hugepages-")


def check_resource_name(name: str, at: str, out: list[Cause]) -> bool:
    """Checks the name of a resource; returns whether it is valid."""
    problems = label_key_problems(name)
    out.extend([field_errors.invalid(at, name, one) for one in problems])
    if problems:
        return False
    if (
        "/" not in name
        and name not in STANDARD_RESOURCES
        and not name.startswith(("hugepages-", "requests.hugepages-"))
    ):
        out.append(field_errors.invalid(at, name, "must be a standard resource type or fully qualified"))
        return False
    return True


def check_container_resource_name(name: str, at: str, out: list[Cause]) -> None:
    """Checks the name of a resource of a container."""
    check_resource_name(name, at, out)
    if "/" not in name:
        if name not in CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            out.append(field_errors.invalid(at, name, "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        out.append(field_errors.invalid(at, name, "doesn't follow extended resource name standard"))


def _pod_resource_name(name: str, at: str, out: list[Cause]) -> None:
    if check_resource_name(name, at, out) and name not in ("cpu", "memory") and not name.startswith("hugepages-"):
        out.append(field_errors.not_supported(at, name, ("cpu", "hugepages-", "memory")))


def check_quantity(name: str, value: Any, at: str, out: list[Cause]) -> Quantity:
    """Checks the amount of a resource: not negative, and a whole number of what is counted."""
    amount = quantity(value)
    if amount.nanos < 0:
        out.append(field_errors.invalid(at, str(amount), "must be greater than or equal to 0"))
    if (name in INTEGER_RESOURCES or is_extended_resource(name)) and amount.to_milli() % 1000:
        out.append(field_errors.invalid(at, str(amount), "must be an integer"))
    return amount


def check_resource_list(value: Any, at: str, out: list[Cause], check_name: Any = check_container_resource_name) -> None:
    """Checks the names and amounts of a list of resources."""
    for name in sorted(value):
        _check_resource(name, value[name], at, out, check_name)


def _check_resource(name: str, value: Any, at: str, out: list[Cause], check_name: Any) -> Quantity:
    """Checks the name and the amount of one resource; returns the amount."""
    amount = quantity(value)
    if name in CONTAINER_RESOURCES and check_name is check_container_resource_name and amount.nanos >= 0:
        return amount
    where = f"{at}[{name}]"
    if name not in CONTAINER_RESOURCES or check_name is not check_container_resource_name:
        check_name(name, where, out)
    check_quantity(name, value, where, out)
    if name.startswith("hugepages-"):
        size = quantity(name.removeprefix("hugepages-"))
        if size.nanos <= 0 or size.to_milli() % 1000 or int(amount) % int(size):
            out.append(field_errors.invalid(where, str(amount), f"{amount} is not positive integer multiple of {name}"))
    return amount


def _resources(
    value: Any, at: str, out: list[Cause], pod: Any, check_name: Any = check_container_resource_name
) -> None:
    if not value:
        return
    limits, requests = map_member(value, "limits"), map_member(value, "requests")
    if limits:
        check_resource_list(limits, f"{at}.limits", out, check_name)
    for name in sorted(requests):
        amount = _check_resource(name, requests[name], f"{at}.requests", out, check_name)
        _resource_request(name, amount, limits, at, out)
    if not limits and not requests and not value.get("claims"):
        return
    names = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        out.append(field_errors.forbidden(at, "HugePages require cpu or memory"))
    for index, claim in enumerate(list_member(value, "claims")):
        _resource_claim(claim, f"{at}.claims[{index}]", out, pod)


def _container_resources(value: Any, at: str, out: list[Cause], pod: Any) -> None:
    check = _resources if "claims" in value else _plain_resources
    check(value, at, out, pod)


_plain_resources: Final = remembered(_resources)


def has_valid_resources(containers: Any) -> bool:
    """Whether no rule is broken by the resources of any of these; those with claims need the Pod, and are not read."""
    out: list[Cause] = []
    for container in containers or ():
        resources = container.get("resources")
        if resources and "claims" not in resources:
            _plain_resources(resources, "", out, None)
    return not out


def _resource_request(name: str, amount: Quantity, limits: Any, at: str, out: list[Cause]) -> None:
    if name in limits:
        limit = quantity(limits[name])
        if amount.nanos < limit.nanos and is_overcommit_allowed(name):
            return
        if amount != limit and not is_overcommit_allowed(name):
            detail = f"must be equal to {name} limit of {limit}"
            out.append(field_errors.invalid(f"{at}.requests", str(amount), detail))
        elif amount > limit:
            detail = f"must be less than or equal to {name} limit of {limit}"
            out.append(field_errors.invalid(f"{at}.requests", str(amount), detail))
    elif not is_overcommit_allowed(name):
        detail = "Limit must be set for non overcommitable resources"
        out.append(field_errors.required(f"{at}.limits", detail))


def _resource_claim(claim: Any, at: str, out: list[Cause], pod: Any) -> None:
    name = claim.get("name") or ""
    if not name:
        out.append(field_errors.required(at))
        return
    request = claim.get("request")
    if request and not dns_label.is_valid(request):
        dns_label.report(request, f"{at}.request", out)
    if name not in pod.claims:
        listed = f": {', '.join(sorted(pod.claims))}" if pod.claims else " which is empty"
        cause = field_errors.not_found(at, name)
        detail = f"{cause.message}: must be one of the names in pod.spec.resourceClaims{listed}"
        out.append(Cause(cause.field, cause.reason, detail))


def check_pod_resources(value: Any, at: str, out: list[Cause], pod: Any) -> None:
    """Checks the resources of a whole Pod."""
    if pod.os == "windows":
        out.append(field_errors.forbidden(at, "may not be set for a windows pod"))
        return
    if value.get("claims") is not None:
        out.append(field_errors.forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level"))
    _resources(value, at, out, pod, _pod_resource_name)


def _resize_policies(value: Any, at: str, out: list[Cause], pod: Any) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(value):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", name))
        seen.add(name)
        for text, allowed in ((name, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if not text:
                out.append(field_errors.required(at))
            elif text not in allowed:
                out.append(field_errors.not_supported(at, text, allowed))
        if pod.restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            out.append(field_errors.invalid(at, restart, detail))


def _localhost_profile(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    profile, kind = value.get("localhostProfile"), value.get("type")
    if kind == "Localhost" and profile is None:
        out.append(field_errors.required(f"{at}.localhostProfile", "must be set when seccomp type is Localhost"))
    elif kind == "Localhost":
        local_path(profile, f"{at}.localhostProfile", out, None)
    elif profile is not None:
        detail = "can only be set when seccomp type is Localhost"
        out.append(field_errors.invalid(f"{at}.localhostProfile", value, detail))


def _app_armor(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    profile, kind = value.get("localhostProfile"), value.get("type") or ""
    if kind == "Localhost":
        if not profile:
            out.append(field_errors.required(f"{at}.localhostProfile", "must be set when AppArmor type is Localhost"))
        elif profile != profile.strip():
            out.append(field_errors.invalid(f"{at}.localhostProfile", profile, "must not be padded with whitespace"))
        if profile and len(profile) > 4095:
            out.append(field_errors.too_long(f"{at}.localhostProfile", 4095))
    elif kind in ("RuntimeDefault", "Unconfined"):
        if profile is not None:
            detail = "can only be set when AppArmor type is Localhost"
            out.append(field_errors.invalid(f"{at}.localhostProfile", profile, detail))
    elif not kind:
        out.append(field_errors.required(f"{at}.type", "type is required when appArmorProfile is set"))
    else:
        out.append(field_errors.not_supported(f"{at}.type", kind, PROFILE_TYPES))


PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
SECCOMP: Final = Table(
    ("type", Required("type is required when seccompProfile is set"), one_of(*PROFILE_TYPES)), ("", _localhost_profile)
)
APP_ARMOR: Final = Table(("", _app_armor))


def _windows_user(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    name = value.get("runAsUserName")
    if name is None:
        return
    problems: list[str] = []
    domain, slash, user = name.rpartition("\\")
    if not name:
        problems.append("runAsUserName cannot be an empty string")
    elif re.search(r"[\x00-\x1f\x7f]", name):
        problems.append("runAsUserName cannot contain control characters")
    elif name.count("\\") > 1:
        problems.append("runAsUserName cannot contain more than one backslash")
    else:
        if slash and not _WINDOWS_DOMAIN.fullmatch(domain):
            problems.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
        if not user:
            problems.append("runAsUserName's User cannot be empty")
        elif len(user) > 104:
            problems.append("runAsUserName's User length must not be longer than 104 characters")
        if re.fullmatch(r"[. ]+", user):
            problems.append("runAsUserName's User cannot contain only periods or spaces")
        if re.search(r'["/\\:;|=,+*?<>@\[\]]', user):
            problems.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    out.extend([field_errors.invalid(f"{at}.runAsUserName", name, one) for one in problems])


_WINDOWS_DOMAIN: Final = Pattern(
    r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}|[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*'
)
_MAX_CREDENTIAL_KIB: Final = 64


def _credential_spec(value: str | None, at: str, out: list[Cause], _context: Any) -> None:
    if value == "":
        out.append(field_errors.invalid(at, "", "gmsaCredentialSpec cannot be an empty string"))
    elif value is not None and len(value.encode()) > _MAX_CREDENTIAL_KIB * 1024:
        detail = f"gmsaCredentialSpec size must be under {_MAX_CREDENTIAL_KIB} KiB"
        out.append(field_errors.invalid(at, value, detail))


WINDOWS_OPTIONS: Final = Table(
    ("gmsaCredentialSpecName", given(dns_subdomain)),
    ("gmsaCredentialSpec", always(_credential_spec)),
    ("", _windows_user),
)


def _proc_mount(context: Any, above: str, out: list[Cause], pod: Any) -> None:
    value, at = context["procMount"], f"{above}.procMount"
    if value not in ("Default", "Unmasked"):
        out.append(field_errors.not_supported(at, value, ("Default", "Unmasked")))
    if value == "Unmasked" and pod.host_users:
        out.append(field_errors.invalid(at, value, "`hostUsers` must be false to use `Unmasked`"))


def _privilege_escalation(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value.get("allowPrivilegeEscalation") is not False:
        return
    if value.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        out.append(field_errors.invalid(at, value, detail))
    if "CAP_SYS_ADMIN" in list_member(map_member(value, "capabilities"), "add"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        out.append(field_errors.invalid(at, value, detail))


SECURITY_CONTEXT: Final = Table(
    ("runAsUser", user_id),
    ("runAsGroup", user_id),
    ("procMount", Present(_proc_mount)),
    ("seccompProfile", SECCOMP),
    ("", _privilege_escalation),
    ("windowsOptions", WINDOWS_OPTIONS),
    ("appArmorProfile", APP_ARMOR),
)
CONTAINER: Final = Table(
    ("name", required, dns_label),
    ("image", required),
    ("terminationMessagePolicy", required, one_of("File", "FallbackToLogsOnError")),
    ("ports", remembered(_ports)),
    ("env[*]", ENV),
    ("envFrom", _env_from),
    ("volumeMounts", Whole(_mounts)),
    ("volumeDevices", Whole(_devices)),
    ("imagePullPolicy", required, PULL_POLICIES),
    ("resources", _container_resources),
    ("resizePolicy", _resize_policies),
    ("securityContext", SECURITY_CONTEXT),
)


def _header_names(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for header in value:
        name = header.get("name") or ""
        if not re.fullmatch("[-A-Za-z0-9]+", name):
            rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
            rule = f"{rule} (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            out.append(field_errors.invalid(at, name, rule))


def _sleep(value: Any, at: str, out: list[Cause], pod: Any) -> None:
    seconds = value.get("seconds") or 0
    if not 0 <= seconds <= pod.grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({pod.grace})"
        out.append(field_errors.invalid(at, seconds, detail))


HANDLERS: Final[dict[str, Table]] = {
    "exec": Table(("command", required)),
    "httpGet": Table(
        ("path", required),
        ("port", always(port_number_or_name)),
        ("scheme", one_of("HTTP", "HTTPS")),
        ("httpHeaders", _header_names),
    ),
    "tcpSocket": Table(("port", always(port_number_or_name))),
    "grpc": Table(("port", always(port_number_or_name))),
    "sleep": Table(("", _sleep)),
}


def _handler(value: Any, at: str, out: list[Cause], pod: Any) -> None:
    count = 0
    for name, table in HANDLERS.items():
        if value.get(name) is None:
            continue
        count += 1
        if count > 1:
            out.append(field_errors.forbidden(f"{at}.{name}", "may not specify more than 1 handler type"))
        else:
            table(value[name], f"{at}.{name}", out, pod)
    if not count:
        out.append(field_errors.required(at, "must specify a handler type"))


LIFECYCLE: Final = Table(("postStart", _handler), ("preStop", _handler))
PROBE: Final = Table(
    ("", _handler),
    ("initialDelaySeconds", non_negative),
    ("timeoutSeconds", non_negative),
    ("periodSeconds", non_negative),
    ("successThreshold", non_negative),
    ("failureThreshold", non_negative),
    ("terminationGracePeriodSeconds", at_least(1, "must be greater than 0")),
)
_ONCE: Final = Table(("successThreshold", fails(lambda value: [] if value == 1 else ["must be 1"])))
_NO_GRACE: Final = Table(
    ("terminationGracePeriodSeconds", fails(lambda _value: ["must not be set for readinessProbes"])),
)
PROBES: Final = Table(
    ("lifecycle", LIFECYCLE),
    ("livenessProbe", remembered(PROBE), _ONCE),
    ("readinessProbe", remembered(PROBE), _NO_GRACE),
    ("startupProbe", remembered(PROBE), _ONCE),
)


def _init_restart_rules(container: Any, at: str, out: list[Cause]) -> None:
    found: list[Cause] = []
    _restart_rules(container, at, found, None)
    out.extend(found if container.get("restartPolicy") is not None else found[:1])  # upstream stops without a policy


def _restart_rules(container: Any, at: str, out: list[Cause], _context: Any) -> None:
    policy, rules = container.get("restartPolicy"), list_member(container, "restartPolicyRules")
    if policy is None and not rules:
        return
    if policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        out.append(field_errors.required(f"{at}.restartPolicy", detail))
    elif policy not in ("Always", "Never", "OnFailure"):
        out.append(field_errors.not_supported(f"{at}.restartPolicy", policy, ("Always", "Never", "OnFailure")))
    if len(rules) > 20:
        out.append(field_errors.too_many(f"{at}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        _restart_rule(rule, f"{at}.restartPolicyRules[{index}]", out)


def _restart_rule(rule: Any, at: str, out: list[Cause]) -> None:
    if rule.get("action") not in RESTART_ACTIONS:
        out.append(field_errors.not_supported(f"{at}.action", rule.get("action") or "", RESTART_ACTIONS))
    codes = rule.get("exitCodes")
    if codes is None:
        out.append(field_errors.required(f"{at}.exitCodes", "must be specified"))
        return
    if codes.get("operator") not in ("In", "NotIn"):
        out.append(field_errors.not_supported(f"{at}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")))
    if len(list_member(codes, "values")) > 255:
        out.append(field_errors.too_many(f"{at}.exitCodes.values", len(codes["values"]), 255))


RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")


def _host_ports(containers: list[Any], at: str, out: list[Cause]) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if key in seen:
                    out.append(field_errors.duplicate(f"{at}[{index}].ports[{number}].hostPort", key))
                seen.add(key)


def check_containers(containers: list[Any], at: str, out: list[Cause], pod: Any) -> None:
    """Checks the containers of a pod."""
    if not containers:
        out.append(field_errors.required(at))
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        where, name = f"{at}[{index}]", container.get("name") or ""
        CONTAINER(container, where, out, pod)
        if name in names:
            out.append(field_errors.duplicate(f"{where}.name", name))
        names.add(name)
        PROBES(container, where, out, pod)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_rules(container, where, out, None)
    _host_ports(containers, at, out)


def check_init_containers(containers: list[Any], others: list[Any], at: str, out: list[Cause], pod: Any) -> None:
    """Checks the init containers of a pod: those that always restart may have probes."""
    names = {one.get("name") or "" for one in others}
    for index, container in enumerate(containers):
        where, name = f"{at}[{index}]", container.get("name") or ""
        CONTAINER(container, where, out, pod)
        _init_restart_rules(container, where, out)
        if name in names:
            out.append(field_errors.duplicate(f"{where}.name", name))
        elif name:
            names.add(name)
        _host_ports([container], at, out)
        if container.get("restartPolicy") == "Always":
            PROBES(container, where, out, pod)
            continue
        for member in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(member) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                out.append(field_errors.forbidden(f"{where}.{member}", detail))
        for number, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                path = f"{where}.resizePolicy[{number}].restartPolicy"
                out.append(field_errors.invalid(path, "RestartContainer", detail))


# In the order of the fields of the type, which is that of the causes.
_NOT_EPHEMERAL: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)


def check_ephemeral_containers(containers: list[Any], others: list[Any], at: str, out: list[Cause], pod: Any) -> None:
    """Checks the ephemeral containers of a pod, which have fewer fields."""
    known = {one.get("name") for one in others}
    names = set(known)
    for index, container in enumerate(containers):
        where, name = f"{at}[{index}]", container.get("name") or ""
        CONTAINER(container, where, out, pod)
        check_image(container, where, out)
        if name in names:
            out.append(field_errors.duplicate(f"{where}.name", name))
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in known:
            out.append(field_errors.not_found(f"{where}.targetContainerName", target))
        detail = "cannot be set for an Ephemeral Container"
        given = [one for one in _NOT_EPHEMERAL if container.get(one) is not None]
        resources: Any = container.get("resources") or {}
        if all(one is None for one in resources.values()):
            given = [one for one in given if one != "resources"]  # a struct, which differs from an empty one
        out.extend([field_errors.forbidden(f"{where}.{one}", detail) for one in given])
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for member in ("subPath", "subPathExpr"):
                if mount.get(member):
                    out.append(field_errors.forbidden(f"{where}.volumeMounts[{number}].{member}", detail))


def check_image(container: Any, at: str, out: list[Cause]) -> None:
    """Checks that the image of a container in a Pod has no blanks around it."""
    image = container.get("image")
    if image and image != image.strip():
        out.append(field_errors.invalid(f"{at}.image", image, "must not have leading or trailing whitespace"))
