"""Who may do what: roles and bindings as they are stored, in an index that every committed write keeps up to date.

The index hears of a write before the writer has its answer, so that a right that was taken away is gone for the next
request. What a caller may do in a place is put together when it is first asked for, and forgotten with the next change
of any role or binding.

What some rules allow: pure sets, made once for a caller and a place, and asked in microseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from levelset.apiserver.authn.request_attributes import Attempt, forbidden_attempt, quoted
from levelset.apiserver.authn.users import Caller
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import Tree, World

__all__ = ["GROUP", "NOTHING", "VERSION", "Binding", "Decision", "Grant", "Grants", "Rbac", "Rule", "read_rule"]

_MOST_DECISIONS: Final = 1024


class Rule(msgspec.Struct, frozen=True):
    """One rule of a role: these verbs on these resources of these groups, or on these paths."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    """The only objects that are meant; all if it is empty."""
    paths: tuple[str, ...]
    tree: Tree
    """The rule as it is written in its role."""

    def covers(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether it is about this verb and resource, whatever the name."""
        if not (verb in self.verbs or "*" in self.verbs) or not (group in self.groups or "*" in self.groups):
            return False
        resources = self.resources
        if "*" in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources

    def covers_path(self, verb: str, path: str) -> bool:
        """Whether it is about this verb and path; a star at the end of a path stands for whatever follows."""
        if not (verb in self.verbs or "*" in self.verbs):
            return False
        return any(one == path or (one.endswith("*") and path.startswith(one.rstrip("*"))) for one in self.paths)


class Grant(NamedTuple):
    """A rule, and the binding that gives it to somebody."""

    rule: Rule
    source: str


class Grants:
    """All that somebody may do in one namespace, or in the whole cluster.

    What the rules say about a verb and a resource is worked out once and kept: True, False, or the names it is for.
    """

    __slots__ = ("_known", "grants", "problems")

    def __init__(self, grants: Sequence[Grant] = (), problems: Sequence[str] = ()) -> None:
        self.grants = tuple(grants)
        self.problems = tuple(problems)
        """What was bound and could not be found, in words."""
        self._known: dict[tuple[str, str, str, str], bool | frozenset[str]] = {}

    def allows(self, attempt: Attempt) -> bool:
        """Whether any rule allows it."""
        if not attempt.resource:
            return any(one.rule.covers_path(attempt.verb, attempt.path) for one in self.grants)
        found = self.names(attempt.verb, attempt.group, attempt.resource, attempt.subresource)
        return found if isinstance(found, bool) else attempt.name in found

    def names(self, verb: str, group: str, resource: str, subresource: str = "") -> bool | frozenset[str]:
        """Which objects the verb may be used on: all (True), none (False), or these."""
        key = (verb, group, resource, subresource)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_DECISIONS:  # somebody asks about made-up resources
                self._known.clear()
            found = self._known[key] = self._work_out(key)
        return found

    def source(self, attempt: Attempt) -> str:
        """The binding that allows it; an empty text if none does."""
        for rule, source in self.grants:
            if not attempt.resource:
                if rule.covers_path(attempt.verb, attempt.path):
                    return source
            elif rule.covers(attempt.verb, attempt.group, attempt.resource, attempt.subresource) and (
                not rule.names or attempt.name in rule.names
            ):
                return source
        return ""

    def _work_out(self, key: tuple[str, str, str, str]) -> bool | frozenset[str]:
        names: set[str] = set()
        for rule, _ in self.grants:
            if rule.covers(*key):
                if not rule.names:
                    return True
                names |= rule.names
        return frozenset(names) if names else False


NOTHING: Final = Grants()


def read_rule(tree: Any) -> Rule:
    """The rule in a role, which was checked when it was stored."""
    return Rule(
        _texts(items(tree, "verbs")),
        _texts(items(tree, "apiGroups")),
        _texts(items(tree, "resources")),
        _texts(items(tree, "resourceNames")),
        tuple(one for one in items(tree, "nonResourceURLs") if isinstance(one, str)),
        tree,
    )


def _texts(found: Iterable[Any]) -> frozenset[str]:
    return frozenset(one for one in found if isinstance(one, str))


GROUP: Final = "rbac.authorization.k8s.io"
VERSION: Final = "v1"
_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_MOST_GRANTS: Final = 4096

_Place = tuple[str, str]
"""Namespace and name; the namespace of what belongs to the whole cluster is empty."""


class Binding(msgspec.Struct, frozen=True):
    """A binding as far as it matters: which role it gives, where, and to whom."""

    place: _Place
    kind: str
    """`Role` or `ClusterRole`."""
    role: str
    subjects: tuple[tuple[str, str], ...]
    """Users and groups; a service account is the user of its name."""


class Decision(NamedTuple):
    """Whether something is allowed, and why (or why perhaps not)."""

    allowed: bool
    reason: str = ""


