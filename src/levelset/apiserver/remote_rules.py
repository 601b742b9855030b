"""What a webhook in a configuration is for: its rules, its selectors, and how it wants to be asked; pure.

A configuration is data of whoever wrote it; what is asked of it here never fails on a configuration that the server
has accepted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from levelset.apiserver.members import items, part
from levelset.apiserver.world import Tree
from levelset.errors import BadSelector
from levelset.objects import LabelSelector

__all__ = ["Condition", "RemoteWebhook", "Rule", "read_webhooks"]

_GROUP: Final = "admissionregistration.k8s.io"
_NAMESPACES: Final = ("", "v1", "namespaces")
_VERSIONS: Final = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which writes a webhook is for."""

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    operations: frozenset[str]
    scope: str

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str) -> bool:
        """Whether it is for this operation on this group, version and resource; the scope aside."""
        group, version, plural = place
        return (
            _holds(self.operations, operation)
            and _holds(self.groups, group)
            and _holds(self.versions, version)
            and self._names(plural, subresource)
        )

    def is_within(self, place: tuple[str, str, str], namespace: Any) -> bool:
        """Whether an object in this namespace (None: in none) is in the scope of the rule."""
        is_inside = bool(namespace) and place != _NAMESPACES  # a namespace counts as being in itself, and is not
        return self.scope not in ("Namespaced", "Cluster") or is_inside == (self.scope == "Namespaced")

    def _names(self, plural: str, subresource: str) -> bool:
        named = self.resources
        if not subresource:
            return any(one in named for one in ("*", "*/*", plural, f"{plural}/*"))
        return any(one in named for one in ("*/*", f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}"))


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression in CEL that must be true for the webhook to be asked."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWebhook:
    """One webhook of a configuration."""

    name: str
    configuration: str
    mutates: bool
    rules: tuple[Rule, ...]
    client: Mapping[str, Any]
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[Condition, ...]
    may_fail: bool
    reinvokes: bool
    exact: bool
    seconds: float
    version: str
    """The version of AdmissionReview that is sent."""
    has_effects: bool
    """Whether it may do something besides answering even in a dry run, so that it must not be asked then."""

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str) -> bool:
        """Whether some rule is for this; configurations of admission are nobody's business but their own."""
        if place[0] == _GROUP:
            return False
        return any(rule.matches(operation, place, subresource) for rule in self.rules)

    def wants(self, request: Tree, space: Tree | None) -> bool:
        """Whether its scopes and selectors pick the object of this request, in this namespace."""
        if self.exact and request["resource"] != request["requestResource"]:
            return False
        resource = request["resource"]
        place = (resource["group"], resource["version"], resource["resource"])
        subresource = request.get("subResource", "")
        in_scope = any(
            rule.is_within(place, request.get("namespace")) and rule.matches(request["operation"], place, subresource)
            for rule in self.rules
        )
        return in_scope and self._picks_namespace(request, place, space) and self._picks_object(request)

    def _picks_namespace(self, request: Tree, place: tuple[str, str, str], space: Tree | None) -> bool:
        if self.namespaces.is_everything or not request.get("namespace"):
            return True
        if place == _NAMESPACES and request["operation"] != "DELETE" and request.get("object"):
            space = request["object"]
        return self.namespaces.matches(_labels(space))

    def _picks_object(self, request: Tree) -> bool:
        if self.objects.is_everything:
            return True
        shown = (request.get("object"), request.get("oldObject"))
        return any(one is not None and self.objects.matches(_labels(one)) for one in shown)


def read_webhooks(configuration: Tree, *, mutates: bool) -> tuple[RemoteWebhook, ...]:
    """The webhooks of a configuration, in its order."""
    name = configuration["metadata"]["name"]
    return tuple(_read(one, name, mutates=mutates) for one in items(configuration, "webhooks"))


def _read(hook: Tree, configuration: str, *, mutates: bool) -> RemoteWebhook:
    return RemoteWebhook(
        name=str(hook.get("name", "")),
        configuration=configuration,
        mutates=mutates,
        rules=tuple(_rule(one) for one in items(hook, "rules")),
        client=part(hook, "clientConfig"),
        namespaces=_selector(hook.get("namespaceSelector")),
        objects=_selector(hook.get("objectSelector")),
        conditions=tuple(Condition(one["name"], one["expression"]) for one in items(hook, "matchConditions")),
        may_fail=hook.get("failurePolicy") == "Ignore",
        reinvokes=hook.get("reinvocationPolicy") == "IfNeeded",
        exact=hook.get("matchPolicy") == "Exact",
        seconds=float(hook.get("timeoutSeconds") or 10),
        version=next((one for one in hook.get("admissionReviewVersions") or () if one in _VERSIONS), "v1"),
        has_effects=hook.get("sideEffects") not in ("None", "NoneOnDryRun"),
    )


def _rule(tree: Tree) -> Rule:
    groups, versions, resources, operations = (
        frozenset(tree.get(word) or ()) for word in ("apiGroups", "apiVersions", "resources", "operations")
    )
    return Rule(groups, versions, resources, operations, str(tree.get("scope") or "*"))


def _selector(tree: Any) -> LabelSelector:
    try:
        return LabelSelector.from_tree(tree or {})
    except BadSelector:
        # It was refused when it was written, unless it was written by an older server: better asked than passed over.
        return LabelSelector.everything()


def _labels(tree: Any) -> Mapping[str, str]:
    return part(part(tree, "metadata"), "labels")


def _holds(named: Iterable[str], word: str) -> bool:
    return word in named or "*" in named
