"""Classes generated from the OpenAPI documents of a server."""

import asyncio
import json
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import load_package_data
from levelset.codegen.models.from_openapi import models_from_openapi
from levelset.errors import BadObject
from levelset.http import Headers, Request
from levelset.kinds.core_v1 import PodTemplateSpec
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import decode, decode_tree, definition_of, encode, encode_tree
from tests.codegen.golden_files import check_text
from tests.codegen.public_crds import document, load
from tests.codegen.random_objects import ObjectGenerator, lost
from tests.codegen.sample_crd import crd

CERTIFICATES = document("certificates.cert-manager.io")
SERVICES = document("virtualservices.networking.istio.io")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    load_package_data()


@pytest.fixture
async def server():
    made = ApiServer()
    await made.start(listen=False)
    yield made
    await made.stop()


async def send(server: ApiServer, path: str, body: Any = None) -> Any:
    headers = Headers({"authorization": f"Bearer {server.token}", "content-type": "application/json"})
    data = b"" if body is None else json.dumps(body).encode()
    response: Any = server.handle(Request("GET" if body is None else "POST", path, "", headers, data))
    found = response if hasattr(response, "body") else await response
    return json.loads(found.body)


async def install(server: ApiServer, definition: Any) -> None:
    made = await send(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert made["kind"] == "CustomResourceDefinition", made


async def generate(server: ApiServer, group: str, version: str) -> str:
    path = f"apis/{group}/{version}" if group else f"api/{version}"
    listed = await send(server, f"/{path}")
    found = await send(server, f"/openapi/v3/{path}")
    (text,) = models_from_openapi(found, group=group, version=version, resources=listed["resources"]).values()
    return text


async def test_a_custom_kind_of_a_live_server_becomes_a_class(server):
    await install(server, CERTIFICATES)
    text = await generate(server, "cert-manager.io", "v1")
    await asyncio.to_thread(check_text, "models/cert_manager_v1.py.txt", text)
    found = definition_of(load("generated_live", text).Certificate)
    assert (found.plural, found.short_names, found.categories) == ("certificates", ("cert", "certs"), ("cert-manager",))


async def test_objects_round_trip_through_classes_of_a_live_server(server):
    await install(server, SERVICES)
    kind = load("generated_istio", await generate(server, "networking.istio.io", "v1")).VirtualService
    versions = {one["name"]: one["schema"]["openAPIV3Schema"] for one in SERVICES["spec"]["versions"]}
    schema = versions["v1"]
    for seed in range(5):
        data = encode_tree(ObjectGenerator(seed=seed).object(schema, "networking.istio.io/v1", "VirtualService"))
        assert encode(decode(kind, data)) == data
    tree = ObjectGenerator(full=True).object(schema, "networking.istio.io/v1", "VirtualService")
    found = decode(kind, encode_tree(tree))
    made = kind(metadata=found.metadata, spec=found.spec, status=found.status)
    assert lost(tree, decode_tree(encode_tree(made))) == []


async def test_parts_of_builtin_kinds_are_the_existing_classes(server):
    module = load("generated_apps", await generate(server, "apps", "v1"))
    assert module.PodTemplateSpec is PodTemplateSpec
    assert module.LabelSelector is LabelSelector
    assert "PodTemplateSpec" not in module.__all__
    assert definition_of(module.Deployment).short_names == ("deploy",)


async def test_without_discovery_plural_and_scope_come_from_the_paths(server):
    found = await send(server, "/openapi/v3/apis/rbac.authorization.k8s.io/v1")
    (text,) = models_from_openapi(found, group="rbac.authorization.k8s.io", version="v1").values()
    module = load("generated_rbac", text)
    assert definition_of(module.ClusterRole).scope == "Cluster"
    assert definition_of(module.Role).plural == "roles"


async def test_only_the_requested_kinds_are_generated(server):
    found = await send(server, "/openapi/v3/apis/apps/v1")
    files = models_from_openapi(found, group="apps", version="v1", kinds=["ReplicaSet"])
    assert list(files) == ["apps_v1.py"]
    module = load("generated_replicas", files["apps_v1.py"])
    assert hasattr(module, "ReplicaSetSpec")
    assert not hasattr(module, "Deployment")
    with pytest.raises(BadObject, match="OpenAPI document of apps/v1 has no Gadget; `kubectl api-resources` lists"):
        models_from_openapi(found, group="apps", version="v1", kinds=["Gadget"])


@pytest.mark.parametrize("broken", [None, {}, {"components": {"schemas": []}}, {"components": 7}])
def test_an_invalid_document_is_refused(broken):
    with pytest.raises(BadObject, match="this is not an OpenAPI v3 document of example.dev/v1"):
        models_from_openapi(broken, group="example.dev", version="v1")


def schemas(**more: Any) -> dict[str, Any]:
    gvk = [{"group": "example.dev", "version": "v1", "kind": "Gadget"}]
    gadget = {"type": "object", "properties": {"spec": {"$ref": "#/components/schemas/dev.example.v1.Tree"}}}
    return {
        "components": {"schemas": {"dev.example.v1.Gadget": {**gadget, "x-kubernetes-group-version-kind": gvk}, **more}}
    }


def test_definitions_may_be_recursive_and_share_their_last_word():
    tree = {
        "type": "object",
        "properties": {
            "leaves": {"type": "array", "items": {"$ref": "#/components/schemas/dev.example.v1.Tree"}},
            "other": {"$ref": "#/components/schemas/dev.example.v2.Tree"},
            "after": {"$ref": "#/components/schemas/dev.example.Duration"},
        },
    }
    more = {
        "dev.example.v1.Tree": tree,
        "dev.example.v2.Tree": {"type": "object", "properties": {"a": {"type": "string"}}},
        "dev.example.Duration": {"type": "string"},
    }
    (text,) = models_from_openapi(schemas(**more), group="example.dev", version="v1").values()
    module = load("generated_trees", text)
    leaf = module.Tree(after="5s", other=module.V2Tree(a="b"))
    made = module.Gadget.new("one", module.Tree(leaves=(leaf,)))
    assert decode(module.Gadget, encode(made)) == made


def test_a_missing_definition_is_reported_with_its_location():
    with pytest.raises(BadObject, match=r"OpenAPI of example.dev/v1 at Gadget.spec: it refers to dev.example.v1.Tree"):
        models_from_openapi(schemas(), group="example.dev", version="v1")


async def test_crd_and_openapi_give_the_same_members(server):
    definition = crd()
    definition["spec"]["versions"] = definition["spec"]["versions"][:1]
    await install(server, definition)
    module = load("generated_live_gadgets", await generate(server, "example.dev", "v1"))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert set(module.GadgetSpec.__struct_encode_fields__) == set(root["properties"]["spec"]["properties"])
