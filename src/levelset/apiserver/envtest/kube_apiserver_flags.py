"""The flags of kube-apiserver, as envtest and its users give them: what they mean for this server. Pure.

There are three sorts: those that this server follows (`FOLLOWED`), those that have no effect here and are named on
stderr (`NO_EFFECT`), and unknown ones, which are an error as in kube-apiserver.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from levelset.errors import ConfigError

__all__ = ["FOLLOWED", "NO_EFFECT", "PLUGINS", "ServerFlags", "help_text", "parse_flags"]

FOLLOWED: Final = {
    "allow-privileged": "privileged containers are allowed in any case",
    "anonymous-auth": "whether requests without credentials are those of system:anonymous (true)",
    "audit-log-path": "the file for the audit log, - for standard output",
    "authorization-mode": "RBAC, which is also used in place of any other",
    "bind-address": "the address to listen on (127.0.0.1)",
    "cert-dir": "where apiserver.crt and apiserver.key are; created if missing",
    "client-ca-file": "the authority of client certificates: their CN is the user, their O the groups",
    "disable-admission-plugins": "ServiceAccount; all others are always on",
    "enable-admission-plugins": "plugins of Kubernetes that are always on here",
    "etcd-servers": "ignored: the objects are in the memory of this process",
    "help": "prints the flags",
    "secure-port": "the port to listen on (6443)",
    "service-account-issuer": "ignored: tokens are issued by https://kubernetes.default.svc",
    "service-account-key-file": "ignored: tokens are signed with a key of this process",
    "service-account-signing-key-file": "ignored, as above",
    "service-cluster-ip-range": "the range of ClusterIPs",
    "tls-cert-file": "the serving certificate, in place of that in --cert-dir",
    "tls-private-key-file": "its key",
    "token-auth-file": 'static tokens: token,user,uid,"group1,group2"',
    "version": "prints the version",
}
"""The flags that mean something here, and what."""

_NAMES: Final = """
admission-control admission-control-config-file advertise-address aggregator-reject-forwarding-redirect
allow-metric-labels allow-metric-labels-manifest api-audiences apiserver-count audit-log-batch-buffer-size
audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-burst audit-log-batch-throttle-enable
audit-log-batch-throttle-qps audit-log-compress audit-log-format audit-log-maxage audit-log-maxbackup
audit-log-maxsize audit-log-mode audit-log-truncate-enabled audit-log-truncate-max-batch-size
audit-log-truncate-max-event-size audit-log-version audit-policy-file audit-webhook-batch-buffer-size
audit-webhook-batch-max-size audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst
audit-webhook-batch-throttle-enable audit-webhook-batch-throttle-qps audit-webhook-config-file
audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled
audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
authentication-config authentication-token-webhook-cache-ttl authentication-token-webhook-config-file
authentication-token-webhook-version authorization-config authorization-policy-file
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
authorization-webhook-config-file authorization-webhook-version contention-profiling
coordinated-leadership-lease-duration coordinated-leadership-renew-deadline coordinated-leadership-retry-period
cors-allowed-origins debug-socket-path default-not-ready-toleration-seconds default-unreachable-toleration-seconds
default-watch-cache-size delete-collection-workers disable-http2-serving disabled-metrics
egress-selector-config-file emulated-version emulation-forward-compatible enable-aggregator-routing
enable-bootstrap-token-auth enable-garbage-collector enable-logs-handler enable-priority-and-fairness
encryption-provider-config encryption-provider-config-automatic-reload endpoint-reconciler-type etcd-cafile
etcd-certfile etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval
etcd-healthcheck-timeout etcd-keyfile etcd-prefix etcd-readycheck-timeout etcd-servers-overrides event-ttl
external-hostname feature-gates goaway-chance http2-max-streams-per-connection kubelet-certificate-authority
kubelet-client-certificate kubelet-client-key kubelet-port kubelet-preferred-address-types kubelet-read-only-port
kubelet-timeout kubernetes-service-node-port lease-reuse-duration-seconds livez-grace-period log-flush-frequency
log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format
max-connection-bytes-per-sec max-mutating-requests-inflight max-requests-inflight min-compatibility-version
min-request-timeout oidc-ca-file oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url
oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix peer-advertise-ip peer-advertise-port
peer-ca-file permit-address-sharing permit-port-sharing profiling proxy-client-cert-file proxy-client-key-file
request-timeout requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix
requestheader-group-headers requestheader-uid-headers requestheader-username-headers runtime-config
runtime-config-emulation-forward-compatible service-account-extend-token-expiration service-account-jwks-uri
service-account-lookup service-account-max-token-expiration service-account-signing-endpoint service-node-port-range
show-hidden-metrics-for-version shutdown-delay-duration shutdown-send-retry-after
shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout storage-media-type
strict-transport-security-directives tls-cipher-suites tls-curve-preferences tls-min-version tls-sni-cert-key
tracing-config-file v vmodule watch-cache watch-cache-sizes
"""
NO_EFFECT: Final = frozenset(_NAMES.split())
"""The other flags of kube-apiserver 1.36, which are accepted and have no effect here."""

_SWITCHES: Final = frozenset({"allow-privileged", "anonymous-auth", "help"})
PLUGINS: Final = frozenset(
    {
        *("DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceLifecycle", "PodSecurity", "Priority"),
        *("ResourceQuota", "ServiceAccount", "StorageObjectInUseProtection"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"),
    }
)
"""The admission plugins of kube-apiserver whose work this server does."""


class ServerFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What the flags of kube-apiserver ask of this server."""

    host: str = "127.0.0.1"
    port: int = 6443
    certificate: Path
    key: Path
    client_authority: Path | None = None
    """The authorities of client certificates; None if they are not accepted."""
    tokens: Path | None = None
    anonymous: bool = True
    service_range: str = "10.0.0.0/24"
    service_accounts: bool = True
    """Whether Pods are admitted by their ServiceAccount."""
    audit_log: str | None = None
    notes: tuple[str, ...] = ()
    """What was given and has no effect, one sentence each."""


