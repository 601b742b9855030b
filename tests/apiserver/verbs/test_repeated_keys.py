import json

from tests.apiserver.support.in_process_server import open_server

REPEATED = b"""
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  a: b
  a: c
"""


async def test_a_repeated_key_of_yaml_is_a_warning_and_its_last_value_counts() -> None:
    async with open_server() as api:
        path = "/api/v1/namespaces/default/configmaps"
        line = 'line 7: key "a" already set in map'
        for method, where, media in (
            ("PATCH", f"{path}/x", "application/apply-patch+yaml"),
            ("POST", path, "application/yaml"),
        ):
            response = await api.send(method, where, REPEATED, kind=media, fieldManager="m", dryRun="All")
            assert response.status == 201, response.body
            quoted = line.replace('"', '\\"')
            assert ("Warning", f'299 - "{quoted}"') in response.headers
            assert isinstance(response.body, bytes)
            assert json.loads(response.body)["data"] == {"a": "c"}


async def test_a_repeated_key_of_yaml_is_refused_by_strict_validation() -> None:
    async with open_server() as api:
        path, strict = "/api/v1/namespaces/default/configmaps", {"fieldManager": "m", "fieldValidation": "Strict"}
        tail = 'yaml: unmarshal errors:\n  line 7: key "a" already set in map'
        status, answer = await api.request(
            "PATCH", f"{path}/x", REPEATED, kind="application/apply-patch+yaml", **strict
        )
        assert (status, answer["message"]) == (
            400,
            f"error strict decoding YAML: error converting YAML to JSON: {tail}",
        )
        status, answer = await api.request("POST", path, REPEATED, kind="application/yaml", **strict)
        text = f'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {tail}'
        assert (status, answer["message"]) == (400, text)