class Rbac:
    """Decides by roles and bindings; deny unless some rule allows. Members of `system:masters` may do everything."""

    def __init__(self) -> None:
        self.cluster_roles: dict[str, Object] = {}
        """All ClusterRoles by name, as they are stored: look, do not touch."""
        self._rules: dict[_Place, tuple[Rule, ...]] = {}
        self._bindings: dict[_Place, Binding] = {}
        self._bound: dict[tuple[str, str, str], dict[_Place, Binding]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}

    async def load(self, world: World) -> None:
        """Takes in what is stored, and from then on follows every write."""
        for plurals, listener in ((_ROLES, self._role_stored), (_BINDINGS, self._binding_stored)):
            for plural in plurals:
                served = world.catalog.find(GROUP, VERSION, plural)
                assert served is not None  # built in
                world.follow(served.prefix, listener)
                page = await world.storage.list(served.prefix)
                for item in page.items:
                    listener(served, None, served_tree(served, item))

    def allows(self, caller: Caller, attempt: Attempt) -> bool:
        """Whether the caller may do it."""
        return caller.is_master or self.grants(caller, attempt.namespace).allows(attempt)

    def check(self, caller: Caller, attempt: Attempt) -> None:
        """Raises Forbidden if the caller may not do it."""
        if not self.allows(caller, attempt):
            raise forbidden_attempt(caller, attempt, self.decide(caller, attempt).reason)

    def decide(self, caller: Caller, attempt: Attempt) -> Decision:
        """As `allows`, with the reason."""
        if caller.is_master:
            return Decision(True, "members of system:masters may do everything")
        found = self.grants(caller, attempt.namespace)
        if found.allows(attempt):
            return Decision(True, f"RBAC: allowed by {found.source(attempt)}")
        return Decision(False, f"RBAC: {_joined(found.problems)}" if found.problems else "")

    def grants(self, caller: Caller, namespace: str) -> Grants:
        """All that bindings give the caller there; what is given in the whole cluster counts everywhere."""
        key = (caller.name, caller.groups, namespace)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) >= _MOST_GRANTS:
                self._grants.clear()
            found = self._grants[key] = self._collect(caller, namespace)
        return found

    def rules(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a role; None if there is no such role."""
        return self._rules.get(("" if kind == "ClusterRole" else namespace, name))

    def _collect(self, caller: Caller, namespace: str) -> Grants:
        grants: list[Grant] = []
        problems: dict[str, None] = {}
        for binding, subject in self._bindings_of(caller, namespace):
            rules = self.rules(binding.kind, binding.place[0], binding.role)
            if rules is None:
                problems[f"{binding.kind.lower()}.{GROUP} {quoted(binding.role)} not found"] = None
                continue
            source = _described(binding, subject)
            cluster = not binding.place[0]
            # Paths belong to the whole cluster: a binding in a namespace cannot give them.
            grants += [Grant(rule, source) for rule in rules if cluster or not rule.paths]
        return Grants(grants, tuple(problems))

    def _bindings_of(self, caller: Caller, namespace: str) -> Iterator[tuple[Binding, tuple[str, str]]]:
        seen: set[_Place] = set()
        for place in ("", namespace) if namespace else ("",):
            for subject in (("User", caller.name), *(("Group", group) for group in caller.groups)):
                for key, binding in self._bound.get((place, *subject), {}).items():
                    if key not in seen:
                        seen.add(key)
                        yield binding, subject

    def _role_stored(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        self._grants.clear()
        tree = after or before or {}
        place = _place(tree)
        if after is None:
            self._rules.pop(place, None)
            self._forget_cluster_role(served, place[1])
        else:
            self._rules[place] = tuple(map(read_rule, items(after, "rules")))
            if not served.namespaced:
                self.cluster_roles[place[1]] = after

    def _forget_cluster_role(self, served: ServedResource, name: str) -> None:
        if not served.namespaced:
            self.cluster_roles.pop(name, None)

    def _binding_stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        self._grants.clear()
        place = _place(after or before or {})
        former = self._bindings.pop(place, None)
        for subject in () if former is None else former.subjects:
            bound = self._bound.get((place[0], *subject), {})
            bound.pop(place, None)
            if not bound:
                self._bound.pop((place[0], *subject), None)
        if after is not None:
            binding = _read_binding(after, place)
            self._bindings[place] = binding
            for subject in binding.subjects:
                self._bound.setdefault((place[0], *subject), {})[place] = binding


def _place(tree: Object) -> _Place:
    metadata = part(tree, "metadata")
    return metadata.get("namespace") or "", metadata.get("name") or ""


def _read_binding(tree: Object, place: _Place) -> Binding:
    reference = part(tree, "roleRef")
    subjects = dict.fromkeys(_subjects(items(tree, "subjects"), place[0]))
    return Binding(place, str(reference.get("kind")), str(reference.get("name")), tuple(subjects))


def _subjects(found: Iterable[Object], namespace: str) -> Iterator[tuple[str, str]]:
    for one in found:
        kind, name = one.get("kind"), one.get("name")
        if kind in ("User", "Group") and isinstance(name, str):
            yield kind, name
        elif kind == "ServiceAccount":
            home = one.get("namespace") or namespace
            if home:
                yield "User", f"system:serviceaccount:{home}:{name}"


def _described(binding: Binding, subject: tuple[str, str]) -> str:
    namespace, name = binding.place
    what = f"RoleBinding {quoted(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {quoted(name)}"
    kind, who = subject
    if kind == "User" and who.startswith("system:serviceaccount:"):
        home, _, account = who.removeprefix("system:serviceaccount:").partition(":")
        kind, who = "ServiceAccount", f"{account}/{home}"
    return f"{what} of {binding.kind} {quoted(binding.role)} to {kind} {quoted(who)}"


def _joined(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
