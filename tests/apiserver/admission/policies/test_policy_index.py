"""Which policies are active: a policy and a binding that names it, from one request to the next."""

from typing import Any

from levelset.storage import MemoryStorage
from tests.apiserver.support.admission_policies import (
    BINDINGS,
    MUTATING,
    MUTATING_BINDINGS,
    VALIDATING,
    binding,
    enforce_policy,
    mutating,
    rule,
    validating,
)
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server


async def outcome(api: InProcessServer) -> int:
    return (await api.request("POST", CONFIGMAPS, configmap("a"), dryRun="All"))[0]


async def test_a_policy_without_a_binding_does_nothing() -> None:
    async with open_server() as api:
        await api.create(VALIDATING, validating("false"))
        assert await outcome(api) == 201
        assert api.server.state.admission is None


async def test_a_policy_is_active_while_it_and_its_binding_exist() -> None:
    async with open_server() as api:
        await api.create(BINDINGS, binding())
        assert await outcome(api) == 201
        await api.create(VALIDATING, validating("false"))
        assert await outcome(api) == 422
        await api.request("DELETE", f"{BINDINGS}/b")
        assert await outcome(api) == 201
        await api.create(BINDINGS, binding())
        assert await outcome(api) == 422
        await api.request("DELETE", f"{VALIDATING}/p")
        assert await outcome(api) == 201
        assert api.server.state.admission is None


async def test_a_change_of_a_policy_or_binding_is_effective_for_the_next_request() -> None:
    kind = "application/merge-patch+json"
    async with open_server() as api:
        await enforce_policy(api, validating("false"))
        await api.request("PATCH", f"{VALIDATING}/p", {"spec": {"validations": [{"expression": "true"}]}}, kind=kind)
        assert await outcome(api) == 201
        await api.request("PATCH", f"{VALIDATING}/p", {"spec": {"validations": [{"expression": "false"}]}}, kind=kind)
        assert await outcome(api) == 422
        await api.request("PATCH", f"{BINDINGS}/p", {"spec": {"policyName": "other"}}, kind=kind)
        assert await outcome(api) == 201
        await api.request("PATCH", f"{BINDINGS}/p", {"spec": {"policyName": "p"}}, kind=kind)
        assert await outcome(api) == 422


async def test_stored_policies_and_bindings_are_active_after_a_restart() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as api:
        await enforce_policy(api, validating("false"))
        await enforce_policy(api, mutating("Object{data: {'k': 'v'}}"))
    async with open_server(storage) as api:
        assert await outcome(api) == 422
        await api.request("DELETE", f"{BINDINGS}/p")
        assert (await api.create(CONFIGMAPS, configmap("a")))["data"] == {"k": "v"}


async def test_mutating_plugins_run_first_and_webhooks_after_policies() -> None:
    seen: list[Any] = []

    class Nosy:
        name, mutates, reinvokes = "nosy.example.com", True, False

        def matches(self, *_: Any) -> bool:
            return True

        async def review(self, request: Any, _space: Any) -> Any:
            seen.append(request["object"].get("data"))
            return {"uid": request["uid"], "allowed": True}

    async with open_server() as api:
        api.server.admit(Nosy())
        await enforce_policy(api, mutating("Object{data: {'k': 'v'}}"))
        await enforce_policy(api, validating("object.data.k == 'v'"))
        seen.clear()
        await api.create(CONFIGMAPS, configmap("a"))
    assert seen == [{"k": "v"}]


async def test_policies_are_evaluated_in_the_order_of_their_names() -> None:
    async with open_server() as api:
        for name in ("z", "a"):
            patch = f"[JSONPatch{{op: 'add', path: '/data/by', value: '{name}'}}]"
            await enforce_policy(api, mutating(patch, name=name))
        made = await api.create(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        assert made["data"] == {"k": "v", "by": "z"}


async def test_policies_do_not_apply_to_policies_and_bindings() -> None:
    match = {"resourceRules": [rule("*", groups=("*",), versions=("*",), operations=["*"])]}
    async with open_server() as api:
        await enforce_policy(api, validating("false", match=match))
        await enforce_policy(api, validating("true", name="q"))
        await api.create(MUTATING, mutating("Object{}"))
        await api.create(MUTATING_BINDINGS, binding("m", "m", None))
        assert await outcome(api) == 422
        for path in (f"{VALIDATING}/p", f"{BINDINGS}/p"):
            assert (await api.request("DELETE", path))[0] == 200


async def test_a_binding_can_narrow_the_resources_of_its_policy() -> None:
    async with open_server() as api:
        narrow = {"resourceRules": [rule(resourceNames=["a"])], "matchPolicy": "Exact"}
        await enforce_policy(api, validating("false"), matchResources=narrow)
        assert await outcome(api) == 422
        await api.create(CONFIGMAPS, configmap("b"))
        await api.request("DELETE", f"{BINDINGS}/p")
        labelled = {"objectSelector": {"matchLabels": {"check": "yes"}}}
        await api.create(BINDINGS, binding(matchResources=labelled))
        assert await outcome(api) == 201
        assert (await api.request("POST", CONFIGMAPS, configmap("c", labels={"check": "yes"})))[0] == 422
