import base64

import pytest

from levelset.apiserver.registry.builtin.rules.config_rules import MAX_DATA as MAX_DATA_BYTES
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

CONFIGMAPS, SECRETS = ("", "v1", "configmaps"), ("", "v1", "secrets")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def test_the_default_type_of_a_secret_is_opaque() -> None:
    kinds = await KindsHarness.make()
    assert (await kinds.create(SECRETS, {}))["type"] == "Opaque"


async def test_string_data_of_a_secret_becomes_data() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(SECRETS, {"data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "ü"}})
    assert made["data"] == {"a": "MQ==", "b": base64.b64encode("ü".encode()).decode()}
    assert "stringData" not in made


async def test_the_type_of_a_secret_requires_keys_and_is_immutable() -> None:
    kinds = await KindsHarness.make()
    refused = await kinds.refused(SECRETS, {"type": "kubernetes.io/tls", "data": {"tls.crt": "MQ=="}})
    assert refused == {"data[tls.key]": "FieldValueRequired"}
    made = await kinds.create(SECRETS, {})
    assert await kinds.refused_update(SECRETS, {**made, "type": "other"}) == {"type": "FieldValueInvalid"}


@pytest.mark.parametrize("key", ["a b", "", ".", "..", "..a", "a/b", "x" * 254, "a\n"])
async def test_invalid_keys_are_rejected(key: str) -> None:
    kinds = await KindsHarness.make()
    assert await kinds.refused(CONFIGMAPS, {"data": {key: "x"}}) == {f"data[{key}]": "FieldValueInvalid"}


@pytest.mark.parametrize("key", [".a", "a.b-c_D", "x" * 253, "a..b"])
async def test_dots_dashes_and_letters_are_valid_in_keys(key: str) -> None:
    kinds = await KindsHarness.make()
    assert (await kinds.create(CONFIGMAPS, {"data": {key: "x"}}))["data"] == {key: "x"}


async def test_a_key_is_in_data_or_binary_data_but_not_both() -> None:
    kinds = await KindsHarness.make()
    refused = await kinds.refused(CONFIGMAPS, {"data": {"k": "x"}, "binaryData": {"k": "MQ=="}})
    assert refused == {"data[k]": "FieldValueInvalid"}


async def test_the_size_of_data_is_limited_in_bytes() -> None:
    kinds = await KindsHarness.make()
    await kinds.create(CONFIGMAPS, {"data": {"k": "x" * MAX_DATA_BYTES}})
    assert await kinds.refused(CONFIGMAPS, {"data": {"k": "x" * (MAX_DATA_BYTES + 1)}}) == {"[]": "FieldValueTooLong"}
    assert await kinds.refused(CONFIGMAPS, {"data": {"k": "ü" * (MAX_DATA_BYTES // 2 + 1)}}) == {
        "[]": "FieldValueTooLong"
    }
    binary = base64.b64encode(b"x" * (MAX_DATA_BYTES + 1)).decode()
    assert await kinds.refused(SECRETS, {"data": {"k": binary}}) == {"data": "FieldValueTooLong"}


async def test_an_immutable_object_cannot_change() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(CONFIGMAPS, {"data": {"k": "x"}, "immutable": True})
    refused = await kinds.refused_update(CONFIGMAPS, {**made, "data": {"k": "y"}, "immutable": False})
    assert refused == {"data": "FieldValueForbidden", "immutable": "FieldValueForbidden"}
