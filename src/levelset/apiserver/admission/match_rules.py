"""Which writes webhooks and policies are for: rules, selectors, and how exactly they are meant; pure.

What is read here is data of whoever wrote it; what is asked of it never fails on what the server has accepted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.server_state import Tree
from levelset.errors import BadSelector
from levelset.objects import LabelSelector

__all__ = ["MatchResources", "Place", "Rule", "place_of", "read_match", "read_rule", "read_selector"]

Place = tuple[str, str, str]
"""Group, version and resource."""

_NAMESPACES: Final = ("", "v1", "namespaces")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which writes it is about; without names, about objects of any name."""

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    operations: frozenset[str]
    scope: str
    names: frozenset[str] = frozenset()

    def matches(self, operation: str, place: Place, subresource: str) -> bool:
        """Whether it is for this operation on this group, version and resource; scope and names aside."""
        group, version, plural = place
        return (
            _holds(self.operations, operation)
            and _holds(self.groups, group)
            and _holds(self.versions, version)
            and self._names(plural, subresource)
        )

    def is_within(self, place: Place, namespace: Any, name: str = "") -> bool:
        """Whether an object of this name in this namespace (None: in none) is in the scope of the rule."""
        is_inside = bool(namespace) and place != _NAMESPACES  # a namespace counts as being in itself, and is not
        if self.scope in ("Namespaced", "Cluster") and is_inside != (self.scope == "Namespaced"):
            return False
        return not self.names or name in self.names

    def _names(self, plural: str, subresource: str) -> bool:
        named = self.resources
        if not subresource:
            return any(one in named for one in ("*", "*/*", plural, f"{plural}/*"))
        return any(one in named for one in ("*/*", f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}"))


@dataclass(frozen=True, slots=True)
class MatchResources:
    """Some rules, those that are excepted from them, and the labels that are asked for besides."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    namespaces: LabelSelector
    objects: LabelSelector
    exact: bool

    def matches(self, operation: str, place: Place, subresource: str) -> bool:
        """Whether some rule is for this, as far as it can be told without the object."""
        return any(rule.matches(operation, place, subresource) for rule in self.rules)

    def wants(self, request: Tree, space: Tree | None, others: Iterable[Place] = ()) -> bool:
        """Whether the write of this request, in this namespace, is one of those that are meant.

        `others` are the places where the same objects are served, too: what is excluded there is excluded here.
        """
        if self.exact and request["resource"] != request["requestResource"]:
            return False
        place = place_of(request["resource"])
        known = [place, place_of(request["requestResource"]), *(() if self.exact else others)]
        return (
            _covers(self.rules, request, [place])
            and not (self.excluded and _covers(self.excluded, request, known))
            and self.selects(request, space)
        )

    def covers(self, request: Tree, space: Tree | None, others: Iterable[Place] = ()) -> bool:
        """As `wants`, whichever version is shown; without any rules, all writes are meant."""
        places = [place_of(request["requestResource"]), *(() if self.exact else others)]
        return (
            (not self.rules or _covers(self.rules, request, places))
            and not (self.excluded and _covers(self.excluded, request, places))
            and self.selects(request, space)
        )

    def selects(self, request: Tree, space: Tree | None) -> bool:
        """Whether the labels of the namespace and of the object, before or after, are those that are asked for."""
        return self._picks_namespace(request, space) and self._picks_object(request)

    def _picks_namespace(self, request: Tree, space: Tree | None) -> bool:
        if self.namespaces.is_everything or not request.get("namespace"):
            return True
        is_space = place_of(request["resource"]) == _NAMESPACES
        if is_space and request["operation"] != "DELETE" and request.get("object"):
            space = request["object"]
        return self.namespaces.matches(_labels(space))

    def _picks_object(self, request: Tree) -> bool:
        if self.objects.is_everything:
            return True
        shown = (request.get("object"), request.get("oldObject"))
        return any(one is not None and self.objects.matches(_labels(one)) for one in shown)


def place_of(resource: Tree) -> Place:
    """The place that a request names: `{group, version, resource}`."""
    return resource["group"], resource["version"], resource["resource"]


def read_match(tree: Tree) -> MatchResources:
    """The `matchConstraints` of a policy, or the `matchResources` of a binding."""
    return MatchResources(
        rules=tuple(map(read_rule, items(tree, "resourceRules"))),
        excluded=tuple(map(read_rule, items(tree, "excludeResourceRules"))),
        namespaces=read_selector(tree.get("namespaceSelector")),
        objects=read_selector(tree.get("objectSelector")),
        exact=tree.get("matchPolicy") == "Exact",
    )


def read_rule(tree: Tree) -> Rule:
    """A rule as configurations of webhooks and policies write it."""
    groups, versions, resources, operations, names = (
        frozenset(tree.get(word) or ())
        for word in ("apiGroups", "apiVersions", "resources", "operations", "resourceNames")
    )
    return Rule(groups, versions, resources, operations, str(tree.get("scope") or "*"), names)


def read_selector(tree: Any) -> LabelSelector:
    """The selector, or everything if it is none."""
    try:
        return LabelSelector.from_tree(tree or {})
    except BadSelector:
        # It was refused when it was written, unless it was written by an older server: better asked than passed over.
        return LabelSelector.everything()


def _covers(rules: tuple[Rule, ...], request: Tree, places: Iterable[Place]) -> bool:
    operation, subresource = request["operation"], request.get("subResource", "")
    namespace, name = request.get("namespace"), request.get("name", "")
    return any(
        rule.is_within(place, namespace, name) and rule.matches(operation, place, subresource)
        for place in places
        for rule in rules
    )


def _labels(tree: Any) -> Mapping[str, str]:
    return part(part(tree, "metadata"), "labels")


def _holds(named: Iterable[str], word: str) -> bool:
    return word in named or "*" in named
