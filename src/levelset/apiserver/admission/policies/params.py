"""The parameters of a policy: objects that its bindings name, read anew for every write that is judged by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from levelset.apiserver.admission.match_rules import read_selector
from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.errors import LevelsetError
from levelset.objects import LabelSelector
from levelset.storage import Item

__all__ = ["BadBinding", "BadPolicy", "ParamKind", "ParamRef", "collect_params", "read_param_kind", "read_param_ref"]


class BadPolicy(LevelsetError):
    """A policy that cannot be held to as it stands; its failure policy says what that means."""


class BadBinding(LevelsetError):
    """A binding that cannot be held to as it stands; the failure policy of its policy says what that means."""


@dataclass(frozen=True, slots=True)
class ParamKind:
    """The kind of a policy's parameters."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        place = f"{self.group}/{self.version}" if self.group else f"/{self.version}"
        return f"{place}, Kind={self.kind}"


@dataclass(frozen=True, slots=True)
class ParamRef:
    """Which objects are a binding's parameters: that of a name, or those with some labels."""

    name: str
    namespace: str
    selector: LabelSelector | None
    denies: bool
    """Whether a write is refused if there are none."""


def read_param_kind(tree: Any) -> ParamKind | None:
    """The `paramKind` of a policy."""
    if not tree:
        return None
    group, _, version = str(tree.get("apiVersion") or "").rpartition("/")
    return ParamKind(group, version, str(tree.get("kind") or ""))


def read_param_ref(tree: Any) -> ParamRef | None:
    """The `paramRef` of a binding."""
    if not tree:
        return None
    selector = None if tree.get("selector") is None else read_selector(tree["selector"])
    denies = tree.get("parameterNotFoundAction") == "Deny"
    return ParamRef(str(tree.get("name") or ""), str(tree.get("namespace") or ""), selector, denies)


async def collect_params(
    world: World, kind: ParamKind | None, ref: ParamRef | None, namespace: str
) -> list[Tree | None]:
    """The parameters for a write in this namespace (empty: in none): the policy is evaluated once with each.

    One None stands for a policy that has no parameters, or a binding that gives it none. Raises BadPolicy if there is
    no such kind, BadBinding if the reference cannot be followed.
    """
    if kind is None:
        return [None]
    served = world.catalog.by_gvk(kind.group, kind.version, kind.kind)
    if served is None:
        raise BadPolicy(f"failed to find resource referenced by paramKind: '{kind}'")
    if ref is None:
        return [None]
    home = _home(served, ref, namespace)
    found = await _named(world, served, home, ref.name) if ref.name else await _selected(world, served, home, ref)
    if not found and ref.denies:
        raise BadBinding("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [*found]


def _home(served: ServedResource, ref: ParamRef, namespace: str) -> str | None:
    if not served.namespaced:
        if ref.namespace:
            raise BadBinding("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return None
    if not ref.namespace and not namespace:
        raise BadBinding("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    return ref.namespace or namespace


async def _named(world: World, served: ServedResource, home: str | None, name: str) -> list[Tree]:
    key = served.key(home, name)
    item = await world.storage.get(key) if world.reader is None else world.reader.get_nowait(key)
    return [] if item is None else await _served_trees(served, [item])


async def _selected(world: World, served: ServedResource, home: str | None, ref: ParamRef) -> list[Tree]:
    page = await world.storage.list(served.prefix_in(home))
    selector = ref.selector or LabelSelector.everything()
    trees = await _served_trees(served, page.items)
    return [tree for tree in trees if selector.matches(tree["metadata"].get("labels"))]


async def _served_trees(served: ServedResource, items: Sequence[Item]) -> list[Tree]:
    if served.awaits:
        await conversion_webhook.convert(served, items)
    return [served_tree(served, item) for item in items]
