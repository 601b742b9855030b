"""The Pod Security Standards `baseline` and `restricted`: what each of them forbids in the spec of a Pod.

A check returns a violation (its reason and its detail, in the words of Kubernetes), or None. It applies from a minor
version of Kubernetes on, since a namespace may ask for the standard of an earlier one.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object

__all__ = ["LATEST", "Violation", "violations"]

LATEST: Final = 10_000
"""The minor version of the newest standard."""

_SAFE_CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_SAFE_SYSCTLS: Final = {
    0: "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.tcp_syncookies net.ipv4.ping_group_range"
    " net.ipv4.ip_unprivileged_port_start",
    27: "net.ipv4.ip_local_reserved_ports",
    29: "net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl"
    " net.ipv4.tcp_keepalive_probes",
    32: "net.ipv4.tcp_rmem net.ipv4.tcp_wmem",
}
_SAFE_VOLUMES: Final = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
_SAFE_PROFILES: Final = ("Localhost", "RuntimeDefault")
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


class Violation(NamedTuple):
    """What a standard forbids: a short reason, and where."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class _Pod(NamedTuple):
    """The metadata and the spec of a Pod or a template, and the version of the standard."""

    metadata: Object
    spec: Object
    version: int

    @property
    def containers(self) -> Iterator[Object]:
        """All containers, init containers first."""
        for group in ("initContainers", "containers", "ephemeralContainers"):
            yield from list_member(self.spec, group)

    @property
    def context(self) -> Object:
        """The security context of the Pod."""
        return map_member(self.spec, "securityContext")

    @property
    def has_user_namespace(self) -> bool:
        """Whether its users are not those of the host, and version 1.35 or newer says that root is harmless then."""
        return self.version >= 35 and self.spec.get("hostUsers") is False

    @property
    def is_windows(self) -> bool:
        """Whether version 1.25 or newer exempts it as a Pod of Windows."""
        return self.version >= 25 and map_member(self.spec, "os").get("name") == "windows"


class _Check(NamedTuple):
    run: Callable[[_Pod], Violation | None]
    since: int = 0
    replaces: str = ""
    """The name of a weaker check of `baseline` that need not run."""


def violations(level: str, version: int, metadata: Object, spec: Object) -> list[Violation]:
    """What a level (privileged, baseline, restricted) of a minor version forbids in this Pod, in order."""
    if level == "privileged":
        return []
    pod = _Pod(metadata, spec, version)
    restricted = {} if level == "baseline" else _RESTRICTED
    active = [check for check in restricted.values() if check.since <= version]
    replaced = {check.replaces for check in active}
    baseline = [check for name, check in _BASELINE.items() if check.since <= version and name not in replaced]
    found = (check.run(pod) for check in (*baseline, *active))
    return [one for one in found if one is not None]


def _named(containers: list[Any]) -> str:
    return f"container{'' if len(containers) == 1 else 's'} {_quoted(containers)}"


def _quoted(items: "list[Any] | set[Any]") -> str:
    return ", ".join(f'"{one}"' for one in (sorted(items) if isinstance(items, set) else items))


def _names(pod: _Pod, is_bad: Callable[[Object], bool]) -> list[Any]:
    """The names of the containers whose security context is bad."""
    return [one.get("name") for one in pod.containers if is_bad(map_member(one, "securityContext"))]


def _setters(pod: _Pod, is_bad: Callable[[Object], bool]) -> str:
    """The Pod, or the containers, whose security context is bad; empty if none is."""
    containers = _names(pod, is_bad)
    parts = [*(["pod"] if is_bad(pod.context) else []), *([_named(containers)] if containers else [])]
    return " and ".join(parts)


def _contexts(pod: _Pod) -> list[Object]:
    return [pod.context, *(map_member(one, "securityContext") for one in pod.containers)]


def _app_armor(pod: _Pod) -> Violation | None:
    def is_bad(context: Object) -> bool:
        profile = map_member(context, "appArmorProfile")
        return bool(profile) and profile.get("type") not in _SAFE_PROFILES

    setters = _setters(pod, is_bad)
    values = sorted({map_member(one, "appArmorProfile")["type"] for one in _contexts(pod) if is_bad(one)})
    annotations = [
        f'{key}="{value}"'
        for key, value in sorted(map_member(pod.metadata, "annotations").items())
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    ]
    if not setters and not annotations:
        return None
    if annotations:
        values += annotations
        setters = " and ".join(filter(None, (setters, f"annotation{'' if len(annotations) == 1 else 's'}")))
    reason = f"forbidden AppArmor profile{'' if len(values) == 1 else 's'}"
    return Violation(reason, f"{setters} must not set AppArmor profile type to {_quoted(values)}")


