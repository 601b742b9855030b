"""The kinds that these tests use: two built-in ones, and a custom one with a random group for each test."""

import uuid
from typing import Any

from levelset.objects import Object, Resource, Spec, Status, Unstructured

__all__ = [
    "ConfigMap",
    "Namespace",
    "WidgetSpec",
    "WidgetStatus",
    "definition",
    "is_established",
    "new_group",
    "widget_class",
]


class Namespace(Object, api="v1", scope="Cluster"):
    """A part of the cluster."""


class ConfigMap(Object, api="v1"):
    """Settings."""

    data: dict[str, str] = {}


class WidgetSpec(Spec):
    """The desired state."""

    color: str = ""
    replicas: int = 1


class WidgetStatus(Status):
    """The observed state."""

    replicas: int = 0


def new_group() -> str:
    """A random API group, unique to a test."""
    return f"w{uuid.uuid4().hex[:10]}.levelset.example"


def widget_class(group: str) -> type[Resource[WidgetSpec, WidgetStatus]]:
    """The class of Widgets in this group."""

    class Widget(Resource[WidgetSpec, WidgetStatus], api=f"{group}/v1"):
        """A thing with a color."""

    return Widget


def definition(group: str) -> Unstructured:
    """The CRD of Widgets in this group."""
    whole = {"type": "integer"}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"color": {"type": "string"}, "replicas": whole}},
            "status": {"type": "object", "properties": {"replicas": whole}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    return Unstructured(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version],
            },
        }
    )


def is_established(found: Any) -> bool:
    """Whether a CRD is established."""
    if not isinstance(found, Unstructured):
        return False
    conditions = found.tree.get("status", {}).get("conditions") or []  # null until the first one is set
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
