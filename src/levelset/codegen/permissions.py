"""What a program may do, as values: one Permission for each resource, merged into rules as Kubernetes writes them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from levelset.client.kinds import Kind, view_of
from levelset.errors import ConfigError
from levelset.objects.definition import plural_of
from levelset.objects.identity import GroupVersionKind

__all__ = ["Permission", "merge_rules", "permit", "read_permissions", "resource_of"]

_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_RANK: Final = {verb: rank for rank, verb in enumerate(_VERBS)}
# Kinds whose name is a plural already.
_PLURALS: Final = {("", "Endpoints"): "endpoints"}


@dataclass(frozen=True, slots=True, init=False)
class Permission:
    """Leave to do something: `Permission("apps", "deployments", ["delete"])`.

    `resource` may name a part, as in `deployments/scale`. With `names` it is only about objects of these names, with
    `namespace` only about those in one. `why` says what it is for. What is `rarely` used (after a conflict, say) is
    not missed by a test that never came there.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str | None = None
    why: str = ""
    rarely: bool = False

    def __init__(
        self,
        group: str,
        resource: str,
        verbs: Iterable[str],
        *,
        names: Iterable[str] = (),
        namespace: str | None = None,
        why: str = "",
        rarely: bool = False,
    ) -> None:
        if isinstance(verbs, str) or isinstance(names, str):
            raise ConfigError(f"Permission({resource!r}): verbs and names are lists: write ['get', 'list']")
        values: dict[str, Any] = {"group": group, "resource": resource, "verbs": tuple(verbs), "names": tuple(names)}
        for name, value in {**values, "namespace": namespace, "why": why, "rarely": rarely}.items():
            object.__setattr__(self, name, value)
        if not self.resource or not self.verbs:
            raise ConfigError(f"Permission({group!r}, {resource!r}): say on which resource, and which verbs")

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{', '.join(self.verbs)} {self.resource}{group}{where}"

    def allows(self, verb: str, group: str, resource: str, name: str, namespace: str | None) -> bool:
        """Whether it gives leave for this."""
        return (
            (verb in self.verbs or "*" in self.verbs)
            and self.group in (group, "*")
            and self.resource in (resource, "*")
            and (not self.names or name in self.names)
            and self.namespace in (None, namespace)
        )


def permit(
    kind: Kind[Any],
    *verbs: str,
    part: str = "",
    names: Iterable[str] = (),
    namespace: str | None = None,
    why: str = "",
) -> Permission:
    """The same for a class: `permit(Deployment, "delete")`, `permit(Website, "update", part="scale")`."""
    group, resource = resource_of(kind)
    return Permission(
        group, f"{resource}/{part}" if part else resource, verbs, names=names, namespace=namespace, why=why
    )


def resource_of(kind: Kind[Any]) -> tuple[str, str]:
    """The group and the plural of a kind; that of a kind without a class is what an English reader expects."""
    view = view_of(kind)
    known = _PLURALS.get((view.gvk.group, view.gvk.kind))
    return view.gvk.group, known or (_guess(view.gvk) if view.definition is None else view.definition.plural)


def _guess(gvk: GroupVersionKind) -> str:
    return plural_of(gvk.kind)


def merge_rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """The rules of a Role that give leave for all these, wherever: merged, sorted, and nothing else."""
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
        for (group, names, what), several in sorted(resources.items(), key=_place_of)
    ]


def _place_of(pair: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]]) -> tuple[Any, ...]:
    (group, names, _), resources = pair
    return group, resources, names


def _drop_covered(verbs: dict[tuple[str, str, tuple[str, ...]], set[str]]) -> None:
    """What may be done with all objects need not be said again of some."""
    for group, resource, names in list(verbs):
        if names:
            verbs[group, resource, names] -= verbs.get((group, resource, ()), set())
            if not verbs[group, resource, names]:
                del verbs[group, resource, names]


def _sorted(verbs: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(verbs, key=lambda verb: (_RANK.get(verb, len(_RANK)), verb)))


def read_permissions(roles: Iterable[Any]) -> Sequence[Permission]:
    """What Roles and ClusterRoles, as trees, give leave for; other objects, and rules about URLs, are passed over."""
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
