"""The author of a policy or binding must be allowed to read its parameters."""

from typing import Any

from tests.apiserver.support.admission_policies import BINDINGS, VALIDATING, binding, validating
from tests.apiserver.support.rbac_server import RbacServer, open_rbac_server, rule

SECRETS = {"apiVersion": "v1", "kind": "Secret"}
GONE = {"apiVersion": "example.com/v1", "kind": "Gone"}
GROUP = "admissionregistration.k8s.io"
ALL = "validatingadmissionpolicies validatingadmissionpolicybindings"


async def jane(api: RbacServer, path: str, body: Any) -> Any:
    return await api.request("jane", "POST", path, body)


async def test_a_policy_author_must_be_able_to_read_its_param_kind() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("*", ALL, group=GROUP), namespace=None)
        assert (await jane(api, VALIDATING, validating("true")))[0] == 201
        status, error = await jane(api, VALIDATING, validating("true", name="q", paramKind=SECRETS))
        (cause,) = error["details"]["causes"]
        detail = "all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        assert (status, cause["field"]) == (422, "spec.paramKind")
        assert cause["message"] == f'Forbidden: user jane must have "get" permission on {detail}'
        await api.grant("jane", rule("get", "secrets"))
        assert (await jane(api, VALIDATING, validating("true", name="q", paramKind=SECRETS)))[0] == 422
        await api.grant("jane", rule("get", "secrets"), namespace=None)
        assert (await jane(api, VALIDATING, validating("true", name="q", paramKind=SECRETS)))[0] == 201
        assert (await jane(api, VALIDATING, validating("true", name="r", paramKind=GONE)))[0] == 422


async def test_a_binding_author_must_be_able_to_read_its_params() -> None:
    ref = {"name": "x", "namespace": "default", "parameterNotFoundAction": "Deny"}
    anywhere = {"selector": {}, "parameterNotFoundAction": "Deny"}
    async with open_rbac_server() as api:
        await api.grant("jane", rule("*", ALL, group=GROUP), namespace=None)
        await api.request_as_owner("POST", VALIDATING, validating("true", paramKind=SECRETS))
        status, error = await jane(api, BINDINGS, binding(paramRef=ref))
        assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.paramRef")
        await api.grant("jane", rule("get", "secrets", names="x"))
        assert (await jane(api, BINDINGS, binding(paramRef=ref)))[0] == 201
        assert (await jane(api, BINDINGS, binding(name="c", paramRef=anywhere)))[0] == 422
        assert (await jane(api, BINDINGS, binding("nothing", "c", paramRef=ref)))[0] == 422
        patched = await api.request(
            *("jane", "PATCH", f"{BINDINGS}/b", {"metadata": {"labels": {"a": "b"}}}),
            headers={"content-type": "application/merge-patch+json"},
        )
        assert patched[0] == 200
