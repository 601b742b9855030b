"""RBAC: decides what a user may do by the stored roles and bindings.

`RbacAuthorizer` indexes roles and bindings and is notified of a write before the writer gets its response, so a revoked
permission is gone for the next request. The grants of a user in a namespace are collected at the first request and
cached until any role or binding changes; a decision from the cache takes microseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from levelset.apiserver.authn.request_attributes import RequestAttributes, forbidden_error, quoted
from levelset.apiserver.authn.users import User
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree

__all__ = [
    "GROUP",
    "NO_GRANTS",
    "VERSION",
    "Binding",
    "Decision",
    "Grant",
    "Grants",
    "PolicyRule",
    "RbacAuthorizer",
    "read_rule",
]

GROUP: Final = "rbac.authorization.k8s.io"
VERSION: Final = "v1"
_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_MAX_CACHED_GRANTS: Final = 4096
_MAX_CACHED_DECISIONS: Final = 1024

_NamespacedName = tuple[str, str]
"""Namespace and name; the namespace of a cluster-scoped object is empty."""


class PolicyRule(msgspec.Struct, frozen=True):
    """One rule of a role: verbs on resources of API groups, or on non-resource URLs."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    """The `resourceNames`; empty means all objects."""
    paths: tuple[str, ...]
    tree: Tree
    """The rule as written in its role."""

    def covers(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule covers the verb and resource, without regard to `names`."""
        if not (verb in self.verbs or "*" in self.verbs) or not (group in self.groups or "*" in self.groups):
            return False
        resources = self.resources
        if "*" in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources

    def covers_path(self, verb: str, path: str) -> bool:
        """Whether the rule covers the verb and non-resource URL; a trailing star matches any suffix."""
        if not (verb in self.verbs or "*" in self.verbs):
            return False
        return any(one == path or (one.endswith("*") and path.startswith(one.rstrip("*"))) for one in self.paths)


class Grant(NamedTuple):
    """A rule with the binding that grants it."""

    rule: PolicyRule
    source: str
    """The binding as kube-apiserver describes it in the reason of a decision."""