class _Given(NamedTuple):
    name: str
    value: str


def parse_flags(arguments: Sequence[str]) -> ServerFlags:
    """What the arguments of kube-apiserver mean; raises ConfigError that names the flag."""
    given = list(_split(arguments))
    found = {one.name: one.value for one in given}  # the last one counts, as upstream
    place = found.get("cert-dir") or "/var/run/kubernetes"
    certificate = found.get("tls-cert-file") or f"{place}/apiserver.crt"
    key = found.get("tls-private-key-file") or f"{place}/apiserver.key"
    if bool(found.get("tls-cert-file")) != bool(found.get("tls-private-key-file")):
        raise ConfigError("--tls-cert-file and --tls-private-key-file go together: give both, or neither.")
    disabled = _names(found.get("disable-admission-plugins", ""))
    return ServerFlags(
        host=_host(found.get("bind-address") or "127.0.0.1"),
        port=_port(found.get("secure-port") or "6443"),
        certificate=Path(certificate),
        key=Path(key),
        client_authority=_path(found.get("client-ca-file")),
        tokens=_path(found.get("token-auth-file")),
        anonymous=_switch("anonymous-auth", found.get("anonymous-auth", "true")),
        service_range=found.get("service-cluster-ip-range") or "10.0.0.0/24",
        service_accounts="ServiceAccount" not in disabled,
        audit_log=found.get("audit-log-path") or None,
        notes=tuple(_notes(given, found, disabled)),
    )


def help_text() -> str:
    """What `kube-apiserver --help` prints; envtest reads in it which flags there are."""
    lines = ["The API server of levelset in place of kube-apiserver, for envtest.", "", "Flags:"]
    lines += [f"      --{name:<34} {text}" for name, text in FOLLOWED.items()]
    lines += ["", "Flags without effect:", *(f"      --{name}" for name in sorted(NO_EFFECT))]
    return "\n".join(lines) + "\n"


def _split(arguments: Sequence[str]) -> Iterator[_Given]:
    """The flags with their values; raises ConfigError for anything else."""
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise ConfigError(f"unknown argument: {word!r}; kube-apiserver has only flags, such as --secure-port=6443")
        if name not in FOLLOWED and name not in NO_EFFECT:
            raise ConfigError(f"unknown flag: --{name}; see --help for those that there are")
        if not equals:
            is_alone = name in _SWITCHES or not rest or rest[0].startswith("--")
            value = "true" if is_alone else rest.pop(0)
        yield _Given(name, value)


def _notes(given: list[_Given], found: dict[str, str], disabled: list[str]) -> Iterator[str]:
    idle = sorted({one.name for one in given if one.name in NO_EFFECT})
    if idle:
        yield f"without effect here: {', '.join(f'--{name}' for name in idle)}"
    other = [one for one in disabled if one != "ServiceAccount"]
    if other:
        yield f"--disable-admission-plugins: {', '.join(other)} cannot be switched off"
    missing = [one for one in _names(found.get("enable-admission-plugins", "")) if one not in PLUGINS]
    if missing:
        yield f"--enable-admission-plugins: there is no {', '.join(missing)}"
    modes = [one for one in _names(found.get("authorization-mode", "RBAC")) if one not in ("RBAC", "Node")]
    if modes:
        yield f"--authorization-mode: RBAC is used in place of {', '.join(modes)}"


def _names(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _host(text: str) -> str:
    return "127.0.0.1" if text == "localhost" else text


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 65536:
        raise ConfigError(f"--secure-port: {text!r} is not a port: give a number from 1 to 65535")
    return int(text)


def _switch(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false", "t", "f", "1", "0"):
        raise ConfigError(f"--{name}: {text!r} is not a boolean: give true or false")
    return text.lower() in ("true", "t", "1")
