"""Which policies are in force: a policy and a binding that names it, from one request to the next."""

from typing import Any

from levelset.storage import MemoryStorage
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box
from tests.apiserver.ruling import (
    BINDINGS,
    MUTATING,
    MUTATING_BINDINGS,
    VALIDATING,
    binding,
    mutating,
    rule,
    rule_by,
    validating,
)


async def outcome(box: Box) -> int:
    return (await box.ask("POST", CONFIGMAPS, configmap("a"), dryRun="All"))[0]


async def test_a_policy_without_a_binding_does_nothing() -> None:
    async with open_box() as box:
        await box.make(VALIDATING, validating("false"))
        assert await outcome(box) == 201
        assert box.server.world.admission is None


async def test_a_policy_counts_from_its_binding_until_either_is_gone() -> None:
    async with open_box() as box:
        await box.make(BINDINGS, binding())
        assert await outcome(box) == 201
        await box.make(VALIDATING, validating("false"))
        assert await outcome(box) == 422
        await box.ask("DELETE", f"{BINDINGS}/b")
        assert await outcome(box) == 201
        await box.make(BINDINGS, binding())
        assert await outcome(box) == 422
        await box.ask("DELETE", f"{VALIDATING}/p")
        assert await outcome(box) == 201
        assert box.server.world.admission is None


async def test_a_change_of_a_policy_or_of_a_binding_counts_for_the_next_request() -> None:
    kind = "application/merge-patch+json"
    async with open_box() as box:
        await rule_by(box, validating("false"))
        await box.ask("PATCH", f"{VALIDATING}/p", {"spec": {"validations": [{"expression": "true"}]}}, kind=kind)
        assert await outcome(box) == 201
        await box.ask("PATCH", f"{VALIDATING}/p", {"spec": {"validations": [{"expression": "false"}]}}, kind=kind)
        assert await outcome(box) == 422
        await box.ask("PATCH", f"{BINDINGS}/p", {"spec": {"policyName": "other"}}, kind=kind)
        assert await outcome(box) == 201
        await box.ask("PATCH", f"{BINDINGS}/p", {"spec": {"policyName": "p"}}, kind=kind)
        assert await outcome(box) == 422


async def test_policies_and_bindings_that_are_stored_count_from_the_start() -> None:
    storage = MemoryStorage()
    async with open_box(storage) as box:
        await rule_by(box, validating("false"))
        await rule_by(box, mutating("Object{data: {'k': 'v'}}"))
    async with open_box(storage) as box:
        assert await outcome(box) == 422
        await box.ask("DELETE", f"{BINDINGS}/p")
        assert (await box.make(CONFIGMAPS, configmap("a")))["data"] == {"k": "v"}


async def test_those_who_change_come_first_and_webhooks_after_policies() -> None:
    seen: list[Any] = []

    class Nosy:
        name, mutates, reinvokes = "nosy.example.com", True, False

        def matches(self, *_: Any) -> bool:
            return True

        async def review(self, request: Any, _space: Any) -> Any:
            seen.append(request["object"].get("data"))
            return {"uid": request["uid"], "allowed": True}

    async with open_box() as box:
        box.server.admit(Nosy())
        await rule_by(box, mutating("Object{data: {'k': 'v'}}"))
        await rule_by(box, validating("object.data.k == 'v'"))
        seen.clear()
        await box.make(CONFIGMAPS, configmap("a"))
    assert seen == [{"k": "v"}]


async def test_policies_are_asked_in_the_order_of_their_names() -> None:
    async with open_box() as box:
        for name in ("z", "a"):
            patch = f"[JSONPatch{{op: 'add', path: '/data/by', value: '{name}'}}]"
            await rule_by(box, mutating(patch, name=name))
        made = await box.make(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        assert made["data"] == {"k": "v", "by": "z"}


async def test_policies_and_bindings_are_not_judged_by_policies() -> None:
    match = {"resourceRules": [rule("*", groups=("*",), versions=("*",), operations=["*"])]}
    async with open_box() as box:
        await rule_by(box, validating("false", match=match))
        await rule_by(box, validating("true", name="q"))
        await box.make(MUTATING, mutating("Object{}"))
        await box.make(MUTATING_BINDINGS, binding("m", "m", None))
        assert await outcome(box) == 422
        for path in (f"{VALIDATING}/p", f"{BINDINGS}/p"):
            assert (await box.ask("DELETE", path))[0] == 200


async def test_a_binding_may_leave_out_some_of_what_the_policy_is_for() -> None:
    async with open_box() as box:
        narrow = {"resourceRules": [rule(resourceNames=["a"])], "matchPolicy": "Exact"}
        await rule_by(box, validating("false"), matchResources=narrow)
        assert await outcome(box) == 422
        await box.make(CONFIGMAPS, configmap("b"))
        await box.ask("DELETE", f"{BINDINGS}/p")
        labelled = {"objectSelector": {"matchLabels": {"check": "yes"}}}
        await box.make(BINDINGS, binding(matchResources=labelled))
        assert await outcome(box) == 201
        assert (await box.ask("POST", CONFIGMAPS, configmap("c", labels={"check": "yes"})))[0] == 422
