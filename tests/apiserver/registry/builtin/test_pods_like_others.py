"""A pod spec like one that is well known is answered as if it were the first: what differs is checked each time."""

import json
from typing import Any

import pytest

from levelset.apiserver.registry.builtin import pods
from levelset.apiserver.registry.builtin.rules.pods import pod_spec
from levelset.http import read_all
from levelset.objects.json_tree import copy_tree
from tests.apiserver.support.in_process_server import InProcessServer, open_server

PODS = "/api/v1/namespaces/default/pods"
UID: dict[str, Any] = {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "args": ["--verbose"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            ],
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


async def create(api: InProcessServer, name: str, of: Any) -> tuple[int, Any, list[str]]:
    """Code, spec or causes, and warnings."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": of}
    response = await api.send("POST", PODS, body)
    shown = json.loads(await read_all(response))
    causes = shown.get("details", {}).get("causes")
    return (
        response.status,
        shown.get("spec", causes),
        [value for key, value in response.headers if key.lower() == "warning"],
    )


VARIANTS = {
    "the same": spec(),
    "another image and other arguments": spec(image="web:2", args=["--quiet", "-x"]),
    "no arguments": spec(args=[]),
    "an empty value of a variable": spec(env=[{"name": "A", "value": ""}, UID]),
    "a variable with a value and a source": spec(env=[{**UID, "name": "A", "value": "1"}, UID]),
    "a variable twice": spec(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    "a variable of itself": spec(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
    "a fraction of a byte": spec(resources={"requests": {"memory": "1500m"}, "limits": {"memory": "128Mi"}}),
    "a request above its limit": spec(resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "128Mi"}}),
    "no limits": spec(resources={"requests": {"memory": "64Mi"}, "limits": {}}),
    "no image": spec(image=""),
    "an old label of nodes": {**spec(), "nodeSelector": {"beta.kubernetes.io/arch": "amd64"}},
}


def forget() -> None:
    pods._plain.clear()
    for one in pod_spec._VALID:
        one.clear()


@pytest.mark.parametrize("first", VARIANTS)
async def test_what_was_created_before_does_not_change_the_answer(first: str) -> None:
    async with open_server() as api:
        expected = {}
        for place, (name, one) in enumerate(VARIANTS.items()):
            forget()
            expected[name] = await create(api, f"alone-{place}", one)
        forget()
        for number in range(3):
            await create(api, f"first-{number}", VARIANTS[first])
        found = {name: await create(api, f"then-{place}", one) for place, (name, one) in enumerate(VARIANTS.items())}
    assert found == expected


async def test_a_template_that_was_created_twice_is_well_known_whatever_its_image_and_amounts() -> None:
    forget()
    async with open_server() as api:
        for number in range(3):
            await create(api, f"web-{number}", spec(image=f"web:{number}"))
        assert pods.plain_spec() is not None
        await create(api, "other", spec(resources={"requests": {"memory": "5Mi"}, "limits": {"memory": "6Mi"}}))
        assert pods.plain_spec()["containers"][0]["resources"]["requests"] == {"memory": "5Mi"}
        await create(api, "new", spec(workingDir="/srv"))
        await create(api, "new-again", spec(workingDir="/srv"))
        assert pods.plain_spec()["containers"][0]["workingDir"] == "/srv"


async def test_an_object_whose_spec_is_not_what_go_writes_is_never_well_known() -> None:
    forget()
    async with open_server() as api:
        for number in range(3):
            await create(api, f"web-{number}", spec(args=[]))
        assert pods.plain_spec() is None