class Grants:
    """All grants of a user in one namespace, or in the whole cluster.

    The decision about a verb and a resource is computed once and cached: True, False, or the allowed object names.
    """

    __slots__ = ("_decisions", "errors", "grants")

    def __init__(self, grants: Sequence[Grant] = (), errors: Sequence[str] = ()) -> None:
        self.grants = tuple(grants)
        self.errors = tuple(errors)
        """Bound roles that do not exist, as messages."""
        self._decisions: dict[tuple[str, str, str, str], bool | frozenset[str]] = {}

    def allows(self, attributes: RequestAttributes) -> bool:
        """Whether any rule allows the request."""
        if not attributes.resource:
            return any(one.rule.covers_path(attributes.verb, attributes.path) for one in self.grants)
        found = self.allowed_names(attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        return found if isinstance(found, bool) else attributes.name in found

    def allowed_names(self, verb: str, group: str, resource: str, subresource: str = "") -> bool | frozenset[str]:
        """The objects that the verb is allowed on: all (True), none (False), or those with these names."""
        key = (verb, group, resource, subresource)
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= _MAX_CACHED_DECISIONS:  # unknown resources must not grow the cache
                self._decisions.clear()
            found = self._decisions[key] = self._decide(key)
        return found

    def source(self, attributes: RequestAttributes) -> str:
        """The binding that allows the request; empty if none does."""
        for rule, source in self.grants:
            if not attributes.resource:
                if rule.covers_path(attributes.verb, attributes.path):
                    return source
            elif rule.covers(attributes.verb, attributes.group, attributes.resource, attributes.subresource) and (
                not rule.names or attributes.name in rule.names
            ):
                return source
        return ""

    def _decide(self, key: tuple[str, str, str, str]) -> bool | frozenset[str]:
        names: set[str] = set()
        for rule, _ in self.grants:
            if rule.covers(*key):
                if not rule.names:
                    return True
                names |= rule.names
        return frozenset(names) if names else False


NO_GRANTS: Final = Grants()


def read_rule(tree: Any) -> PolicyRule:
    """Reads a rule of a stored role; values of other types are ignored."""
    return PolicyRule(
        _strings(list_member(tree, "verbs")),
        _strings(list_member(tree, "apiGroups")),
        _strings(list_member(tree, "resources")),
        _strings(list_member(tree, "resourceNames")),
        tuple(one for one in list_member(tree, "nonResourceURLs") if isinstance(one, str)),
        tree,
    )


def _strings(found: Iterable[Any]) -> frozenset[str]:
    return frozenset([one for one in found if isinstance(one, str)])


class Binding(msgspec.Struct, frozen=True):
    """A RoleBinding or ClusterRoleBinding: the bound role and its subjects."""

    key: _NamespacedName
    kind: str
    """`Role` or `ClusterRole`."""
    role: str
    subjects: tuple[tuple[str, str], ...]
    """Users and groups as (kind, name); a service account is the user of its name."""


class Decision(NamedTuple):
    """Whether a request is allowed, with the reason if there is one."""

    allowed: bool
    reason: str = ""


class RbacAuthorizer:
    """Authorizes users by roles and bindings: denied unless a rule allows it; `system:masters` may do everything."""

    def __init__(self) -> None:
        self.cluster_roles: dict[str, Object] = {}
        """All stored ClusterRoles by name; shared, must not be modified."""
        self._roles: dict[_NamespacedName, Object] = {}
        self._rules: dict[_NamespacedName, tuple[PolicyRule, ...]] = {}
        """Those of roles that were needed so far: most of the default roles never are."""
        self._bindings: dict[_NamespacedName, Binding] = {}
        # By (namespace of the binding, kind and name of the subject).
        self._bound: dict[tuple[str, str, str], dict[_NamespacedName, Binding]] = {}
        # By (user name, groups, namespace); cleared by every write of a role or binding.
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}

    async def load(self, state: ServerState) -> None:
        """Loads the stored roles and bindings, and follows every write from then on."""
        for plurals, listener in ((_ROLES, self._role_stored), (_BINDINGS, self._binding_stored)):
            for plural in plurals:
                served = state.catalog.find(GROUP, VERSION, plural)
                assert served is not None  # built in
                state.add_resource_listener(served.prefix, listener)
                page = await state.storage.list(served.prefix)
                for item in page.items:
                    listener(served, None, served_tree(served, item))

    def allows(self, user: User, attributes: RequestAttributes) -> bool:
        """Whether the user may do it."""
        return user.is_master or self.grants(user, attributes.namespace).allows(attributes)

    def check(self, user: User, attributes: RequestAttributes) -> None:
        """Raises Forbidden if the user may not do it."""
        if not self.allows(user, attributes):
            raise forbidden_error(user, attributes, self.decide(user, attributes).reason)

    def decide(self, user: User, attributes: RequestAttributes) -> Decision:
        """As `allows`, with the reason as kube-apiserver words it."""
        if user.is_master:
            return Decision(True)
        found = self.grants(user, attributes.namespace)
        if found.allows(attributes):
            return Decision(True, f"RBAC: allowed by {found.source(attributes)}")
        return Decision(False, f"RBAC: {_joined(found.errors)}" if found.errors else "")

    def grants(self, user: User, namespace: str) -> Grants:
        """The grants of the user in a namespace, those of ClusterRoleBindings included."""
        key = (user.name, user.groups, namespace)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) >= _MAX_CACHED_GRANTS:
                self._grants.clear()
            found = self._grants[key] = self._collect(user, namespace)
        return found

    def rules(self, kind: str, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role; None if it does not exist."""
        key = ("" if kind == "ClusterRole" else namespace, name)
        found = self._rules.get(key)
        if found is None and key in self._roles:
            found = self._rules[key] = tuple(map(read_rule, list_member(self._roles[key], "rules")))
        return found

    def _collect(self, user: User, namespace: str) -> Grants:
        grants: list[Grant] = []
        errors: dict[str, None] = {}  # an ordered set
        for binding, subject in self._bindings_of(user, namespace):
            rules = self.rules(binding.kind, binding.key[0], binding.role)
            if rules is None:
                errors[f"{binding.kind.lower()}.{GROUP} {quoted(binding.role)} not found"] = None
                continue
            source = _describe(binding, subject)
            cluster = not binding.key[0]
            # Non-resource URLs are cluster-scoped: a RoleBinding cannot grant them.
            grants += [Grant(rule, source) for rule in rules if cluster or not rule.paths]
        return Grants(grants, tuple(errors))

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[Binding, tuple[str, str]]]:
        seen: set[_NamespacedName] = set()
        for scope in ("", namespace) if namespace else ("",):
            for subject in (("User", user.name), *(("Group", group) for group in user.groups)):
                for key, binding in self._bound.get((scope, *subject), {}).items():
                    if key not in seen:
                        seen.add(key)
                        yield binding, subject

    def _role_stored(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        self._grants.clear()
        tree = after or before or {}
        key = _key(tree)
        self._rules.pop(key, None)
        if after is None:
            self._roles.pop(key, None)
            self._remove_cluster_role(served, key[1])
        else:
            self._roles[key] = after
            if not served.namespaced:
                self.cluster_roles[key[1]] = after

    def _remove_cluster_role(self, served: ServedResource, name: str) -> None:
        if not served.namespaced:
            self.cluster_roles.pop(name, None)

    def _binding_stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        self._grants.clear()
        key = _key(after or before or {})
        former = self._bindings.pop(key, None)
        for subject in () if former is None else former.subjects:
            bound = self._bound.get((key[0], *subject), {})
            bound.pop(key, None)
            if not bound:
                self._bound.pop((key[0], *subject), None)
        if after is not None:
            binding = _read_binding(after, key)
            self._bindings[key] = binding
            for subject in binding.subjects:
                self._bound.setdefault((key[0], *subject), {})[key] = binding


def _key(tree: Object) -> _NamespacedName:
    metadata = map_member(tree, "metadata")
    return metadata.get("namespace") or "", metadata.get("name") or ""


def _read_binding(tree: Object, key: _NamespacedName) -> Binding:
    reference = map_member(tree, "roleRef")
    subjects = dict.fromkeys(_subjects(list_member(tree, "subjects"), key[0]))
    return Binding(key, str(reference.get("kind")), str(reference.get("name")), tuple(subjects))


def _subjects(found: Iterable[Object], namespace: str) -> Iterator[tuple[str, str]]:
    for one in found:
        kind, name = one.get("kind"), one.get("name")
        if kind in ("User", "Group") and isinstance(name, str):
            yield kind, name
        elif kind == "ServiceAccount":
            home = one.get("namespace") or namespace
            if home:
                yield "User", f"system:serviceaccount:{home}:{name}"


def _describe(binding: Binding, subject: tuple[str, str]) -> str:
    namespace, name = binding.key
    what = f"RoleBinding {quoted(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {quoted(name)}"
    kind, subject_name = subject
    if kind == "User" and subject_name.startswith("system:serviceaccount:"):
        home, _, account = subject_name.removeprefix("system:serviceaccount:").partition(":")
        kind, subject_name = "ServiceAccount", f"{account}/{home}"
    return f"{what} of {binding.kind} {quoted(binding.role)} to {kind} {quoted(subject_name)}"


def _joined(errors: tuple[str, ...]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
