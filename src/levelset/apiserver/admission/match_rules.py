"""Match rules of webhooks and policies: which writes their rules, selectors and match policy select. Pure.

The trees were validated when they were stored; nothing here fails on them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.server_state import Tree
from levelset.errors import BadSelector
from levelset.objects import LabelSelector

__all__ = [
    "GroupVersionResource",
    "MatchResources",
    "RuleWithOperations",
    "gvr_of",
    "read_match_resources",
    "read_rule",
    "read_selector",
]

GroupVersionResource = tuple[str, str, str]
"""Group, version and resource."""

_NAMESPACES: Final = ("", "v1", "namespaces")


class RuleWithOperations(msgspec.Struct, frozen=True):
    """The operations and resources that a rule matches; without names, objects of any name."""

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    operations: frozenset[str]
    scope: str
    names: frozenset[str] = frozenset()

    def matches(self, operation: str, resource: GroupVersionResource, subresource: str) -> bool:
        """Whether the rule matches the operation on this resource, without regard to scope and names."""
        group, version, plural = resource
        return (
            _contains(self.operations, operation)
            and _contains(self.groups, group)
            and _contains(self.versions, version)
            and self._matches_resource(plural, subresource)
        )

    def is_within(self, resource: GroupVersionResource, namespace: Any, name: str = "") -> bool:
        """Whether the rule's scope and names match an object of this name, in this namespace if it has one."""
        # A review of a Namespace carries its own name as its namespace, but the object is cluster-scoped.
        is_namespaced = bool(namespace) and resource != _NAMESPACES
        if self.scope in ("Namespaced", "Cluster") and is_namespaced != (self.scope == "Namespaced"):
            return False
        return not self.names or name in self.names

    def _matches_resource(self, plural: str, subresource: str) -> bool:
        named = self.resources
        if not subresource:
            return any(one in named for one in ("*", "*/*", plural, f"{plural}/*"))
        return any(one in named for one in ("*/*", f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}"))


class MatchResources(msgspec.Struct, frozen=True):
    """The `matchConstraints` of a policy, the `matchResources` of a binding, or the rules of a webhook."""

    rules: tuple[RuleWithOperations, ...]
    excluded: tuple[RuleWithOperations, ...]
    namespaces: LabelSelector
    objects: LabelSelector
    exact: bool

    def matches(self, operation: str, resource: GroupVersionResource, subresource: str) -> bool:
        """Whether a rule matches the operation on this resource; scope, names and selectors need the object."""
        return any(rule.matches(operation, resource, subresource) for rule in self.rules)

    def matches_request(
        self, request: Tree, namespace: Tree | None, equivalents: Iterable[GroupVersionResource] = ()
    ) -> bool:
        """Whether the write of this review request, in this Namespace, is selected.

        `equivalents` are other resources that serve the same objects: what is excluded there is excluded here.
        """
        if self.exact and request["resource"] != request["requestResource"]:
            return False
        resource = gvr_of(request["resource"])
        excludable = [resource, gvr_of(request["requestResource"]), *(() if self.exact else equivalents)]
        return (
            _any_matches(self.rules, request, [resource])
            and not (self.excluded and _any_matches(self.excluded, request, excludable))
            and self.selects(request, namespace)
        )

    def matches_any_version(
        self, request: Tree, namespace: Tree | None, equivalents: Iterable[GroupVersionResource] = ()
    ) -> bool:
        """As `matches_request`, whatever version the objects are given in; without rules, all writes are selected."""
        resources = [gvr_of(request["requestResource"]), *(() if self.exact else equivalents)]
        return (
            (not self.rules or _any_matches(self.rules, request, resources))
            and not (self.excluded and _any_matches(self.excluded, request, resources))
            and self.selects(request, namespace)
        )

    def selects(self, request: Tree, namespace: Tree | None) -> bool:
        """Whether the selectors match the labels of the namespace, and of the old or the new object."""
        return self._selects_namespace(request, namespace) and self._selects_object(request)

    def _selects_namespace(self, request: Tree, namespace: Tree | None) -> bool:
        if self.namespaces.is_everything or not request.get("namespace"):
            return True
        is_namespace = gvr_of(request["resource"]) == _NAMESPACES
        if is_namespace and request["operation"] != "DELETE" and request.get("object"):
            namespace = request["object"]
        return self.namespaces.matches(_labels(namespace))

    def _selects_object(self, request: Tree) -> bool:
        if self.objects.is_everything:
            return True
        objects = (request.get("object"), request.get("oldObject"))
        return any(one is not None and self.objects.matches(_labels(one)) for one in objects)


def gvr_of(resource: Tree) -> GroupVersionResource:
    """Group, version and resource of the `resource` of a review request."""
    return resource["group"], resource["version"], resource["resource"]


def read_match_resources(tree: Tree) -> MatchResources:
    """Reads `matchConstraints` or `matchResources`."""
    return MatchResources(
        rules=tuple(map(read_rule, list_member(tree, "resourceRules"))),
        excluded=tuple(map(read_rule, list_member(tree, "excludeResourceRules"))),
        namespaces=read_selector(tree.get("namespaceSelector")),
        objects=read_selector(tree.get("objectSelector")),
        exact=tree.get("matchPolicy") == "Exact",
    )


def read_rule(tree: Tree) -> RuleWithOperations:
    """Reads a rule of a webhook or a policy."""
    groups, versions, resources, operations, names = (
        frozenset(tree.get(word) or ())
        for word in ("apiGroups", "apiVersions", "resources", "operations", "resourceNames")
    )
    return RuleWithOperations(groups, versions, resources, operations, str(tree.get("scope") or "*"), names)


def read_selector(tree: Any) -> LabelSelector:
    """Reads a label selector; an invalid one selects everything."""
    try:
        return LabelSelector.from_tree(tree or {})
    except BadSelector:
        # Only an older server can have stored it: calling the plugin too often is safer than bypassing it.
        return LabelSelector.everything()


def _any_matches(
    rules: tuple[RuleWithOperations, ...], request: Tree, resources: Iterable[GroupVersionResource]
) -> bool:
    operation, subresource = request["operation"], request.get("subResource", "")
    namespace, name = request.get("namespace"), request.get("name", "")
    return any(
        rule.is_within(resource, namespace, name) and rule.matches(operation, resource, subresource)
        for resource in resources
        for rule in rules
    )


def _labels(tree: Any) -> Mapping[str, str]:
    return map_member(map_member(tree, "metadata"), "labels")


def _contains(named: Iterable[str], word: str) -> bool:
    return word in named or "*" in named
