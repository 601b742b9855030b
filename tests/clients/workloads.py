"""Simulates the workload controllers of a cluster: writes the statuses of rolled out Deployments and completed Jobs."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.clients.verbs import Plain

__all__ = ["playing_workloads"]

Tree = dict[str, Any]
_NOW = "2026-01-01T00:00:00Z"
_EVERY = 0.1


@contextmanager
def playing_workloads(namespace: str) -> Iterator[None]:
    """Rolls out every Deployment of the namespace and completes every Job, until the block ends."""
    plain, stop = Plain(), threading.Event()

    def play() -> None:
        while not stop.wait(_EVERY):
            try:
                _play(plain, namespace)
            except (OSError, RuntimeError):
                continue  # the server is being started again, or another writer was faster: retry

    player = threading.Thread(target=play)
    player.start()
    try:
        yield
    finally:
        stop.set()
        player.join()


def _play(plain: Plain, namespace: str) -> None:
    apps, batch = (f"/apis/{group}/v1/namespaces/{namespace}" for group in ("apps", "batch"))
    for deployment in plain.must("GET", f"{apps}/deployments")["items"]:
        if deployment.get("status", {}).get("observedGeneration") != deployment["metadata"]["generation"]:
            _roll_out(plain, apps, deployment)
    for job in plain.must("GET", f"{batch}/jobs")["items"]:
        if not job.get("status", {}).get("succeeded"):
            _complete(plain, f"{batch}/jobs/{job['metadata']['name']}/status", job)


def _roll_out(plain: Plain, apps: str, deployment: Tree) -> None:
    """Creates the ReplicaSet of the template, and reports all replicas as ready."""
    count = deployment["spec"]["replicas"]
    made = _replica_set(deployment)
    path = f"{apps}/replicasets/{made['metadata']['name']}"
    there = plain.must("GET", path) if plain.has(path) else plain.must("POST", f"{apps}/replicasets", made)
    there["spec"]["replicas"] = count
    there = plain.must("PUT", path, there)
    numbers = {"replicas": count, "readyReplicas": count, "availableReplicas": count}
    there["status"] = {**numbers, "observedGeneration": there["metadata"]["generation"]}
    plain.must("PUT", f"{path}/status", there)
    conditions = [_condition("Available", "MinimumReplicasAvailable")]
    conditions.append(_condition("Progressing", "NewReplicaSetAvailable"))
    seen = deployment["metadata"]["generation"]
    status = {**numbers, "updatedReplicas": count, "observedGeneration": seen, "conditions": conditions}
    path = f"{apps}/deployments/{deployment['metadata']['name']}/status"
    plain.must("PUT", path, deployment | {"status": status})


def _replica_set(deployment: Tree) -> Tree:
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    code = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    labels = template["metadata"]["labels"] | {"pod-template-hash": code}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{code}",
            "labels": labels,
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "replicas": deployment["spec"]["replicas"],
            "selector": {"matchLabels": labels},
            "template": template | {"metadata": template["metadata"] | {"labels": labels}},
        },
    }


def _complete(plain: Plain, path: str, job: Tree) -> None:
    conditions = [_condition("SuccessCriteriaMet", "CompletionsReached"), _condition("Complete", "CompletionsReached")]
    times = {"startTime": _NOW, "completionTime": _NOW}
    plain.must("PUT", path, job | {"status": {"succeeded": 1, "conditions": conditions, **times}})


def _condition(kind: str, reason: str) -> Tree:
    times = {"lastTransitionTime": _NOW, "lastUpdateTime": _NOW} if kind in ("Available", "Progressing") else {}
    return {"type": kind, "status": "True", "reason": reason, "message": reason, "lastTransitionTime": _NOW, **times}
