"""Measures schemas: compiling one, and pruning, defaulting and validating an object with it.

Run `PYTHONPATH=src python benchmarks/schemas.py`. The custom resource is 1.5 KB of JSON; `admit` is measured
without errors. jsonschema-rs is measured too; it only validates.
"""

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from levelset.apiserver.schema import builtin_kind, check_structural, compile_schema

TEXT = {"type": "string"}
NAME = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
COUNT = {"type": "integer", "format": "int32", "minimum": 0}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["image", "replicas"],
            "properties": {
                "image": {"type": "string", "minLength": 1},
                "replicas": {**COUNT, "maximum": 1000},
                "paused": {"type": "boolean", "default": False},
                "strategy": {"type": "string", "enum": ["Rolling", "Recreate"], "default": "Rolling"},
                "nodeSelector": {"type": "object", "additionalProperties": TEXT},
                "ports": {
                    "type": "array",
                    "maxItems": 100,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name", "port"],
                        "properties": {
                            "name": NAME,
                            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                            "target": {"x-kubernetes-int-or-string": True},
                            "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
                        },
                    },
                },
                "env": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": TEXT, "value": TEXT, "secret": {"type": "string", "nullable": True}},
                    },
                },
                "resources": {
                    "type": "object",
                    "properties": {
                        "cpu": {"x-kubernetes-int-or-string": True},
                        "memory": {"x-kubernetes-int-or-string": True},
                    },
                },
                "schedule": {
                    "type": "object",
                    "properties": {"cron": TEXT, "timezone": TEXT, "suspend": {"type": "boolean"}},
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "observedGeneration": {"type": "integer", "format": "int64"},
                "phase": TEXT,
                "ready": COUNT,
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type", "status"],
                        "properties": {
                            "type": TEXT,
                            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                            "reason": TEXT,
                            "message": {"type": "string", "maxLength": 32768},
                            "lastTransitionTime": TEXT,
                            "observedGeneration": {"type": "integer"},
                        },
                    },
                },
            },
        },
    },
}

OBJECT: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {
        "name": "widget-1",
        "namespace": "default",
        "uid": "0f0c7d2e-7f1e-4b9a-9c57-2b8f4c6f7a10",
        "resourceVersion": "123456",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "widget", "tier": "backend", "team": "platform"},
        "annotations": {
            "example.com/owner": "platform@example.com",
            "example.com/note": "rolled out by the nightly pipeline, see the change log for what is in it",
            "example.com/change": "0f0c7d2e7f1e4b9a9c572b8f4c6f7a10",
        },
    },
    "spec": {
        "image": "registry.example.com/widgets/backend:1.2.3",
        "replicas": 3,
        "nodeSelector": {"disk": "ssd", "zone": "a"},
        "ports": [
            {"name": "http", "port": 80, "target": 8080, "protocol": "TCP"},
            {"name": "metrics", "port": 9090, "target": "metrics"},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "REGION", "value": "eu-west-1"},
            {"name": "PASSWORD", "secret": "database"},
            {"name": "CACHE", "value": "redis://cache:6379/0"},
        ],
        "resources": {"cpu": "500m", "memory": "512Mi"},
        "schedule": {"cron": "*/5 * * * *", "timezone": "Europe/Berlin", "suspend": False},
    },
    "status": {
        "observedGeneration": 3,
        "phase": "Running",
        "ready": 3,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "AllReplicasReady",
                "message": "all replicas are ready",
                "lastTransitionTime": "2026-01-02T03:05:05Z",
                "observedGeneration": 3,
            },
            {
                "type": "Progressing",
                "status": "False",
                "reason": "Done",
                "message": "the rollout has finished",
                "lastTransitionTime": "2026-01-02T03:05:00Z",
                "observedGeneration": 3,
            },
        ],
    },
}

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {
        "restartPolicy": "Always",
        "containers": [
            {
                "name": "web",
                "image": "nginx:1.27",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}


def best(call: Callable[[], object], *, rounds: int = 3000, number: int = 40) -> float:
    """Microseconds per call in the best of many short rounds, because the machine is shared."""
    shortest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(number):
            call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest / number * 1e6


def fresh() -> float:
    """Milliseconds to compile the schema and admit the first object."""
    start = time.perf_counter()
    compile_schema(SCHEMA).admit(copy.deepcopy(OBJECT))
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    print(f"object: {len(json.dumps(OBJECT, separators=(',', ':')))} bytes")
    print(f"compile and first object: {min(fresh() for _ in range(50)):.2f} ms")
    print(f"check_structural: {best(lambda: check_structural(SCHEMA, 'x'), rounds=50, number=1) / 1e3:.2f} ms")
    compiled, tree = compile_schema(SCHEMA), copy.deepcopy(OBJECT)
    assert not compiled.admit(tree).causes
    print(f"admit (prune + default + validate): {best(lambda: compiled.admit(tree)):.2f} us")
    print(f"validate: {best(lambda: compiled.validate(tree)):.2f} us")
    broken = copy.deepcopy(OBJECT)
    broken["spec"]["replicas"], broken["spec"]["ports"][0]["port"] = "many", 0
    print(f"admit with two errors: {best(lambda: compiled.admit(broken), rounds=200, number=5):.0f} us")
    start = time.perf_counter()
    kind = builtin_kind("", "v1", "Pod")
    assert kind is not None
    pod = copy.deepcopy(POD)
    assert not kind.admit(pod).causes
    print(f"first Pod (read, compile, admit): {(time.perf_counter() - start) * 1e3:.1f} ms")
    print(f"admit a Pod: {best(lambda: kind.admit(pod)):.2f} us")
    oracle(tree)


def oracle(tree: dict[str, Any]) -> None:
    validator = jsonschema_rs.Draft4Validator(SCHEMA)
    print(f"jsonschema-rs, validation only: {best(lambda: validator.is_valid(tree)):.2f} us")


if __name__ == "__main__":
    main()
