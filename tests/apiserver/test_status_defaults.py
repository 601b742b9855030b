"""Defaults of a schema under `status`: a new object has them, whatever the client sent, and no manager owns them."""

from typing import Any

import pytest

from tests.apiserver.support.in_process_server import open_server
from tests.apiserver.support.kinds_harness import definition

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
WAITING = {"conditions": [{"type": "Accepted", "status": "Unknown"}]}
STATUS = {
    "type": "object",
    "default": WAITING,
    "properties": {
        "conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "phase": {"type": "string", "default": "New"},
    },
}
SPEC = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
VERSION = {
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
    "subresources": {"status": {}},
}


def widget(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, **parts}


@pytest.mark.parametrize("sent", [{}, {"spec": {}}, {"spec": {}, "status": {"phase": "Sent"}}])
async def test_a_new_object_has_the_defaults_of_its_status(sent: dict[str, Any]) -> None:
    async with open_server() as api:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(version=VERSION))
        made = await api.create(WIDGETS, widget(**sent))
        assert made["status"] == {**WAITING, "phase": "New"}
        assert (await api.request("GET", f"{WIDGETS}/a"))[1] == made
        owned = [entry["fieldsV1"] for entry in made["metadata"].get("managedFields", [])]
        assert all("f:status" not in fields for fields in owned)


async def test_an_applied_object_has_the_defaults_of_its_status() -> None:
    async with open_server() as api:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(version=VERSION))
        _, made = await api.request(
            "PATCH", f"{WIDGETS}/a", widget(spec={}), kind="application/apply-patch+yaml", fieldManager="m"
        )
        assert made["status"] == {**WAITING, "phase": "New"}
