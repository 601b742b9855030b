"""Who makes policies and bindings must be allowed to read their parameters."""

from typing import Any

from tests.apiserver.roles import Town, open_town, rule
from tests.apiserver.ruling import BINDINGS, VALIDATING, binding, validating

SECRETS = {"apiVersion": "v1", "kind": "Secret"}
GONE = {"apiVersion": "example.com/v1", "kind": "Gone"}
GROUP = "admissionregistration.k8s.io"
ALL = "validatingadmissionpolicies validatingadmissionpolicybindings"


async def jane(town: Town, path: str, body: Any) -> Any:
    return await town.ask("jane", "POST", path, body)


async def test_a_policy_may_not_look_at_what_its_author_may_not_read() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("*", ALL, group=GROUP), namespace=None)
        assert (await jane(town, VALIDATING, validating("true")))[0] == 201
        status, told = await jane(town, VALIDATING, validating("true", name="q", paramKind=SECRETS))
        (cause,) = told["details"]["causes"]
        detail = "all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        assert (status, cause["field"]) == (422, "spec.paramKind")
        assert cause["message"] == f'Forbidden: user jane must have "get" permission on {detail}'
        await town.allow("jane", rule("get", "secrets"))
        assert (await jane(town, VALIDATING, validating("true", name="q", paramKind=SECRETS)))[0] == 422
        await town.allow("jane", rule("get", "secrets"), namespace=None)
        assert (await jane(town, VALIDATING, validating("true", name="q", paramKind=SECRETS)))[0] == 201
        assert (await jane(town, VALIDATING, validating("true", name="r", paramKind=GONE)))[0] == 422


async def test_a_binding_may_not_name_what_its_author_may_not_read() -> None:
    ref = {"name": "x", "namespace": "default", "parameterNotFoundAction": "Deny"}
    anywhere = {"selector": {}, "parameterNotFoundAction": "Deny"}
    async with open_town() as town:
        await town.allow("jane", rule("*", ALL, group=GROUP), namespace=None)
        await town.own("POST", VALIDATING, validating("true", paramKind=SECRETS))
        status, told = await jane(town, BINDINGS, binding(paramRef=ref))
        assert (status, told["details"]["causes"][0]["field"]) == (422, "spec.paramRef")
        await town.allow("jane", rule("get", "secrets", names="x"))
        assert (await jane(town, BINDINGS, binding(paramRef=ref)))[0] == 201
        assert (await jane(town, BINDINGS, binding(name="c", paramRef=anywhere)))[0] == 422
        assert (await jane(town, BINDINGS, binding("nothing", "c", paramRef=ref)))[0] == 422
        patched = await town.ask(
            *("jane", "PATCH", f"{BINDINGS}/b", {"metadata": {"labels": {"a": "b"}}}),
            headers={"content-type": "application/merge-patch+json"},
        )
        assert patched[0] == 200
