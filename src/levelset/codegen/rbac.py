"""Infers the permissions of controllers, and generates Roles, ClusterRoles and their bindings.

Watched and owned kinds and the leader election Lease are known from the Controllers. Writes are inferred from the
source of the reconcilers: calls such as `ctx.apply`, `ctx.set_status` and `ctx.record`, in the function itself and in
all that it calls (`call_tracer.py`). What cannot be followed is listed by `unfollowed_calls`, and declared with
`permit`; a test that records the real calls (`call_records.py`) finds missing and unused permissions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from levelset.client.object_types import Kind, view_of
from levelset.codegen.call_tracer import CachedRead, ContextCall, Trace, Unfollowed, trace_calls
from levelset.codegen.permission import Permission
from levelset.objects.kind_definition import plural_of
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.relations import Namespaces, Owns, References, Watches, namespaces_of

__all__ = [
    "CachedRead",
    "ContextCall",
    "Permission",
    "Unfollowed",
    "cached_reads",
    "context_calls",
    "infer_permissions",
    "merge_rules",
    "permit",
    "read_permissions",
    "resource_of",
    "roles_of",
    "unfollowed_calls",
]


def context_calls(*functions: Callable[..., Any] | None) -> frozenset[ContextCall] | None:
    """The Context calls of these functions and those they call; None if the source of one is not available."""
    found = trace_calls(*functions)
    return found.calls if found.is_complete else None


def unfollowed_calls(controller: Controller[Any]) -> Sequence[Unfollowed]:
    """The calls of a controller's functions whose permissions could not be inferred: declare them with `permit`.

    A write to an object of unknown kind counts if the controller owns no kinds, all of which it may write otherwise.
    """
    found = _trace(controller)
    owns_any = any(isinstance(one, Owns) for one in controller.relations)
    return found.unfollowed if owns_any else (*found.unfollowed, *found.untyped)


def cached_reads(controller: Controller[Any]) -> Sequence[CachedRead]:
    """The reads of a controller's functions that come from the cache, of other kinds than its own, by their places."""
    return sorted(_trace(controller).reads, key=lambda one: (one.file, one.line, one.what, str(view_of(one.kind).gvk)))


def _trace(controller: Controller[Any]) -> Trace:
    functions = (controller.reconcile, controller.cleanup, controller.gone, controller.gave_up)
    return trace_calls(*functions, kind=controller.kind)


_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_RANK: Final = {verb: rank for rank, verb in enumerate(_VERBS)}
# Kinds whose name is a plural already.
_PLURALS: Final = {("", "Endpoints"): "endpoints"}


def permit(
    kind: Kind[Any],
    *verbs: str,
    part: str = "",
    names: Iterable[str] = (),
    namespace: str | None = None,
    why: str = "",
) -> Permission:
    """A Permission for a class: `permit(Deployment, "delete")`, `permit(Website, "update", part="scale")`."""
    group, resource = resource_of(kind)
    return Permission(
        group, f"{resource}/{part}" if part else resource, verbs, names=names, namespace=namespace, why=why
    )


def resource_of(kind: Kind[Any]) -> tuple[str, str]:
    """The group and plural of a kind; the plural of a kind without a class is guessed from English grammar."""
    view = view_of(kind)
    known = _PLURALS.get((view.gvk.group, view.gvk.kind))
    return view.gvk.group, known or (_guess_plural(view.gvk) if view.definition is None else view.definition.plural)


def _guess_plural(gvk: GroupVersionKind) -> str:
    return plural_of(gvk.kind)


