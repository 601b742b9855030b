"""References to other objects, and selectors of nodes.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from levelset.kinds.enums import NodeSelectorOperator, TaintEffect, TolerationOperator
from levelset.objects import Model

__all__ = [
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "ObjectReference",
    "SecretReference",
    "Toleration",
    "TopologySelectorLabelRequirement",
    "TopologySelectorTerm",
    "TypedLocalObjectReference",
    "TypedObjectReference",
]


class LocalObjectReference(Model):
    """Another object in the same namespace, by name."""

    name: str | None = None


class NodeSelectorRequirement(Model):
    """One of `matchExpressions` of NodeSelectorTerm, and others."""

    key: str
    operator: NodeSelectorOperator
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model):
    """One of `nodeSelectorTerms` of NodeSelector."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model):
    """Which nodes are meant, said by several terms of which one must fit."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


class ObjectReference(Model):
    """Another object, of any kind."""

    api_version: str | None = None
    field_path: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    uid: str | None = None


class SecretReference(Model):
    """A Secret in any namespace."""

    name: str | None = None
    namespace: str | None = None


class Toleration(Model):
    """A taint of nodes that a Pod puts up with."""

    effect: TaintEffect | None = None
    key: str | None = None
    operator: TolerationOperator | None = None
    toleration_seconds: int | None = None
    value: str | None = None


class TopologySelectorLabelRequirement(Model):
    """One of `matchLabelExpressions` of TopologySelectorTerm."""

    key: str
    values: tuple[str, ...]


class TopologySelectorTerm(Model):
    """Which parts of the cluster are meant, said by labels."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class TypedLocalObjectReference(Model):
    """Another object in the same namespace, of any kind."""

    kind: str
    name: str
    api_group: str | None = None


class TypedObjectReference(Model):
    """Another object in any namespace, of any kind."""

    kind: str
    name: str
    api_group: str | None = None
    namespace: str | None = None
