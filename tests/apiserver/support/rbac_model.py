"""A reference model of RBAC: every decision walks over all roles and bindings."""

from collections.abc import Iterator
from typing import Any

__all__ = ["Model"]


class Model:
    """Authorizes by the lists of the four RBAC kinds, as a client reads them."""

    def __init__(self, roles: list[Any], cluster_roles: list[Any], bindings: list[Any], cluster: list[Any]) -> None:
        self.roles = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in roles}
        self.cluster_roles = {one["metadata"]["name"]: one for one in cluster_roles}
        self.bindings = bindings
        self.cluster = cluster

    def allows(self, user: str, groups: list[str], wanted: dict[str, str]) -> bool:
        """`wanted` has verb, and path or group, resource (with its subresource), namespace and name."""
        return any(self._fits(rule, wanted) for rule in self._rules(user, groups, wanted))

    def _rules(self, user: str, groups: list[str], wanted: dict[str, str]) -> Iterator[Any]:
        for one in self.cluster:
            if self._is_subject(one, user, groups, ""):
                yield from self.cluster_roles.get(one["roleRef"]["name"], {}).get("rules") or []
        for one in self.bindings:
            home = one["metadata"]["namespace"]
            if "path" not in wanted and home == wanted["namespace"] and self._is_subject(one, user, groups, home):
                reference = one["roleRef"]
                if reference["kind"] == "Role":
                    yield from self.roles.get((home, reference["name"]), {}).get("rules") or []
                else:
                    yield from self.cluster_roles.get(reference["name"], {}).get("rules") or []

    def _is_subject(self, binding: Any, user: str, groups: list[str], home: str) -> bool:
        for one in binding.get("subjects") or []:
            if one["kind"] == "User" and one["name"] == user:
                return True
            if one["kind"] == "Group" and one["name"] in groups:
                return True
            account = f"system:serviceaccount:{one.get('namespace') or home}:{one['name']}"
            if one["kind"] == "ServiceAccount" and account == user:
                return True
        return False

    def _fits(self, rule: Any, wanted: dict[str, str]) -> bool:
        if not _has(rule, "verbs", wanted["verb"]):
            return False
        if "path" in wanted:
            path = wanted["path"]
            urls = rule.get("nonResourceURLs") or []
            return any(url == path or (url[-1:] == "*" and path.startswith(url[:-1])) for url in urls)
        if not _has(rule, "apiGroups", wanted["group"]):
            return False
        _, slash, part = wanted["resource"].partition("/")
        if not _has(rule, "resources", wanted["resource"]) and not (slash and f"*/{part}" in rule["resources"]):
            return False
        names = rule.get("resourceNames") or []
        return not names or wanted["name"] in names


def _has(rule: Any, word: str, value: str) -> bool:
    found = rule.get(word) or []
    return value in found or "*" in found