def merge_rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """The rules of a Role for these permissions, merged and sorted; namespaces are ignored."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for one in permissions:
        verbs.setdefault((one.group, one.resource, tuple(sorted(one.names))), set()).update(one.verbs)
    _drop_covered(verbs)
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, names), what in sorted(verbs.items()):
        resources.setdefault((group, names, _sorted(what)), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(several),
            **({"resourceNames": list(names)} if names else {}),
            "verbs": list(what),
        }
        for (group, names, what), several in sorted(resources.items(), key=_rule_order)
    ]


def _rule_order(pair: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]]) -> tuple[Any, ...]:
    (group, names, _), resources = pair
    return group, resources, names


def _drop_covered(verbs: dict[tuple[str, str, tuple[str, ...]], set[str]]) -> None:
    """Removes verbs on named objects that are allowed for all objects anyway."""
    for group, resource, names in list(verbs):
        if names:
            verbs[group, resource, names] -= verbs.get((group, resource, ()), set())
            if not verbs[group, resource, names]:
                del verbs[group, resource, names]


def _sorted(verbs: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(verbs, key=lambda verb: (_RANK.get(verb, len(_RANK)), verb)))


def read_permissions(roles: Iterable[Any]) -> Sequence[Permission]:
    """The permissions of Roles and ClusterRoles; other objects and non-resource rules are ignored."""
    found: list[Permission] = []
    for role in roles:
        if role.get("kind") not in ("Role", "ClusterRole"):
            continue
        namespace = role["metadata"].get("namespace") if role["kind"] == "Role" else None
        for rule in role.get("rules") or ():
            found += [
                Permission(group, resource, rule["verbs"], names=rule.get("resourceNames") or (), namespace=namespace)
                for group in rule.get("apiGroups") or ()
                for resource in rule.get("resources") or ()
            ]
    return found


# The verbs that each call needs on the kind of its object: an apply creates a missing object.
_WRITE_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "apply": ("create", "patch"),
    "create": ("create",),
    "delete": ("delete",),
    "delete_collection": ("deletecollection",),
    "ensure": ("create", "patch", "update"),
    "patch": ("patch",),
    "save": ("patch",),
    "update": ("update",),
}
_READ_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("ensure", "find", "get", "live"), ("get",)),
    **dict.fromkeys(("each", "first", "list"), ("list",)),
    **dict.fromkeys(("declare", "wait", "wait_gone", "watch"), ("get", "list", "watch")),
}
_SUBRESOURCES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("save", "set_condition", "set_status"), ("status", "patch")),
    "get_scale": ("scale", "get"),
    "logs": ("log", "get"),
    "scale": ("scale", "patch"),
    "update_status": ("status", "update"),
}
_ASSUMED_CALLS: Final = frozenset(
    {ContextCall("apply", is_own=False), ContextCall("record", is_own=True), ContextCall("set_status", is_own=True)}
)


def infer_permissions(
    controllers: Iterable[Controller[Any]],
    *,
    namespace: str = "default",
    lease: str | None = None,
    has_shards: bool = False,
    extras: Iterable[Permission] = (),
    without: Iterable[Permission] = (),
) -> Sequence[Permission]:
    """The permissions that a program with these controllers needs.

    `namespace` is that of the program and of its `lease`, if it uses leader election, or of the Leases of its replicas,
    if these share the objects (`has_shards`). `extras` are added, and verbs in
    `without` are removed, for code that seems to do more than it does.
    """
    found = [one for controller in controllers for part in _by_namespace(controller) for one in _of_controller(part)]
    if lease is not None:
        why = "leader election"
        found.append(Permission("coordination.k8s.io", "leases", ["create"], namespace=namespace, why=why))
        named: dict[str, Any] = {"names": [lease], "namespace": namespace, "why": why}
        found.append(Permission("coordination.k8s.io", "leases", ["get", "update"], **named))
    if has_shards:
        verbs = ["get", "list", "watch", "create", "update", "delete"]  # each replica has one, with a random name
        why = "the replicas share the objects"
        found.append(Permission("coordination.k8s.io", "leases", verbs, namespace=namespace, why=why))
    return tuple(_without([*found, *extras], tuple(without)))


def _by_namespace(controller: Controller[Any]) -> Iterator[Controller[Any]]:
    """The controller once for each of its namespaces, so that each gets its own permissions."""
    return (controller.with_options(namespace=namespace) for namespace in controller.namespaces)


def _of_controller(controller: Controller[Any]) -> Iterator[Permission]:
    name = controller.name
    found = _trace(controller)
    calls = found.calls if found.is_complete else found.calls | _ASSUMED_CALLS
    yield from _watch_permissions(
        controller.kind, _namespace_of(controller.kind, controller.namespace), f"{name} reconciles them"
    )
    yield from _own_permissions(controller, calls)
    for relation in controller.relations:
        if isinstance(relation, Owns | Watches | References):
            for namespace in controller.watched_namespaces(relation):
                yield from _watch_permissions(relation.kind, namespace, f"{name} watches them")
                if isinstance(relation, Owns):
                    yield from _child_permissions(relation.kind, namespace, calls, f"{name} owns them")
    yield from _other_permissions(controller, calls)
    yield from _event_permissions(controller, calls)


def _watch_permissions(kind: Kind[Any], namespace: str | None, why: str) -> Iterator[Permission]:
    """The verbs of an informer: list and watch; get is for live reads, for example after a conflict."""
    group, resource = resource_of(kind)
    yield Permission(group, resource, ["watch"], namespace=namespace, why=why)
    # A list is only needed for servers without streaming lists.
    yield Permission(group, resource, ["get", "list"], namespace=namespace, why=why, rarely=True)


def _own_permissions(controller: Controller[Any], calls: frozenset[ContextCall]) -> Iterator[Permission]:
    group, resource = resource_of(controller.kind)
    where: dict[str, Any] = {"namespace": _namespace_of(controller.kind, controller.namespace)}
    if controller.finalizer is not None:
        yield Permission(group, resource, ["patch"], why=f"{controller.name} has a finalizer", **where)
    why = f"{controller.name} writes its own objects"
    yield from _call_permissions(controller.kind, [one for one in calls if one.is_own], why=why, **where)
    if any(isinstance(one, Owns) for one in controller.relations):
        why = "required to set blockOwnerDeletion on children"
        yield Permission(group, f"{resource}/finalizers", ["update"], why=why, rarely=True, **where)


def _child_permissions(
    kind: Kind[Any], namespace: str | None, calls: frozenset[ContextCall], why: str
) -> Iterator[Permission]:
    """What is written to an owned kind: by calls for that kind, and by those whose kind is not known."""
    gvk = view_of(kind).gvk
    concerned = [one for one in calls if not one.is_own and (one.kind is None or view_of(one.kind).gvk == gvk)]
    yield from _call_permissions(kind, concerned, namespace=namespace, why=why)


def _other_permissions(controller: Controller[Any], calls: frozenset[ContextCall]) -> Iterator[Permission]:
    """What is written to, and read live from, kinds that the controller does not own."""
    owned = {view_of(one.kind).gvk for one in controller.relations if isinstance(one, Owns)}
    others = {view_of(one.kind).gvk: one.kind for one in calls if not one.is_own and one.kind is not None}
    for gvk, kind in sorted(others.items(), key=lambda pair: str(pair[0])):
        if gvk not in owned:
            concerned = [one for one in calls if one.kind is not None and view_of(one.kind).gvk == gvk]
            namespace = _namespace_of(kind, controller.namespace)
            yield from _call_permissions(kind, concerned, namespace=namespace, why=f"{controller.name} uses them")


def _call_permissions(
    kind: Kind[Any], calls: Iterable[ContextCall], *, namespace: str | None, why: str
) -> Iterator[Permission]:
    """The permissions of calls on a kind; those that only read are used rarely, next to a cache."""
    group, resource = resource_of(kind)
    definition = view_of(kind).definition
    needed: dict[tuple[str, bool], set[str]] = {}
    for one in calls:
        for part, verb, is_read in _needs(one):
            if part != "status" or definition is None or definition.status:
                needed.setdefault((part, is_read), set()).add(verb)
    for (part, is_read), verbs in sorted(needed.items()):
        name = f"{resource}/{part}" if part else resource
        yield Permission(group, name, _sorted(verbs), namespace=namespace, why=why, rarely=is_read)


def _needs(call: ContextCall) -> Iterator[tuple[str, str, bool]]:
    """The subresource ("" is the object itself) and the verb of each request of a call, and whether it only reads."""
    for verb in _WRITE_VERBS.get(call.name, ()):
        yield call.subresource, verb, False
    for verb in _READ_VERBS.get(call.name, ()):
        yield call.subresource, verb, True
    if call.name in _SUBRESOURCES:
        part, verb = _SUBRESOURCES[call.name]
        yield part, verb, verb == "get"


def _event_permissions(controller: Controller[Any], calls: frozenset[ContextCall]) -> Iterator[Permission]:
    """Events are created in the namespace of their object; repeated ones are patched."""
    namespace = _namespace_of(controller.kind, controller.namespace)
    records_events = any(one.name == "record" for one in calls)
    why = f"{controller.name} records Events"
    yield Permission("events.k8s.io", "events", ["create"], namespace=namespace, why=why, rarely=not records_events)
    yield Permission("events.k8s.io", "events", ["patch"], namespace=namespace, why=why, rarely=True)


def _namespace_of(kind: Kind[Any], namespace: Namespaces) -> str | None:
    return namespaces_of(kind, namespace)[0]


def _without(permissions: Iterable[Permission], taken: Sequence[Permission]) -> Iterator[Permission]:
    for one in permissions:
        gone = {
            verb
            for other in taken
            if (other.group, other.resource) == (one.group, one.resource)
            for verb in other.verbs
        }
        left = [verb for verb in one.verbs if verb not in gone]
        if left:
            named: dict[str, Any] = {"names": one.names, "namespace": one.namespace}
            yield Permission(one.group, one.resource, left, **named, why=one.why, rarely=one.rarely)


def roles_of(
    permissions: Iterable[Permission],
    *,
    name: str,
    account: str,
    namespace: str,
    labels: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """A ClusterRole for cluster-wide permissions, a Role for each namespace, and bindings to a service account."""
    by_namespace: dict[str | None, list[Permission]] = {}
    for one in permissions:
        by_namespace.setdefault(one.namespace, []).append(one)
    made: list[dict[str, Any]] = []
    everywhere = by_namespace.get(None, [])
    for role_namespace in sorted(by_namespace, key=lambda one: one or ""):
        mine = [
            one for one in by_namespace[role_namespace] if role_namespace is None or not _is_covered(one, everywhere)
        ]
        if mine:
            made += _role_and_binding(
                merge_rules(mine), role_namespace, name=name, account=account, namespace=namespace, labels=labels
            )
    return made


def _is_covered(one: Permission, everywhere: Sequence[Permission]) -> bool:
    """Whether a permission in a namespace is already granted cluster-wide."""
    same = [
        other for other in everywhere if (other.group, other.resource, other.names) == (one.group, one.resource, ())
    ]
    return set(one.verbs) <= {verb for other in same for verb in other.verbs}


def _role_and_binding(
    rules: list[dict[str, Any]],
    role_namespace: str | None,
    *,
    name: str,
    account: str,
    namespace: str,
    labels: Mapping[str, str] | None,
) -> list[dict[str, Any]]:
    kind = "ClusterRole" if role_namespace is None else "Role"
    metadata: dict[str, Any] = {"name": name, **({} if role_namespace is None else {"namespace": role_namespace})}
    metadata |= {"labels": dict(labels)} if labels else {}
    api = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]