def _capabilities(pod: _Pod) -> Violation | None:
    def added(context: Object) -> set[Any]:
        return set(list_member(map_member(context, "capabilities"), "add")) - _SAFE_CAPABILITIES

    bad = _names(pod, lambda context: bool(added(context)))
    if not bad:
        return None
    values = {value for one in pod.containers for value in added(map_member(one, "securityContext"))}
    detail = f"{_named(bad)} must not include {_quoted(values)} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def _host_namespaces(pod: _Pod) -> Violation | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_paths(pod: _Pod) -> Violation | None:
    found = [one.get("name") for one in list_member(pod.spec, "volumes") if one.get("hostPath") is not None]
    return Violation("hostPath volumes", f"volume{'' if len(found) == 1 else 's'} {_quoted(found)}") if found else None


def _host_ports(pod: _Pod) -> Violation | None:
    used = {
        str(one.get("name")): [port["hostPort"] for port in list_member(one, "ports") if port.get("hostPort")]
        for one in pod.containers
    }
    bad = [name for name, ports in used.items() if ports]
    if not bad:
        return None
    ports = sorted({str(port) for found in used.values() for port in found})
    words = f"{'uses' if len(bad) == 1 else 'use'} hostPort{'' if len(ports) == 1 else 's'}"
    return Violation("hostPort", f"{_named(bad)} {words} {', '.join(ports)}")


def _probe_hosts(pod: _Pod) -> Violation | None:
    def hosts(container: Object) -> set[Any]:
        lifecycle = map_member(container, "lifecycle")
        probes = [map_member(container, name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers = [*probes, map_member(lifecycle, "postStart"), map_member(lifecycle, "preStop")]
        found = (map_member(one, name).get("host") for one in handlers for name in ("httpGet", "tcpSocket"))
        return {host for host in found if host}

    bad = {str(one.get("name")) for one in pod.containers if hosts(one)}
    if not bad:
        return None
    values = {host for one in pod.containers for host in hosts(one)}
    words = f"{'uses' if len(bad) == 1 else 'use'} probe or lifecycle host{'' if len(values) == 1 else 's'}"
    return Violation("probe or lifecycle host", f"{_named(sorted(bad))} {words} {_quoted(values)}")


def _privileged(pod: _Pod) -> Violation | None:
    bad = _names(pod, lambda context: context.get("privileged") is True)
    return Violation("privileged", f"{_named(bad)} must not set securityContext.privileged=true") if bad else None


def _any_proc_mount(pod: _Pod) -> Violation | None:
    bad = _names(pod, lambda context: context.get("procMount") not in (None, "Default"))
    if not bad:
        return None
    found = (map_member(one, "securityContext").get("procMount") for one in pod.containers)
    values = {value for value in found if value not in (None, "Default")}
    return Violation("procMount", f"{_named(bad)} must not set securityContext.procMount to {_quoted(values)}")


def _proc_mount(pod: _Pod) -> Violation | None:
    return None if pod.has_user_namespace else _any_proc_mount(pod)


def _se_linux(pod: _Pod) -> Violation | None:
    newer = ("container_engine_t",) if pod.version >= 31 else ()
    types = (None, "", "container_t", "container_init_t", "container_kvm_t", *newer)

    def is_bad(context: Object) -> bool:
        options = map_member(context, "seLinuxOptions")
        return options.get("type") not in types or bool(options.get("user")) or bool(options.get("role"))

    setters = _setters(pod, is_bad)
    if not setters:
        return None
    given = [map_member(one, "seLinuxOptions") for one in _contexts(pod)]
    bad = {one["type"] for one in given if one.get("type") not in types}
    data = [f"type{'' if len(bad) == 1 else 's'} {_quoted(bad)}"] if bad else []
    data += [f"{name} may not be set" for name in ("user", "role") if any(one.get(name) for one in given)]
    return Violation("seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")


def _is_bad_seccomp(context: Object) -> bool:
    return "seccompProfile" in context and map_member(context, "seccompProfile").get("type") not in _SAFE_PROFILES


def _seccomp(pod: _Pod) -> Violation | None:
    setters = _setters(pod, _is_bad_seccomp)
    if not setters:
        return None
    values = {map_member(one, "seccompProfile").get("type") for one in _contexts(pod) if _is_bad_seccomp(one)}
    return Violation(
        "seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {_quoted(values)}"
    )


def _sysctls(pod: _Pod) -> Violation | None:
    safe = {name for since, names in _SAFE_SYSCTLS.items() if since <= pod.version for name in names.split()}
    bad = [one.get("name") for one in list_member(pod.context, "sysctls") if one.get("name") not in safe]
    return Violation("forbidden sysctls", ", ".join(map(str, bad))) if bad else None


def _host_process(pod: _Pod) -> Violation | None:
    setters = _setters(pod, lambda context: map_member(context, "windowsOptions").get("hostProcess") is True)
    detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail) if setters else None


def _escalation(pod: _Pod) -> Violation | None:
    bad = [] if pod.is_windows else _names(pod, lambda one: one.get("allowPrivilegeEscalation") is not False)
    detail = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail) if bad else None


