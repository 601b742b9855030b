"""What was remembered of one object never changes the answer to another: specs, outlines and plans are cached."""

import json
from typing import Any

import pytest

from levelset.http import read_all
from levelset.objects.json_tree import copy_tree
from tests.apiserver.support.in_process_server import InProcessServer, open_server

UID: dict[str, Any] = {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "args": ["--verbose"],
            "env": [{"name": "A", "value": "1"}, UID],
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
}


def spec(**container: Any) -> Any:
    made: Any = copy_tree(SPEC)
    made["containers"][0].update(container)
    return made


VARIANTS: dict[str, Any] = {
    "all members": spec(),
    "another image and other arguments": spec(image="web:2", args=["--quiet", "-x"]),
    "no arguments": spec(args=[]),
    "an empty value of a variable": spec(env=[{"name": "A", "value": ""}, UID]),
    "a variable with a value and a source": spec(env=[{**UID, "name": "A", "value": "1"}, UID]),
    "a variable twice": spec(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    "a variable of itself": spec(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
    "a fraction of a byte": spec(resources={"requests": {"memory": "1500m"}, "limits": {"memory": "128Mi"}}),
    "a request above its limit": spec(resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "128Mi"}}),
    "empty limits": spec(resources={"requests": {"memory": "64Mi"}, "limits": {}}),
    "only empty limits": spec(resources={"limits": {}}),
    "no resources": spec(resources={}),
    "no ports": spec(ports=[]),
    "no image": spec(image=""),
    "an empty selector of nodes": {**spec(), "nodeSelector": {}},
    "an old label of nodes": {**spec(), "nodeSelector": {"beta.kubernetes.io/arch": "amd64"}},
    "an empty security context": {**spec(), "securityContext": {}},
    "null volumes": {**spec(volumeMounts=None), "volumes": None},
}
KINDS = {
    "Pod": ("v1", "/api/v1/namespaces/default/pods"),
    "Deployment": ("apps/v1", "/apis/apps/v1/namespaces/default/deployments"),
}


def body(kind: str, name: str, of: Any) -> dict[str, Any]:
    if kind == "Deployment":
        labels = {"app": "web"}
        of = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": of}}
    return {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": {"name": name}, "spec": of}


async def answer(api: InProcessServer, method: str, path: str, sent: Any) -> Any:
    """Code, spec or causes, the fields that the writer owns, and warnings."""
    response = await api.send(method, path, sent)
    shown = json.loads(await read_all(response))
    causes = shown.get("details", {}).get("causes")
    owned = [one["fieldsV1"] for one in shown["metadata"].get("managedFields", ())]
    warnings = [value for key, value in response.headers if key.lower() == "warning"]
    return response.status, shown.get("spec", causes), owned, warnings


@pytest.mark.parametrize("kind", KINDS)
async def test_the_answer_to_a_write_is_the_same_whatever_was_written_before(kind: str) -> None:
    path = KINDS[kind][1]
    seen: dict[str, Any] = {}
    for place, order in enumerate((list(VARIANTS), list(reversed(VARIANTS)), list(VARIANTS))):
        async with open_server() as api:
            for number, variant in enumerate(order):
                name = f"of-{place}-{number}"
                created = await answer(api, "POST", path, body(kind, name, copy_tree(VARIANTS[variant])))
                updated = await answer(api, "PUT", f"{path}/{name}", body(kind, name, spec(image="web:9")))
                back = await answer(api, "PUT", f"{path}/{name}", body(kind, name, copy_tree(VARIANTS[variant])))
                assert seen.setdefault(variant, [created, updated, back]) == [created, updated, back], variant
