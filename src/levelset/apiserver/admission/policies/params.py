"""Parameters of admission policies: resolves the `paramRef` of a binding; read from the store for every write."""

from collections.abc import Sequence
from typing import Any

import msgspec

from levelset.apiserver.admission.match_rules import read_selector
from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.errors import LevelsetError
from levelset.objects import LabelSelector
from levelset.storage import Item

__all__ = [
    "BindingConfigurationError",
    "ParamKind",
    "ParamRef",
    "PolicyConfigurationError",
    "collect_params",
    "read_param_kind",
    "read_param_ref",
]


class PolicyConfigurationError(LevelsetError):
    """A policy cannot be evaluated as it is configured; its failure policy applies."""


class BindingConfigurationError(LevelsetError):
    """A binding cannot be evaluated as it is configured; the failure policy of its policy applies."""


class ParamKind(msgspec.Struct, frozen=True):
    """The kind of a policy's parameters."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        group_version = f"{self.group}/{self.version}" if self.group else f"/{self.version}"
        return f"{group_version}, Kind={self.kind}"


class ParamRef(msgspec.Struct, frozen=True):
    """The objects that are the parameters of a binding: one by name, or those that a selector matches."""

    name: str
    namespace: str
    selector: LabelSelector | None
    denies: bool
    """Whether a write is denied if there are none (`parameterNotFoundAction: Deny`)."""


def read_param_kind(tree: Any) -> ParamKind | None:
    """Reads the `paramKind` of a policy."""
    if not tree:
        return None
    group, _, version = str(tree.get("apiVersion") or "").rpartition("/")
    return ParamKind(group, version, str(tree.get("kind") or ""))


def read_param_ref(tree: Any) -> ParamRef | None:
    """Reads the `paramRef` of a binding."""
    if not tree:
        return None
    selector = None if tree.get("selector") is None else read_selector(tree["selector"])
    denies = tree.get("parameterNotFoundAction") == "Deny"
    return ParamRef(str(tree.get("name") or ""), str(tree.get("namespace") or ""), selector, denies)


async def collect_params(
    state: ServerState, kind: ParamKind | None, ref: ParamRef | None, namespace: str
) -> list[Tree | None]:
    """The parameters for a write in this namespace (empty: cluster-scoped); the policy is evaluated once with each.

    A single None stands for a policy without a paramKind or a binding without a paramRef. Raises
    PolicyConfigurationError if the kind is not served, BindingConfigurationError if the reference cannot be resolved.
    """
    if kind is None:
        return [None]
    served = state.catalog.by_gvk(kind.group, kind.version, kind.kind)
    if served is None:
        raise PolicyConfigurationError(f"failed to find resource referenced by paramKind: '{kind}'")
    if ref is None:
        return [None]
    params_namespace = _params_namespace(served, ref, namespace)
    found = (
        await _named(state, served, params_namespace, ref.name)
        if ref.name
        else await _selected(state, served, params_namespace, ref)
    )
    if not found and ref.denies:
        raise BindingConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [*found]


def _params_namespace(served: ServedResource, ref: ParamRef, namespace: str) -> str | None:
    if not served.namespaced:
        if ref.namespace:
            raise BindingConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return None
    if not ref.namespace and not namespace:
        raise BindingConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return ref.namespace or namespace


async def _named(state: ServerState, served: ServedResource, params_namespace: str | None, name: str) -> list[Tree]:
    item = state.reader.get_nowait(served.key(params_namespace, name))
    return [] if item is None else await _served_trees(served, [item])


async def _selected(
    state: ServerState, served: ServedResource, params_namespace: str | None, ref: ParamRef
) -> list[Tree]:
    page = await state.storage.list(served.prefix_in(params_namespace))
    selector = ref.selector or LabelSelector.everything()
    trees = await _served_trees(served, page.items)
    return [tree for tree in trees if selector.matches(tree["metadata"].get("labels"))]


async def _served_trees(served: ServedResource, items: Sequence[Item]) -> list[Tree]:
    if served.converts_by_webhook:
        await conversion_webhook.convert_items(served, items)
    return [served_tree(served, item) for item in items]
