import base64

import pytest

from levelset.apiserver.registry.builtin.config_and_namespaces import LARGEST
from tests.apiserver.kinds_world import KindsWorld, load_data

CONFIGMAPS, SECRETS, NAMESPACES = ("", "v1", "configmaps"), ("", "v1", "secrets"), ("", "v1", "namespaces")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def test_a_secret_is_opaque_unless_it_says_otherwise() -> None:
    kinds = await KindsWorld.make()
    assert (await kinds.create(SECRETS, {}))["type"] == "Opaque"


async def test_plain_texts_of_a_secret_become_data() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.create(SECRETS, {"data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "ü"}})
    assert made["data"] == {"a": "MQ==", "b": base64.b64encode("ü".encode()).decode()}
    assert "stringData" not in made


async def test_the_type_of_a_secret_promises_keys_and_never_changes() -> None:
    kinds = await KindsWorld.make()
    refused = await kinds.refused(SECRETS, {"type": "kubernetes.io/tls", "data": {"tls.crt": "MQ=="}})
    assert refused == {"data[tls.key]": "FieldValueRequired"}
    made = await kinds.create(SECRETS, {})
    assert await kinds.refused_update(SECRETS, {**made, "type": "other"}) == {"type": "FieldValueInvalid"}


@pytest.mark.parametrize("key", ["a b", "", ".", "..", "..a", "a/b", "x" * 254, "a\n"])
async def test_keys_are_file_names(key: str) -> None:
    kinds = await KindsWorld.make()
    assert await kinds.refused(CONFIGMAPS, {"data": {key: "x"}}) == {f"data[{key}]": "FieldValueInvalid"}


@pytest.mark.parametrize("key", [".a", "a.b-c_D", "x" * 253, "a..b"])
async def test_dots_dashes_and_letters_make_a_key(key: str) -> None:
    kinds = await KindsWorld.make()
    assert (await kinds.create(CONFIGMAPS, {"data": {key: "x"}}))["data"] == {key: "x"}


async def test_a_key_is_text_or_bytes_but_not_both() -> None:
    kinds = await KindsWorld.make()
    refused = await kinds.refused(CONFIGMAPS, {"data": {"k": "x"}, "binaryData": {"k": "MQ=="}})
    assert refused == {"data[k]": "FieldValueInvalid"}


async def test_data_has_a_largest_size_in_bytes() -> None:
    kinds = await KindsWorld.make()
    await kinds.create(CONFIGMAPS, {"data": {"k": "x" * LARGEST}})
    assert await kinds.refused(CONFIGMAPS, {"data": {"k": "x" * (LARGEST + 1)}}) == {"[]": "FieldValueTooLong"}
    assert await kinds.refused(CONFIGMAPS, {"data": {"k": "ü" * (LARGEST // 2 + 1)}}) == {"[]": "FieldValueTooLong"}
    binary = base64.b64encode(b"x" * (LARGEST + 1)).decode()
    assert await kinds.refused(SECRETS, {"data": {"k": binary}}) == {"data": "FieldValueTooLong"}


async def test_what_is_immutable_stays_so() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.create(CONFIGMAPS, {"data": {"k": "x"}, "immutable": True})
    refused = await kinds.refused_update(CONFIGMAPS, {**made, "data": {"k": "y"}, "immutable": False})
    assert refused == {"data": "FieldValueForbidden", "immutable": "FieldValueForbidden"}


async def test_a_namespace_starts_active_with_a_label_of_its_own_name() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.create(NAMESPACES, {"status": {"phase": "Odd"}}, name="x")
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


async def test_an_update_of_a_namespace_leaves_spec_status_and_its_own_label() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.create(NAMESPACES, {}, name="x")
    changed = {**made, "spec": {}, "status": {}, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    found = await kinds.update(NAMESPACES, changed)
    assert found["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "x"}
    assert (found["spec"], found["status"]) == (made["spec"], made["status"])