def _all_capabilities(pod: _Pod) -> Violation | None:
    if pod.is_windows:
        return None

    def added(context: Object) -> set[Any]:
        return set(list_member(map_member(context, "capabilities"), "add")) - {"NET_BIND_SERVICE"}

    undropped = _names(pod, lambda context: "ALL" not in list_member(map_member(context, "capabilities"), "drop"))
    adding = _names(pod, lambda context: bool(added(context)))
    details = [f'{_named(undropped)} must set securityContext.capabilities.drop=["ALL"]'] if undropped else []
    if adding:
        values = {value for one in pod.containers for value in added(map_member(one, "securityContext"))}
        details.append(f"{_named(adding)} must not include {_quoted(values)} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(pod: _Pod) -> Violation | None:
    sources = {
        str(one.get("name")): next((key for key, value in one.items() if isinstance(value, dict)), "unknown")
        for one in list_member(pod.spec, "volumes")
    }
    bad = [name for name, source in sources.items() if source not in _SAFE_VOLUMES]
    if not bad:
        return None
    types = {sources[name] for name in bad}
    words = f"{'uses' if len(bad) == 1 else 'use'} restricted volume type{'' if len(types) == 1 else 's'}"
    named = f"volume{'' if len(bad) == 1 else 's'} {_quoted(bad)}"
    return Violation("restricted volume types", f"{named} {words} {_quoted(types)}")


def _non_root(pod: _Pod) -> Violation | None:
    if pod.has_user_namespace:
        return None
    setters = _setters(pod, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return Violation("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    if pod.context.get("runAsNonRoot") is True:
        return None
    bad = _names(pod, lambda context: context.get("runAsNonRoot") is None)
    detail = f"pod or {_named(bad)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail) if bad else None


def _root_user(pod: _Pod) -> Violation | None:
    setters = "" if pod.has_user_namespace else _setters(pod, lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _all_seccomp(pod: _Pod) -> Violation | None:
    if pod.is_windows:
        return None
    found = _seccomp(pod)
    if found is not None or "seccompProfile" in pod.context:
        return found
    bad = _names(pod, lambda context: "seccompProfile" not in context)
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_named(bad)} {wanted}") if bad else None


# By the names that Kubernetes gives them, in alphabetical order: that of the violations in a message.
_BASELINE: Final[dict[str, _Check]] = {
    "appArmorProfile": _Check(_app_armor),
    "capabilities_baseline": _Check(_capabilities),
    "hostNamespaces": _Check(_host_namespaces),
    "hostPathVolumes": _Check(_host_paths),
    "hostPorts": _Check(_host_ports),
    "hostProbesAndHostLifecycle": _Check(_probe_hosts, 34),
    "privileged": _Check(_privileged),
    "procMount": _Check(_proc_mount),
    "seLinuxOptions": _Check(_se_linux),
    "seccompProfile_baseline": _Check(_seccomp, 19),
    "sysctls": _Check(_sysctls),
    "windowsHostProcess": _Check(_host_process),
}
_RESTRICTED: Final[dict[str, _Check]] = {
    "allowPrivilegeEscalation": _Check(_escalation, 8),
    "capabilities_restricted": _Check(_all_capabilities, 22, "capabilities_baseline"),
    "procMount_restricted": _Check(_any_proc_mount, 35, "procMount"),
    "restrictedVolumes": _Check(_volumes, 0, "hostPathVolumes"),
    "runAsNonRoot": _Check(_non_root),
    "runAsUser": _Check(_root_user, 23),
    "seccompProfile_restricted": _Check(_all_seccomp, 19, "seccompProfile_baseline"),
}
