"""What must hold of roles and bindings, told as Kubernetes tells it."""

from collections.abc import Iterator
from typing import Final

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadSelector, Cause
from levelset.objects import LabelSelector

__all__ = ["check_cluster_binding", "check_cluster_role", "check_role", "check_role_binding"]

GROUP: Final = "rbac.authorization.k8s.io"
SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def check_role(new: Object, _old: Object | None) -> list[Cause]:
    """A rule has verbs, and resources to use them on; paths are not for roles of a namespace."""
    return list(_check_rules(new, namespaced=True))


def check_cluster_role(new: Object, _old: Object | None) -> list[Cause]:
    """A rule has verbs, and resources or paths to use them on; an aggregation has selectors."""
    return [*_check_rules(new, namespaced=False), *_check_aggregation(new.get("aggregationRule"))]


def check_role_binding(new: Object, old: Object | None) -> list[Cause]:
    """A binding names a role, which stays the same, and subjects."""
    return [*_check_reference(new, old, ("Role", "ClusterRole")), *_check_subjects(new, namespaced=True)]


def check_cluster_binding(new: Object, old: Object | None) -> list[Cause]:
    """As a binding in a namespace, except that its role is a ClusterRole and its accounts say where they are."""
    return [*_check_reference(new, old, ("ClusterRole",)), *_check_subjects(new, namespaced=False)]


def _check_rules(tree: Object, *, namespaced: bool) -> Iterator[Cause]:
    for place, rule in enumerate(items(tree, "rules")):
        field = f"rules[{place}]"
        if not items(rule, "verbs"):
            yield field_errors.required(f"{field}.verbs", "verbs must contain at least one value")
        paths, groups, resources = items(rule, "nonResourceURLs"), items(rule, "apiGroups"), items(rule, "resources")
        if paths:
            yield from _check_paths(rule, f"{field}.nonResourceURLs", namespaced=namespaced)
            continue
        if not groups:
            yield field_errors.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
        if not resources:
            yield field_errors.required(f"{field}.resources", "resource rules must supply at least one resource")


def _check_paths(rule: Object, field: str, *, namespaced: bool) -> Iterator[Cause]:
    paths = rule["nonResourceURLs"]
    if namespaced:
        yield field_errors.invalid(field, paths, "namespaced rules cannot apply to non-resource URLs")
    if items(rule, "apiGroups") or items(rule, "resources") or items(rule, "resourceNames"):
        problem = "rules cannot apply to both regular resources and non-resource URLs"
        yield field_errors.invalid(field, paths, problem)


def _check_aggregation(rule: Object | None) -> Iterator[Cause]:
    if rule is None:
        return
    field = "aggregationRule.clusterRoleSelectors"
    selectors = items(rule, "clusterRoleSelectors")
    if not selectors:
        yield field_errors.required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for place, selector in enumerate(selectors):
        try:
            LabelSelector.from_tree(selector)
        except BadSelector as error:
            yield field_errors.invalid(f"{field}[{place}]", selector, str(error))


def _check_reference(new: Object, old: Object | None, kinds: tuple[str, ...]) -> Iterator[Cause]:
    reference = part(new, "roleRef")
    if old is not None and reference != part(old, "roleRef"):
        yield field_errors.invalid("roleRef", reference, "cannot change roleRef")
    if reference.get("apiGroup", GROUP) != GROUP:
        yield field_errors.not_supported("roleRef.apiGroup", reference["apiGroup"], [GROUP])
    if reference.get("kind") not in kinds:
        yield field_errors.not_supported("roleRef.kind", reference.get("kind") or "", kinds)
    name = reference.get("name") or ""
    if not name:
        yield field_errors.required("roleRef.name")
    elif name in (".", "..") or "/" in name or "%" in name:
        yield field_errors.invalid("roleRef.name", name, "may not be '.' or '..', nor contain '/' or '%'")


def _check_subjects(tree: Object, *, namespaced: bool) -> Iterator[Cause]:
    for place, subject in enumerate(items(tree, "subjects")):
        field, kind = f"subjects[{place}]", subject.get("kind") or ""
        if not subject.get("name"):
            yield field_errors.required(f"{field}.name")
        if kind not in SUBJECTS:
            yield field_errors.not_supported(f"{field}.kind", kind, SUBJECTS)
            continue
        group = "" if kind == "ServiceAccount" else GROUP
        if (subject.get("apiGroup") or "") != group:
            yield field_errors.not_supported(f"{field}.apiGroup", subject.get("apiGroup") or "", [group])
        if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
            yield field_errors.required(f"{field}.namespace")
