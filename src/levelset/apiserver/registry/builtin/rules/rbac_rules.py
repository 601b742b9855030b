"""The rules of Roles, ClusterRoles and their bindings."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    dns_subdomain,
    fails,
    label_selector,
    one_of,
    path_segment_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Required, Table, always, required
from levelset.apiserver.resources.json_members import list_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["CLUSTER_ROLE", "CLUSTER_ROLE_BINDING", "ROLE", "ROLE_BINDING"]

GROUP: Final = "rbac.authorization.k8s.io"
SUBJECTS: Final = ("ServiceAccount", "User", "Group")
_NAMESPACED_PATHS: Final = "namespaced rules cannot apply to non-resource URLs"
_BOTH: Final = "rules cannot apply to both regular resources and non-resource URLs"


def _paths_of_cluster(rule: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Non-resource URLs exclude resources; a rule without them needs groups and resources."""
    paths = list_member(rule, "nonResourceURLs")
    if paths:
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            out.append(field_errors.invalid(f"{at}.nonResourceURLs", paths, _BOTH))
        return
    RESOURCE_RULE(rule, at, out, None)


def _paths_of_namespace(rule: Any, at: str, out: list[Cause], context: Any) -> None:
    if rule.get("nonResourceURLs"):
        out.append(field_errors.invalid(f"{at}.nonResourceURLs", rule["nonResourceURLs"], _NAMESPACED_PATHS))
    _paths_of_cluster(rule, at, out, context)


RESOURCE_RULE: Final = Table(
    ("apiGroups", Required("resource rules must supply at least one api group")),
    ("resources", Required("resource rules must supply at least one resource")),
)
_VERBS: Final = ("verbs", Required("verbs must contain at least one value"))
ROLE: Final = KindRules(rules=Table(("rules[*]", Table(_VERBS, ("", _paths_of_namespace))), root=True))


def _role_selector(value: Any, at: str, out: list[Cause], context: Any) -> None:
    before = len(out)
    label_selector(value, at, out, context)
    if len(out) > before:
        out.append(field_errors.invalid(at, None, "invalid label selector."))


AGGREGATION: Final = Table(
    ("clusterRoleSelectors", Required("at least one clusterRoleSelector required if aggregationRule is non-nil")),
    ("clusterRoleSelectors[*]", _role_selector),
)
CLUSTER_ROLE: Final = KindRules(
    rules=Table(
        ("rules[*]", Table(_VERBS, ("", _paths_of_cluster))),
        ("aggregationRule", AGGREGATION),
        root=True,
    )
)


def _kind(*kinds: str) -> Any:
    known = one_of(*kinds)

    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        if not known.is_valid(value or ""):
            known.report(value or "", at, out)

    return always(check)


def _reference(*kinds: str) -> Any:
    table = Table(("apiGroup", _kind(GROUP)), ("kind", _kind(*kinds)), ("name", required, fails(path_segment_problems)))
    return always(lambda value, at, out, context: table(value or {}, at, out, context))


def _subject(subject: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    if kind not in SUBJECTS:
        out.append(field_errors.not_supported(f"{at}.kind", kind, SUBJECTS))
        return
    if kind == "ServiceAccount" and name and not dns_subdomain.is_valid(name):
        dns_subdomain.report(name, f"{at}.name", out)
    group = "" if kind == "ServiceAccount" else GROUP
    if (subject.get("apiGroup") or "") != group:
        out.append(field_errors.not_supported(f"{at}.apiGroup", subject.get("apiGroup") or "", [group]))


def _has_namespace(subject: Any, at: str, out: list[Cause], _context: Any) -> None:
    if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
        out.append(field_errors.required(f"{at}.namespace"))


def _same_role(new: Any, _old: Any, at: str, out: list[Cause]) -> None:
    out.append(field_errors.invalid(at, new, "cannot change roleRef"))


_SUBJECT: Final = (("name", required), ("", _subject))
ROLE_BINDING: Final = KindRules(
    rules=Table(("roleRef", _reference("Role", "ClusterRole")), ("subjects[*]", Table(*_SUBJECT)), root=True),
    changes=(("roleRef", _same_role),),
)
CLUSTER_ROLE_BINDING: Final = KindRules(
    rules=Table(
        ("roleRef", _reference("ClusterRole")),
        ("subjects[*]", Table(*_SUBJECT, ("", _has_namespace))),
        root=True,
    ),
    changes=(("roleRef", _same_role),),
)
