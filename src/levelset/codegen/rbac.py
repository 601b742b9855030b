"""Infers what controllers must be allowed to do, and writes it as Roles, ClusterRoles and their bindings.

What is watched, owned and elected is known from the values; what is written, from the code of the reconcilers as far as
it can be read (`codereading`). The rest is declared with `permit`, and a test that records the real calls
(`callrecords`) says what is missing, and what nobody uses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from levelset.client.kinds import Kind, view_of
from levelset.codegen.codereading import Deed, deeds_of
from levelset.codegen.permissions import Permission, merge_rules, resource_of
from levelset.controller.controller import Controller
from levelset.controller.relations import Owns, References, Watches

__all__ = ["infer_permissions", "roles_of"]

_STATUS: Final = {"set_condition", "set_status", "save", "update_status"}
# What each call asks of the kind of its object: an apply makes the object if it is not there.
_CHILD: Final[Mapping[str, tuple[str, ...]]] = {
    "apply": ("create", "patch"),
    "create": ("create",),
    "delete": ("delete",),
    "patch": ("patch",),
    "update": ("update",),
}
_OWN: Final[Mapping[str, tuple[str, ...]]] = {**_CHILD, "save": ("patch",)}
_UNREAD: Final = frozenset({Deed("apply", is_own=False), Deed("record", is_own=True), Deed("set_status", is_own=True)})


def infer_permissions(
    controllers: Iterable[Controller[Any]],
    *,
    namespace: str = "default",
    lease: str | None = None,
    extras: Iterable[Permission] = (),
    without: Iterable[Permission] = (),
) -> Sequence[Permission]:
    """What a program with these controllers must be allowed to do.

    `namespace` is its own, in which the Lease of that name is, if it elects a leader. `extras` are added, and what is
    in `without` is taken away, for a case in which the code looks as if it did more than it does.
    """
    found = [one for controller in controllers for one in _of_controller(controller)]
    if lease is not None:
        why = "elects a leader"
        found.append(Permission("coordination.k8s.io", "leases", ["create"], namespace=namespace, why=why))
        named: dict[str, Any] = {"names": [lease], "namespace": namespace, "why": why}
        found.append(Permission("coordination.k8s.io", "leases", ["get", "update"], **named))
    return tuple(_without([*found, *extras], tuple(without)))


def _of_controller(controller: Controller[Any]) -> Iterator[Permission]:
    name = controller.name
    deeds = deeds_of(controller.reconcile, controller.cleanup, controller.gone, controller.gave_up)
    deeds = _UNREAD if deeds is None else deeds
    yield from _watched(controller.kind, _place(controller.kind, controller.namespace), f"{name} looks at them")
    yield from _own(controller, deeds)
    for relation in controller.relations:
        if isinstance(relation, Owns | Watches | References):
            yield from _watched(relation.kind, _place(relation.kind, relation.namespace), f"{name} follows them")
        if isinstance(relation, Owns):
            place = _place(relation.kind, relation.namespace or controller.namespace)
            yield from _written(relation.kind, place, deeds, f"{name} owns them")
    yield from _recorded(controller, deeds)


def _watched(kind: Kind[Any], namespace: str | None, why: str) -> Iterator[Permission]:
    """What an informer does: it lists and watches; single objects are read after a conflict, or when asked for live."""
    group, resource = resource_of(kind)
    yield Permission(group, resource, ["watch"], namespace=namespace, why=why)
    # A server that streams what is there needs no list, and one that does not is asked for it.
    yield Permission(group, resource, ["get", "list"], namespace=namespace, why=why, rarely=True)


def _own(controller: Controller[Any], deeds: frozenset[Deed]) -> Iterator[Permission]:
    group, resource = resource_of(controller.kind)
    where: dict[str, Any] = {"namespace": _place(controller.kind, controller.namespace)}
    if controller.finalizer is not None:
        yield Permission(group, resource, ["patch"], why=f"{controller.name} has a finalizer", **where)
    definition = view_of(controller.kind).definition
    has_status = definition is None or definition.status
    if has_status and any(one.name in _STATUS for one in deeds):
        yield Permission(group, f"{resource}/status", ["patch"], why=f"{controller.name} tells how it is", **where)
    verbs = {verb for one in deeds if one.is_own for verb in _OWN.get(one.name, ())}
    if verbs:
        yield Permission(group, resource, sorted(verbs), why=f"{controller.name} writes its own objects", **where)
    if any(isinstance(one, Owns) for one in controller.relations):
        why = "children that block the deletion of their owner are made with this leave only"
        yield Permission(group, f"{resource}/finalizers", ["update"], why=why, rarely=True, **where)


def _written(kind: Kind[Any], namespace: str | None, deeds: frozenset[Deed], why: str) -> Iterator[Permission]:
    group, resource = resource_of(kind)
    verbs = {verb for one in deeds if not one.is_own for verb in _CHILD.get(one.name, ())}
    if verbs:
        yield Permission(group, resource, sorted(verbs), namespace=namespace, why=why)


def _recorded(controller: Controller[Any], deeds: frozenset[Deed]) -> Iterator[Permission]:
    """Events are made where their object is; one that happens again is counted by a patch."""
    namespace = _place(controller.kind, controller.namespace)
    is_told = any(one.name == "record" for one in deeds)
    why = f"{controller.name} tells what happens"
    yield Permission("events.k8s.io", "events", ["create"], namespace=namespace, why=why, rarely=not is_told)
    yield Permission("events.k8s.io", "events", ["patch"], namespace=namespace, why=why, rarely=True)


def _place(kind: Kind[Any], namespace: str | None) -> str | None:
    definition = view_of(kind).definition
    return namespace if definition is None or definition.namespaced else None


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
    """A ClusterRole for what is allowed everywhere, a Role for each namespace, and bindings to a service account."""
    by_place: dict[str | None, list[Permission]] = {}
    for one in permissions:
        by_place.setdefault(one.namespace, []).append(one)
    made: list[dict[str, Any]] = []
    everywhere = by_place.get(None, [])
    for place in sorted(by_place, key=lambda one: one or ""):
        mine = [one for one in by_place[place] if place is None or not _is_covered(one, everywhere)]
        if mine:
            made += _pair(merge_rules(mine), place, name=name, account=account, namespace=namespace, labels=labels)
    return made


def _is_covered(one: Permission, everywhere: Sequence[Permission]) -> bool:
    """Whether what is allowed in a namespace is allowed everywhere anyway."""
    same = [
        other for other in everywhere if (other.group, other.resource, other.names) == (one.group, one.resource, ())
    ]
    return set(one.verbs) <= {verb for other in same for verb in other.verbs}


def _pair(
    rules: list[dict[str, Any]],
    place: str | None,
    *,
    name: str,
    account: str,
    namespace: str,
    labels: Mapping[str, str] | None,
) -> list[dict[str, Any]]:
    kind = "ClusterRole" if place is None else "Role"
    metadata: dict[str, Any] = {"name": name, **({} if place is None else {"namespace": place})}
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
