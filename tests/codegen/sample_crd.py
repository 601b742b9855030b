"""A CustomResourceDefinition that uses all features of schemas, and some invalid ones."""

from copy import deepcopy
from typing import Any

__all__ = ["SPEC", "crd"]

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
TEXT = {"type": "string"}
SECRET = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "key": TEXT}}
CONDITION = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime"],
    "properties": {
        "type": TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": TEXT,
        "message": TEXT,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    },
}

SPEC: dict[str, Any] = {
    "type": "object",
    "description": 'What a gadget is to be.\n\nSecond paragraph with a \\ and """quotes""".',
    "required": ["size", "mode", "filled", "maybe"],
    "properties": {
        "size": {"type": "integer", "description": "How large."},
        "mode": {"type": "string", "enum": ["Fast", "Slow", ""]},
        "filled": {"type": "string", "default": "by the server"},
        "maybe": {"type": "string", "nullable": True},
        "level": {"type": "integer", "enum": [1, 2, 3]},
        "ratio": {"type": "number"},
        "enabled": {"type": "boolean", "enum": [True]},
        "since": {"type": "string", "format": "date-time"},
        "bytes": {"type": "string", "format": "byte"},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "memory": {"x-kubernetes-int-or-string": True, "pattern": QUANTITY},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "owners": {"type": "array", "items": TEXT, "nullable": True},
        "defaults": {"type": "array", "items": TEXT, "default": ["a"]},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "podIP"],
            "items": {
                "type": "object",
                "required": ["name", "podIP"],
                "properties": {"name": TEXT, "podIP": TEXT, "podIp": TEXT},
            },
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
            },
        },
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "holes": {"type": "array", "items": {"type": "string", "nullable": True}},
        "labels": {"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
        "by-name": {"type": "object", "additionalProperties": SECRET},
        "nested": {"type": "object", "additionalProperties": {"type": "array", "items": SECRET}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "half": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": TEXT}},
        "embedded": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "embeddedTyped": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}},
        },
        "options": {"type": "object", "default": {}, "properties": {"deep": {"type": "boolean"}}},
        "from": SECRET,
        "class": TEXT,
        "str": TEXT,
        "field": TEXT,
        "$ref": TEXT,
        "3d": TEXT,
        "oneOf": {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "oneOf": [{"required": ["a"]}]},
        "usages": {
            "type": "array",
            "items": {"type": "string", "enum": [f"a rather long value {n}" for n in range(6)]},
        },
    },
}


def crd(**changes: Any) -> dict[str, Any]:
    """The CRD; `changes` replace fields of its spec."""
    plain = {"type": "object", "properties": {"data": {"type": "object", "additionalProperties": TEXT}, "type": TEXT}}
    old = {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": 'use "v1"',
        "schema": {"openAPIV3Schema": plain},
    }
    gone = {"name": "v0", "served": False, "storage": False, "schema": {"openAPIV3Schema": plain}}
    names = {"kind": "Gadget", "plural": "gadgetry", "singular": "gadget", "shortNames": ["gd"], "categories": ["all"]}
    spec = {"group": "example.dev", "scope": "Cluster", "names": names, "versions": [_newest(), old, gone]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgetry.example.dev"},
        "spec": {**spec, **changes},
    }


def _newest() -> dict[str, Any]:
    """The version with all features."""
    column = {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas", "priority": 1}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
    return {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root()},
        "additionalPrinterColumns": [column],
        "subresources": {"status": {}, "scale": {**scale, "labelSelectorPath": ".status.x"}},
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    }


def _root() -> dict[str, Any]:
    status = {
        "type": "object",
        "properties": {"conditions": {"type": "array", "items": CONDITION}, "readyReplicas": {"type": "integer"}},
    }
    return {
        "type": "object",
        "description": "A gadget.",
        "required": ["spec"],
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object"},
            "spec": deepcopy(SPEC),
            "status": status,
            "name": TEXT,
        },
    }
