import pytest

from levelset.apiserver.registry.builtin.strategies import builtin_rules
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.objects.names import check_dns1035_label, check_path_segment
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

RBAC = "rbac.authorization.k8s.io"
BINDINGS = (RBAC, "v1", "rolebindings")

SIGNING_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0eERUQUxCZ05WQkFvTUJHUmxkbk14RFRB"
    "TEJnTlZCQU1NQkdwaGJtVXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVRWVWdZOVRIOEYwVm8wRGxvUDNraE9k"
    "NWwyaERuTTJRSUVPQTQyClZJNFAwb3M4bFFUV2tXVldWTmNCYXh0VWR6M3pyeEhaekhHUUI4ZWFzaFBlQXlHYW9BQXdDZ1lJS29a"
    "SXpqMEUKQXdJRFNBQXdSUUloQUl1emhxdnpMUGQ3RDZWTUpFSWduN056MnhWV0FaRlpyQlJ3ZHhUWW1EazlBaUFWNDU0Ngo0NlF4"
    "UmJieitEVlpXZWdlSE4vaUVTbkltZUZWcTh2WHNuS3dEdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


@pytest.mark.parametrize("kind", [("apps", "Deployment"), ("", "Pod"), ("policy", "PodDisruptionBudget")])
def test_kinds_with_a_spec_have_a_generation(kind: tuple[str, str]) -> None:
    assert builtin_rules(*kind).generation


@pytest.mark.parametrize("kind", [("", "ConfigMap"), ("", "Secret"), ("", "Namespace"), (RBAC, "Role")])
def test_data_kinds_have_no_generation(kind: tuple[str, str]) -> None:
    assert not builtin_rules(*kind).generation


def test_some_kinds_require_a_resource_version_in_updates() -> None:
    assert builtin_rules("", "ConfigMap").unconditional_update
    assert not builtin_rules("coordination.k8s.io", "Lease").unconditional_update
    assert not builtin_rules("apiextensions.k8s.io", "CustomResourceDefinition").unconditional_update


def test_some_kinds_can_be_created_by_an_update() -> None:
    assert builtin_rules("coordination.k8s.io", "Lease").create_on_update
    assert not builtin_rules("", "ConfigMap").create_on_update


def test_the_name_of_a_role_can_be_any_path_segment() -> None:
    assert check_path_segment("system:node-proxier") == []
    assert check_path_segment("a/b") != []
    assert check_path_segment("..") != []
    assert builtin_rules(RBAC, "ClusterRole").name_check is check_path_segment


@pytest.mark.parametrize("name", ["a", "web-1", "a" * 63])
def test_the_name_of_a_service_begins_with_a_letter(name: str) -> None:
    assert check_dns1035_label(name) == []


@pytest.mark.parametrize("name", ["", "1a", "Web", "a.b", "a-", "a" * 64, "a\n"])
def test_other_names_are_invalid_for_a_service(name: str) -> None:
    assert check_dns1035_label(name) != []


async def test_the_role_of_a_binding_is_immutable() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(BINDINGS, {"roleRef": {"kind": "Role", "name": "r"}})
    assert made["roleRef"]["apiGroup"] == RBAC
    made["roleRef"]["name"] = "s"
    assert await kinds.refused_update(BINDINGS, made) == {"roleRef": "FieldValueInvalid"}


async def test_the_spec_of_a_volume_claim_that_is_not_bound_is_immutable() -> None:
    kinds = await KindsHarness.make()
    path = ("", "v1", "persistentvolumeclaims")
    resources = {"requests": {"storage": "1Gi"}}
    made = await kinds.create(path, {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}})
    assert made["status"] == {"phase": "Pending"}
    made["spec"]["resources"] = {"requests": {"storage": "2Gi"}}
    assert await kinds.refused_update(path, made) == {"spec": "FieldValueForbidden"}  # the claim is not bound
    made["spec"]["resources"] = resources
    made["spec"]["accessModes"] = ["ReadWriteMany"]
    assert await kinds.refused_update(path, made) == {"spec": "FieldValueForbidden"}


async def test_the_spec_of_a_certificate_signing_request_is_immutable() -> None:
    kinds = await KindsHarness.make()
    path = ("certificates.k8s.io", "v1", "certificatesigningrequests")
    made = await kinds.create(path, {"spec": {"request": SIGNING_REQUEST, "signerName": "a.com/b", "usages": ["any"]}})
    made["spec"]["signerName"] = "other.com/b"
    assert (await kinds.update(path, made))["spec"]["signerName"] == "a.com/b"


async def test_a_certificate_signing_request_is_approved_through_its_subresource() -> None:
    kinds = await KindsHarness.make()
    path = ("certificates.k8s.io", "v1", "certificatesigningrequests")
    made = await kinds.create(path, {"spec": {"request": SIGNING_REQUEST, "signerName": "a.com/b", "usages": ["any"]}})
    approved = {**made, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    assert (await kinds.update(path, approved))["status"] == {}
    options = WriteOptions(subresource="approval")
    written = await create_and_update.update(kinds.state, kinds.served(path), None, "a", approved, options=options)
    assert written.tree["status"]["conditions"][0]["type"] == "Approved"


async def test_the_spec_finalizers_of_a_namespace_are_changed_through_its_subresource() -> None:
    kinds = await KindsHarness.make()
    path = ("", "v1", "namespaces")
    made = await kinds.create(path, {}, name="x")
    options = WriteOptions(subresource="finalize")
    written = await create_and_update.update(
        kinds.state, kinds.served(path), None, "x", {**made, "spec": {}}, options=options
    )
    assert not written.tree["spec"].get("finalizers")
