"""Applies the Pod Security Standards that the labels of a namespace name, to Pods and to templates of Pods.

`enforce` refuses Pods, `warn` warns the client, and `audit` annotates the audit event; both of them also for kinds with
a template of Pods. Where Pods do not fit a level that a namespace begins to enforce, the client is warned.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from levelset.apiserver.admission.pod_security.standards import LATEST, Violation, violations
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import field_errors
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import Cause
from levelset.objects import decode_tree

__all__ = ["PodSecurity"]

_PREFIX: Final = "pod-security.kubernetes.io/"
_LABELS: Final = b"pod-security.kubernetes.io"
_LEVELS: Final = ("privileged", "baseline", "restricted")
_NAMESPACES: Final = "/registry/core/namespaces/"
_PODS: Final = "/registry/core/pods/"
# Where the templates of Pods are, by the storage prefix of their kinds.
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "/registry/core/podtemplates/": ("template",),
    "/registry/core/replicationcontrollers/": ("spec", "template"),
    **{
        f"/registry/apps/{plural}/": ("spec", "template")
        for plural in ("daemonsets", "deployments", "replicasets", "statefulsets")
    },
    "/registry/batch/jobs/": ("spec", "template"),
    "/registry/batch/cronjobs/": ("spec", "jobTemplate", "spec", "template"),
}
# Subresources that can change the containers of a Pod.
_CHANGING: Final = ("", "ephemeralcontainers", "resize")
_MAX_CHECKED_PODS: Final = 400
_MAX_CHECKED_BYTES: Final = 400_000
"""Of the Pods of a namespace whose level changes, on the event loop: some 60 µs for each kilobyte."""


class _Level(NamedTuple):
    """A level of the standards in a version, such as `baseline:latest`."""

    name: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    def check(self, metadata: Object, spec: Object) -> list[Violation]:
        """What the level forbids in a Pod."""
        minor = LATEST if self.version == "latest" else int(self.version.partition(".")[2])
        return violations(self.name, minor, metadata, spec)


class PodSecurity:
    """The pod security admission of a server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._levels: dict[str, dict[str, _Level]] = {}

    def start(self) -> None:
        """Reads the labels of the namespaces, follows their writes, and checks writes from then on."""
        self._state.add_resource_listener(_NAMESPACES, self._on_namespace)
        for item in self._state.reader.list_nowait(_NAMESPACES).items:
            if _LABELS in item.value:
                self._note(decode_tree(item.value))
        checks: dict[str, Callable[..., None]] = {_NAMESPACES: self._check_namespace, _PODS: self._check_pod}
        self._state.write_checks |= checks | dict.fromkeys(_TEMPLATES, self._check_template)

    def _on_namespace(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._note(after)
        elif before is not None:
            self._levels.pop(before["metadata"]["name"], None)

    def _note(self, namespace: Object) -> None:
        levels, _ = _levels_of(namespace)
        if any(one.name != "privileged" for one in levels.values()):
            self._levels[namespace["metadata"]["name"]] = levels
        else:
            self._levels.pop(namespace["metadata"]["name"], None)

    def _check_pod(self, served: ServedResource, new: Object, old: Object | None, options: WriteOptions) -> None:
        levels = self._levels.get(new["metadata"].get("namespace") or "")
        if levels is None or options.subresource not in _CHANGING:
            return
        if old is None or _images(new) != _images(old):
            problem = _evaluate(_Template(new["metadata"], new["spec"]), levels, options, enforce=True)
            if problem:
                raise status_errors.forbidden(served, new["metadata"].get("name", ""), problem)

    def _check_template(self, served: ServedResource, new: Object, old: Object | None, options: WriteOptions) -> None:
        levels = self._levels.get(new["metadata"].get("namespace") or "")
        if levels is None or options.subresource or (old is not None and old.get("spec") == new.get("spec")):
            return
        template = new
        for name in _TEMPLATES[served.prefix]:
            template = map_member(template, name)
        if template:
            found = _Template(map_member(template, "metadata"), map_member(template, "spec"))
            _evaluate(found, levels, options, enforce=False)

    def _check_namespace(self, served: ServedResource, new: Object, old: Object | None, options: WriteOptions) -> None:
        if options.subresource:
            return
        levels, causes = _levels_of(new)
        before, former_causes = ({}, []) if old is None else _levels_of(old)
        name = new["metadata"].get("name", "")
        if causes and causes != former_causes:
            raise status_errors.invalid(served, name, causes)
        if old is None or levels["enforce"] == before["enforce"] or levels["enforce"].name == "privileged":
            return
        is_relaxed = _LEVELS.index(levels["enforce"].name) <= _LEVELS.index(before["enforce"].name)
        if levels["enforce"].version != before["enforce"].version or not is_relaxed:
            options.warnings.extend(self._pod_warnings(name, levels["enforce"]))

    def _pod_warnings(self, namespace: str, level: _Level) -> list[str]:
        """Which Pods of a namespace do not fit a level, by what is wrong with them."""
        pods = self._state.catalog.find("", "v1", "pods")
        assert pods is not None  # built in
        first: dict[str, str] = {}
        counts: Counter[str] = Counter()
        page = self._state.reader.list_nowait(pods.prefix_in(namespace), limit=_MAX_CHECKED_PODS)
        checked = size = 0
        for item in page.items:
            size += len(item.value)
            if checked and size > _MAX_CHECKED_BYTES:
                break
            checked += 1
            pod = served_tree(pods, item)
            problem = ", ".join(one.reason for one in level.check(pod["metadata"], pod["spec"]))
            if problem:
                counts[problem] += 1
                first.setdefault(problem, pod["metadata"]["name"])
        lines = sorted(f"{first[problem]}{_others(count - 1)}: {problem}" for problem, count in counts.items())
        if lines:
            lines.insert(
                0, f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
            )
        total = len(page.items) + page.remaining
        if checked < total:  # as upstream, which stops after 3,000, or a second
            lines.insert(
                0, f"new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            )
        return lines


class _Template(NamedTuple):
    """The metadata and the spec of a Pod, or of a template of Pods."""

    metadata: Object
    spec: Object


def _evaluate(template: _Template, levels: dict[str, _Level], options: WriteOptions, *, enforce: bool) -> str:
    """Warns and annotates as the levels say; returns why a Pod must be refused, empty if it need not be."""
    found = {mode: _texts(level.check(*template)) for mode, level in levels.items()}
    if options.annotations is not None and enforce:
        options.annotations[f"{_PREFIX}enforce-policy"] = str(levels["enforce"])
    if options.annotations is not None and found["audit"]:
        text = f'would violate PodSecurity "{levels["audit"]}": {found["audit"]}'
        options.annotations[f"{_PREFIX}audit-violations"] = text
    if enforce and found["enforce"]:
        return f'violates PodSecurity "{levels["enforce"]}": {found["enforce"]}'
    if found["warn"]:
        warning = f'would violate PodSecurity "{levels["warn"]}": {found["warn"]}'
        options.warnings.extend([warning] if warning not in options.warnings else [])
    return ""


def _others(count: int) -> str:
    return "" if not count else f" (and {count} other pod{'' if count == 1 else 's'})"


def _texts(found: list[Violation]) -> str:
    return ", ".join(map(str, found))


def _images(pod: Object) -> list[Any]:
    groups = ("containers", "initContainers", "ephemeralContainers")
    return [[(one.get("name"), one.get("image")) for one in list_member(pod["spec"], group)] for group in groups]


def _levels_of(namespace: Object) -> tuple[dict[str, _Level], list[Cause]]:
    """The levels by mode, and the causes why labels are invalid; an invalid level is restricted, as upstream."""
    labels = map_member(namespace["metadata"], "labels")
    levels: dict[str, _Level] = {}
    causes: list[Cause] = []
    for mode in ("enforce", "audit", "warn"):
        name = labels.get(f"{_PREFIX}{mode}")
        version = labels.get(f"{_PREFIX}{mode}-version", "latest")
        if name is not None and name not in _LEVELS:
            field, detail = f"metadata.labels[{_PREFIX}{mode}]", f"must be one of {', '.join(_LEVELS)}"
            causes.append(field_errors.invalid(field, name, detail))
            name = "restricted" if mode == "enforce" else "privileged"
        if version != "latest" and re.fullmatch(r"v1\.(0|[1-9][0-9]*)", version) is None:
            field = f"metadata.labels[{_PREFIX}{mode}-version]"
            causes.append(field_errors.invalid(field, version, 'must be "latest" or "v1.x"'))
            version = "latest"
        levels[mode] = _Level(name or "privileged", version)
    return levels, causes
