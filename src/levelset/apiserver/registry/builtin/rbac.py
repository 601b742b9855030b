"""Validation of roles and bindings, with the messages of kube-apiserver."""

from collections.abc import Iterator
from typing import Final

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadSelector, Cause
from levelset.objects import LabelSelector

__all__ = ["check_cluster_role", "check_cluster_role_binding", "check_role", "check_role_binding"]

GROUP: Final = "rbac.authorization.k8s.io"
SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def check_role(new: Object, _old: Object | None) -> list[Cause]:
    """Validates a Role: its rules have verbs, groups and resources, and no non-resource URLs."""
    return list(_check_rules(new, namespaced=True))


def check_cluster_role(new: Object, _old: Object | None) -> list[Cause]:
    """Validates a ClusterRole: its rules may have non-resource URLs; an aggregation rule has selectors."""
    return [*_check_rules(new, namespaced=False), *_check_aggregation(new.get("aggregationRule"))]


def check_role_binding(new: Object, old: Object | None) -> list[Cause]:
    """Validates a RoleBinding: its roleRef is valid and does not change, and its subjects are complete."""
    return [*_check_reference(new, old, ("Role", "ClusterRole")), *_check_subjects(new, namespaced=True)]


def check_cluster_role_binding(new: Object, old: Object | None) -> list[Cause]:
    """Validates a ClusterRoleBinding: it binds a ClusterRole, and its service accounts have a namespace."""
    return [*_check_reference(new, old, ("ClusterRole",)), *_check_subjects(new, namespaced=False)]


def _check_rules(tree: Object, *, namespaced: bool) -> Iterator[Cause]:
    for index, rule in enumerate(list_member(tree, "rules")):
        field = f"rules[{index}]"
        if not list_member(rule, "verbs"):
            yield field_errors.required(f"{field}.verbs", "verbs must contain at least one value")
        paths, groups, resources = (
            list_member(rule, "nonResourceURLs"),
            list_member(rule, "apiGroups"),
            list_member(rule, "resources"),
        )
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
    if list_member(rule, "apiGroups") or list_member(rule, "resources") or list_member(rule, "resourceNames"):
        problem = "rules cannot apply to both regular resources and non-resource URLs"
        yield field_errors.invalid(field, paths, problem)


def _check_aggregation(rule: Object | None) -> Iterator[Cause]:
    if rule is None:
        return
    field = "aggregationRule.clusterRoleSelectors"
    selectors = list_member(rule, "clusterRoleSelectors")
    if not selectors:
        yield field_errors.required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        try:
            LabelSelector.from_tree(selector)
        except BadSelector as error:
            yield field_errors.invalid(f"{field}[{index}]", selector, str(error))


def _check_reference(new: Object, old: Object | None, kinds: tuple[str, ...]) -> Iterator[Cause]:
    reference = map_member(new, "roleRef")
    if old is not None and reference != map_member(old, "roleRef"):
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
    for index, subject in enumerate(list_member(tree, "subjects")):
        field, kind = f"subjects[{index}]", subject.get("kind") or ""
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
