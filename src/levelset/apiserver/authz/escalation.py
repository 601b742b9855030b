"""Privilege escalation checks: a user can only grant permissions that the user has.

Writing a role requires the permissions in its rules, writing a binding those of the bound role. The verb `escalate` on
roles and the verb `bind` on the bound role bypass this. The rules of an aggregated ClusterRole can grow to anything, so
writing one requires all permissions. Writing an admission policy, or a binding of one, requires permission to read its
parameters, because its expressions could reveal them. Certificate requests have rules of their own
(`certificate_signers.py`).
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from levelset.apiserver.admission.policies.params import ParamKind, read_param_kind
from levelset.apiserver.admission.policies.policy_index import GROUP as ADMISSION
from levelset.apiserver.authn.request_attributes import RequestAttributes, forbidden_error, quoted, quoted_list
from levelset.apiserver.authn.users import User
from levelset.apiserver.authz.certificate_signers import CERTIFICATES, certificate_problem
from levelset.apiserver.authz.rbac import GROUP, Grants, PolicyRule, RbacAuthorizer, read_rule
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import field_errors
from levelset.apiserver.wire import status_errors
from levelset.errors import Cause, Forbidden, NotFound

__all__ = ["WriteAuthorizer", "check_param_kind", "check_param_ref", "missing_permissions"]

MAX_PERMISSIONS: Final = 4000
_NOT_CONTENT: Final = ("finalizers", "managedFields", "ownerReferences", "resourceVersion")
_ROLES: Final = ("clusterroles", "roles")
_BINDINGS: Final = ("clusterrolebindings", "rolebindings")
_ALL_PERMISSIONS: Final = (
    read_rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
    read_rule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
)

_Permission = tuple[str, str, str, str, str]
"""Verb, group, resource, name and path: one combination out of a rule."""


class WriteAuthorizer:
    """The authorization checks of a write that need the object: create on update, and privilege escalation."""

    __slots__ = ("_name", "_namespace", "_rbac", "_served", "_state", "_subresource", "_user")

    def __init__(
        self,
        rbac: RbacAuthorizer,
        user: User,
        served: ServedResource,
        namespace: str | None,
        name: str | None,
        *,
        state: ServerState,
        subresource: str = "",
    ) -> None:
        self._state = state
        self._subresource = subresource
        self._rbac = rbac
        self._user = user
        self._served = served
        self._namespace = namespace or ""
        self._name = name or ""

    def check_create(self, name: str) -> None:
        """Raises Forbidden if an update or apply creates the object and the user may not create it."""
        attributes = RequestAttributes("create", self._served.group, self._served.plural, "", self._namespace, name)
        # As for a plain create, a rule with resourceNames does not allow it: it is checked without a name.
        if not self._rbac.allows(
            self._user, RequestAttributes("create", attributes.group, attributes.resource, "", self._namespace)
        ):
            raise forbidden_error(self._user, attributes)

    def check(self, new: Object, old: Object | None) -> None:
        """Raises Forbidden or Invalid if the object grants permissions that the user does not have."""
        if self._served.group == ADMISSION:
            self._check_params(new, old)
        if self._served.group == CERTIFICATES:
            problem = certificate_problem(self._rbac, self._user, new, old, subresource=self._subresource)
            if problem is not None:
                raise self._forbidden(new, problem)
        if self._served.group != GROUP or (old is not None and _is_same_content(new, old)):
            return
        if self._served.plural in _ROLES:
            self._check_role(new, old)
        elif self._served.plural in _BINDINGS:
            self._check_binding(new)

    def _check_params(self, new: Object, old: Object | None) -> None:
        policies, plural = self._state.policies, self._served.plural
        if policies is None or plural not in policies.stored:
            return
        subject = (self._rbac, self._user, self._state.catalog)
        if policies.is_binding(plural):
            causes = check_param_ref(*subject, new, old, kind=policies.param_kind(plural, new))
        else:
            causes = check_param_kind(*subject, new, old)
        if causes:
            raise status_errors.invalid(self._served, new["metadata"]["name"], causes)

    def _check_role(self, new: Object, old: Object | None) -> None:
        # Even if the rules do not change: a new label may have them aggregated into a role that the user is bound to.
        rules, aggregation = list_member(new, "rules"), new.get("aggregationRule")
        plural = self._served.plural
        if self._rbac.allows(self._user, RequestAttributes("escalate", GROUP, plural, "", self._namespace, self._name)):
            return
        grants = self._rbac.grants(self._user, self._namespace)
        if (aggregation or (old or {}).get("aggregationRule")) and any(missing_permissions(grants, _ALL_PERMISSIONS)):
            raise self._forbidden(new, "must have cluster-admin privileges to use the aggregationRule")
        self._check_rules(new, grants, map(read_rule, rules))

    def _check_binding(self, new: Object) -> None:
        reference = map_member(new, "roleRef")
        kind, name = reference.get("kind"), reference.get("name")
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        if self._rbac.allows(self._user, RequestAttributes("bind", GROUP, plural, "", self._namespace, str(name))):
            return
        rules = self._rbac.rules(str(kind), self._namespace, str(name))
        if rules is None:
            details = {"name": name, "group": GROUP, "kind": plural}
            raise NotFound(f"{plural}.{GROUP} {quoted(str(name))} not found", details=details)
        self._check_rules(new, self._rbac.grants(self._user, self._namespace), rules)

    def _check_rules(self, tree: Object, grants: Grants, rules: Iterable[PolicyRule]) -> None:
        try:
            missing = list(missing_permissions(grants, rules))
        except OverflowError as error:
            raise self._forbidden(tree, str(error)) from None
        if missing:
            user = self._user
            subject = f"user {quoted(user.name)} (groups={quoted_list(user.groups)})"
            listed = "\n".join(sorted(_compacted(missing)))
            text = f"{subject} is attempting to grant RBAC permissions not currently held:\n{listed}"
            raise self._forbidden(tree, text)

    def _forbidden(self, tree: Object, problem: str) -> Forbidden:
        return status_errors.forbidden(self._served, tree["metadata"]["name"], problem)


def check_param_kind(
    rbac: RbacAuthorizer, user: User, catalog: Catalog, new: Object, old: Object | None
) -> list[Cause]:
    """The causes that forbid the user a policy with this paramKind, with the messages of kube-apiserver."""
    tree = map_member(map_member(new, "spec"), "paramKind")
    kind = read_param_kind(tree)
    if kind is None or map_member(map_member(old, "spec"), "paramKind") == tree:
        return []
    if rbac.allows(user, RequestAttributes("get", *_group_and_resource(catalog, kind), "", "*", "*")):
        return []
    what = f"all objects of the referenced paramKind (kind={kind.kind}, apiVersion={tree.get('apiVersion')})"
    return [field_errors.forbidden("spec.paramKind", f'user {user.name} must have "get" permission on {what}')]


def check_param_ref(
    rbac: RbacAuthorizer, user: User, catalog: Catalog, new: Object, old: Object | None, *, kind: ParamKind | None
) -> list[Cause]:
    """The causes that forbid a binding with this paramRef; `kind` is the paramKind of its policy, if any."""
    spec = map_member(new, "spec")
    ref, before = map_member(spec, "paramRef"), map_member(map_member(old, "spec"), "paramRef")
    if not ref or (before == ref and map_member(old, "spec").get("policyName") == spec.get("policyName")):
        return []
    # The policy may not exist yet, and its paramKind may be anything.
    resource = ("*", "*") if kind is None else _group_and_resource(catalog, kind)
    name, namespace = str(ref.get("name") or "*"), str(ref.get("namespace") or "*")
    if rbac.allows(user, RequestAttributes("get", *resource, "", namespace, name)):
        return []
    text = f'user {user.name} does not have "get" permission on the object referenced by paramRef'
    return [field_errors.forbidden("spec.paramRef", f"{text} (name={name}, namespace={namespace})")]


def _group_and_resource(catalog: Catalog, kind: ParamKind) -> tuple[str, str]:
    """Group and resource of a kind; all resources of the group if the kind is not served."""
    served = catalog.by_gvk(kind.group, kind.version, kind.kind)
    return kind.group, "*" if served is None else served.plural


def missing_permissions(grants: Grants, rules: Iterable[PolicyRule]) -> Iterator[_Permission]:
    """The permissions of the rules that the grants do not cover.

    Raises OverflowError if the rules have too many combinations of verbs, groups and resources to check each: a role of
    three megabytes can hold more of them than a server can enumerate.
    """
    left = MAX_PERMISSIONS
    for rule in rules:
        if any(_holds_all(one.rule, rule) for one in grants.grants):
            continue
        left -= len(rule.verbs) * max(len(rule.groups) * len(rule.resources) * max(len(rule.names), 1), len(rule.paths))
        if left < 0:
            text = f"its rules expand to more than {MAX_PERMISSIONS} permissions, too many to compare one by one"
            raise OverflowError(f"{text}: use fewer verbs, groups and resources in one role")
        yield from (one for one in _permissions(rule) if not _holds(grants, one))


def _holds_all(held: PolicyRule, wanted: PolicyRule) -> bool:
    """Whether one rule covers the other, without expanding it; False is not conclusive."""
    if wanted.paths:
        return ("*" in held.verbs or wanted.verbs <= held.verbs) and set(wanted.paths) <= set(held.paths)
    return (
        ("*" in held.verbs or wanted.verbs <= held.verbs)
        and ("*" in held.groups or wanted.groups <= held.groups)
        and ("*" in held.resources or wanted.resources <= held.resources)
        and (not held.names or (bool(wanted.names) and wanted.names <= held.names))
    )


def _permissions(rule: PolicyRule) -> Iterator[_Permission]:
    names = rule.names or {""}
    for group, resource, name, verb in product(rule.groups, rule.resources, names, rule.verbs):
        yield verb, group, resource, name, ""
    for path, verb in product(rule.paths, rule.verbs):
        yield verb, "", "", "", path


def _holds(grants: Grants, permission: _Permission) -> bool:
    verb, group, resource, name, path = permission
    if path:
        return any(one.rule.covers_path(verb, path) for one in grants.grants)
    plural, _, subresource = resource.partition("/")
    found = grants.allowed_names(verb, group, plural, subresource)
    return found if isinstance(found, bool) else bool(name) and name in found


def _compacted(permissions: Iterable[_Permission]) -> Iterator[str]:
    """The permissions as kube-apiserver prints them, with the verbs of one resource together."""
    verbs: dict[tuple[str, str, str, str], list[str]] = {}
    for verb, *rest in permissions:
        group, resource, name, path = rest
        verbs.setdefault((group, resource, name, path), []).append(verb)
    for (group, resource, name, path), found in verbs.items():
        where = f"NonResourceURLs:{quoted_list([path])}" if path else _resource_text(group, resource, name)
        yield f"{{{where}, Verbs:{quoted_list(sorted(found))}}}"


def _resource_text(group: str, resource: str, name: str) -> str:
    names = f", ResourceNames:{quoted_list([name])}" if name else ""
    return f"APIGroups:{quoted_list([group])}, Resources:{quoted_list([resource])}{names}"


def _is_same_content(new: Object, old: Object) -> bool:
    """Whether only fields change that grant nothing, so that finalizers of a forbidden role can still be removed."""
    return _content(new) == _content(old)


def _content(tree: Object) -> Object:
    metadata = {word: value for word, value in tree["metadata"].items() if word not in _NOT_CONTENT}
    return {**tree, "metadata": metadata}
