"""Nobody gives away more than they have: who writes a role or a binding must hold all the rights that are in it.

The verbs `escalate` (on roles) and `bind` (on the role that is bound) lift this. A ClusterRole that collects the rules
of others may come to hold anything, so that it takes somebody who may do everything to write one. Likewise who writes
an admission policy must be allowed to read the objects that are its parameters.

Who makes a policy or a binding must be allowed to read its parameters: expressions tell what is in them.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from levelset.apiserver.admission.policies.params import ParamKind, read_param_kind
from levelset.apiserver.admission.policies.policy_index import GROUP as ADMISSION
from levelset.apiserver.authn.request_attributes import Attempt, forbidden_attempt, quoted, quoted_list
from levelset.apiserver.authn.users import Caller
from levelset.apiserver.authz.rbac import GROUP, Grants, Rbac, Rule, read_rule
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import field_errors
from levelset.apiserver.wire import status_errors
from levelset.errors import Cause, Forbidden, NotFound

__all__ = ["Permit", "check_param_kind", "check_param_ref", "missing_rights"]


def check_param_kind(rbac: Rbac, caller: Caller, catalog: Catalog, new: Object, old: Object | None) -> list[Cause]:
    """What speaks against a policy with these parameters, in the words of Kubernetes."""
    tree = part(part(new, "spec"), "paramKind")
    kind = read_param_kind(tree)
    if kind is None or part(part(old, "spec"), "paramKind") == tree:
        return []
    if rbac.allows(caller, Attempt("get", *_place(catalog, kind), "", "*", "*")):
        return []
    what = f"all objects of the referenced paramKind (kind={kind.kind}, apiVersion={tree.get('apiVersion')})"
    return [field_errors.forbidden("spec.paramKind", f'user {caller.name} must have "get" permission on {what}')]


def check_param_ref(
    rbac: Rbac, caller: Caller, catalog: Catalog, new: Object, old: Object | None, *, kind: ParamKind | None
) -> list[Cause]:
    """What speaks against a binding with these parameters; `kind` is that of its policy, None if it has none."""
    spec = part(new, "spec")
    ref, before = part(spec, "paramRef"), part(part(old, "spec"), "paramRef")
    if not ref or (before == ref and part(old, "spec").get("policyName") == spec.get("policyName")):
        return []
    # Of a policy that is not there yet nobody knows what kind it will want.
    place = ("*", "*") if kind is None else _place(catalog, kind)
    name, namespace = str(ref.get("name") or "*"), str(ref.get("namespace") or "*")
    if rbac.allows(caller, Attempt("get", *place, "", namespace, name)):
        return []
    text = f'user {caller.name} does not have "get" permission on the object referenced by paramRef'
    return [field_errors.forbidden("spec.paramRef", f"{text} (name={name}, namespace={namespace})")]


def _place(catalog: Catalog, kind: ParamKind) -> tuple[str, str]:
    """Group and resource of a kind; of one that is not served, all resources of its group."""
    served = catalog.by_gvk(kind.group, kind.version, kind.kind)
    return kind.group, "*" if served is None else served.plural


MOST_COMBINATIONS: Final = 4000
_KEEPERS: Final = ("finalizers", "managedFields", "ownerReferences", "resourceVersion")
_ROLES: Final = ("clusterroles", "roles")
_BINDINGS: Final = ("clusterrolebindings", "rolebindings")
_EVERYTHING: Final = (
    read_rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
    read_rule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
)

_Right = tuple[str, str, str, str, str]
"""Verb, group, resource, name, path: a rule taken apart, with one of each."""


class Permit:
    """What the sender of a write may do beyond sending it, asked on the way into the store."""

    __slots__ = ("_caller", "_name", "_namespace", "_rbac", "_served", "_world")

    def __init__(
        self,
        rbac: Rbac,
        caller: Caller,
        served: ServedResource,
        namespace: str | None,
        name: str | None,
        *,
        world: World,
    ) -> None:
        self._world = world
        self._rbac = rbac
        self._caller = caller
        self._served = served
        self._namespace = namespace or ""
        self._name = name or ""

    def check_create(self, name: str) -> None:
        """Raises Forbidden if a write that turns out to create the object needs a right that is not there."""
        attempt = Attempt("create", self._served.group, self._served.plural, "", self._namespace, name)
        # No name is known when rights to create are checked, so that rules for names cannot give it.
        if not self._rbac.allows(self._caller, Attempt("create", attempt.group, attempt.resource, "", self._namespace)):
            raise forbidden_attempt(self._caller, attempt)

    def check(self, new: Object, old: Object | None) -> None:
        """Raises Forbidden or Invalid if the object gives somebody rights that the sender does not have."""
        if self._served.group == ADMISSION:
            self._check_params(new, old)
        if self._served.group != GROUP or (old is not None and _lets_go(new, old)):
            return
        if self._served.plural in _ROLES:
            self._check_role(new, old)
        elif self._served.plural in _BINDINGS:
            self._check_binding(new)

    def _check_params(self, new: Object, old: Object | None) -> None:
        policies, plural = self._world.policies, self._served.plural
        if policies is None or plural not in policies.stored:
            return
        who = (self._rbac, self._caller, self._world.catalog)
        if policies.is_binding(plural):
            causes = check_param_ref(*who, new, old, kind=policies.param_kind(plural, new))
        else:
            causes = check_param_kind(*who, new, old)
        if causes:
            raise status_errors.invalid(self._served, new["metadata"]["name"], causes)

    def _check_role(self, new: Object, old: Object | None) -> None:
        # Also if the rules stay: a new label may have them collected by a role that the sender has.
        rules, aggregation = items(new, "rules"), new.get("aggregationRule")
        plural = self._served.plural
        if self._rbac.allows(self._caller, Attempt("escalate", GROUP, plural, "", self._namespace, self._name)):
            return
        grants = self._rbac.grants(self._caller, self._namespace)
        if (aggregation or (old or {}).get("aggregationRule")) and any(missing_rights(grants, _EVERYTHING)):
            raise self._refused(new, "must have cluster-admin privileges to use the aggregationRule")
        self._check_rules(new, grants, map(read_rule, rules))

    def _check_binding(self, new: Object) -> None:
        reference = part(new, "roleRef")
        kind, name = reference.get("kind"), reference.get("name")
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        if self._rbac.allows(self._caller, Attempt("bind", GROUP, plural, "", self._namespace, str(name))):
            return
        rules = self._rbac.rules(str(kind), self._namespace, str(name))
        if rules is None:
            details = {"name": name, "group": GROUP, "kind": plural}
            raise NotFound(f"{plural}.{GROUP} {quoted(str(name))} not found", details=details)
        self._check_rules(new, self._rbac.grants(self._caller, self._namespace), rules)

    def _check_rules(self, tree: Object, grants: Grants, rules: Iterable[Rule]) -> None:
        try:
            missing = list(missing_rights(grants, rules))
        except OverflowError as error:
            raise self._refused(tree, str(error)) from None
        if missing:
            caller = self._caller
            who = f"user {quoted(caller.name)} (groups={quoted_list(caller.groups)})"
            told = "\n".join(sorted(_compacted(missing)))
            text = f"{who} is attempting to grant RBAC permissions not currently held:\n{told}"
            raise self._refused(tree, text)

    def _refused(self, tree: Object, problem: str) -> Forbidden:
        return status_errors.forbidden(self._served, tree["metadata"]["name"], problem)


def _lets_go(new: Object, old: Object) -> bool:
    """Whether nothing changes but what keeps the object from being deleted."""
    return _content(new) == _content(old)


def _content(tree: Object) -> Object:
    metadata = {word: value for word, value in tree["metadata"].items() if word not in _KEEPERS}
    return {**tree, "metadata": metadata}


def missing_rights(grants: Grants, rules: Iterable[Rule]) -> Iterator[_Right]:
    """The rights in these rules that nobody has who has these grants.

    Raises OverflowError if there are too many combinations of verbs, groups and resources to look at each: a role of
    three megabytes could stand for more rights than a server can count.
    """
    left = MOST_COMBINATIONS
    for rule in rules:
        if any(_holds_all(one.rule, rule) for one in grants.grants):
            continue
        left -= len(rule.verbs) * max(len(rule.groups) * len(rule.resources) * max(len(rule.names), 1), len(rule.paths))
        if left < 0:
            text = f"its rules stand for more than {MOST_COMBINATIONS} rights, too many to compare one by one"
            raise OverflowError(f"{text}: use fewer verbs, groups and resources in one role")
        yield from (right for right in _rights(rule) if not _holds(grants, right))


def _holds_all(held: Rule, wanted: Rule) -> bool:
    """Whether one rule has all that is in the other, told without taking it apart; False may still be wrong."""
    if wanted.paths:
        return ("*" in held.verbs or wanted.verbs <= held.verbs) and set(wanted.paths) <= set(held.paths)
    return (
        ("*" in held.verbs or wanted.verbs <= held.verbs)
        and ("*" in held.groups or wanted.groups <= held.groups)
        and ("*" in held.resources or wanted.resources <= held.resources)
        and (not held.names or (bool(wanted.names) and wanted.names <= held.names))
    )


def _rights(rule: Rule) -> Iterator[_Right]:
    names = rule.names or {""}
    for group, resource, name, verb in product(rule.groups, rule.resources, names, rule.verbs):
        yield verb, group, resource, name, ""
    for path, verb in product(rule.paths, rule.verbs):
        yield verb, "", "", "", path


def _holds(grants: Grants, right: _Right) -> bool:
    verb, group, resource, name, path = right
    if path:
        return any(one.rule.covers_path(verb, path) for one in grants.grants)
    plural, _, subresource = resource.partition("/")
    found = grants.names(verb, group, plural, subresource)
    return found if isinstance(found, bool) else bool(name) and name in found


def _compacted(rights: Iterable[_Right]) -> Iterator[str]:
    """The rights in words, the verbs of one resource together."""
    verbs: dict[tuple[str, str, str, str], list[str]] = {}
    for verb, *rest in rights:
        group, resource, name, path = rest
        verbs.setdefault((group, resource, name, path), []).append(verb)
    for (group, resource, name, path), found in verbs.items():
        where = f"NonResourceURLs:{quoted_list([path])}" if path else _named(group, resource, name)
        yield f"{{{where}, Verbs:{quoted_list(sorted(found))}}}"


def _named(group: str, resource: str, name: str) -> str:
    names = f", ResourceNames:{quoted_list([name])}" if name else ""
    return f"APIGroups:{quoted_list([group])}, Resources:{quoted_list([resource])}{names}"
