"""MutatingAdmissionPolicies as a client meets them: what becomes of what is written, and what cannot be done."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.mutating import MutatingPolicy
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box
from tests.apiserver.ruling import MUTATING, MUTATING_BINDINGS, binding, mutating, request, rule, rule_by, validating

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
FOR_DEPLOYMENTS = {"resourceRules": [rule("deployments", groups=("apps",))]}
LABELS = {"app": "x"}
CONTAINER = {"name": "main", "image": "one"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}},
    },
}


async def problem(box: Box, body: Any = None) -> str:
    status, told = await box.ask("POST", CONFIGMAPS, body or {**configmap("a"), "data": {"k": "v"}})
    assert (status, told["reason"]) == (403, "Invalid"), told
    start = "policy 'm' with binding 'm' denied request: "
    assert told["message"].startswith(start)
    assert told["details"]["causes"] == [{"message": told["message"]}]
    return str(told["message"]).removeprefix(start)


async def test_an_object_is_laid_over_what_is_written() -> None:
    sidecar = "Object.spec.template.spec.containers{name: 'side', image: 'two'}"
    inner = f"Object.spec.template.spec{{containers: [{sidecar}]}}"
    text = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {inner}}}}}}}"
    async with open_box() as box:
        await rule_by(box, mutating(text, match=FOR_DEPLOYMENTS))
        made = await box.make(DEPLOYMENTS, DEPLOYMENT)
    found = made["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["image"]) for one in found] == [("main", "one"), ("side", "two")]
    assert found[1]["imagePullPolicy"] == "Always"  # it gets what every container gets


async def test_a_patch_is_applied_to_what_is_written() -> None:
    patch = """[
        JSONPatch{op: 'test', path: '/data/k', value: 'v'},
        JSONPatch{op: 'replace', path: '/data/k', value: 'w'},
        JSONPatch{op: 'add', path: '/metadata/labels', value: {'example.com/a': object.metadata.name}},
        JSONPatch{op: 'copy', from: '/data/k', path: '/data/l'},
        JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('b/c'), value: 'd'}
    ]"""
    async with open_box() as box:
        await rule_by(box, mutating(patch))
        made = await box.make(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        other = await box.make(CONFIGMAPS, {**configmap("b"), "data": {"k": "other"}})
    assert made["data"] == {"k": "w", "l": "w"}
    assert made["metadata"]["labels"] == {"example.com/a": "a", "b/c": "d"}
    assert (other["data"], "labels" in other["metadata"]) == ({"k": "other"}, False)  # a test failed: nothing is done


async def test_mutations_see_what_those_before_have_done() -> None:
    first = "Object{data: {'n': '1'}}"
    second = "[JSONPatch{op: 'add', path: '/data/m', value: object.data.n + variables.more}]"
    variables = [{"name": "more", "expression": "object.data.n + '!'"}]
    async with open_box() as box:
        await rule_by(box, mutating(first, second, variables=variables))
        assert (await box.make(CONFIGMAPS, configmap("a")))["data"] == {"n": "1", "m": "11!"}


async def test_what_policies_make_of_an_object_is_judged_like_any_other() -> None:
    async with open_box() as box:
        await rule_by(box, mutating("[JSONPatch{op: 'add', path: '/data', value: {'no way': 'x'}}]"))
        status, told = await box.ask("POST", CONFIGMAPS, configmap("a"))
        assert (status, told["reason"]) == (422, "Invalid")
        assert told["details"]["causes"][0]["field"] == "data[no way]"


async def test_updates_are_changed_too_and_deletions_are_left_alone() -> None:
    async with open_box() as box:
        match = {"resourceRules": [rule(operations=["*"])]}
        await rule_by(box, mutating("Object{data: {'k': request.operation}}", match=match))
        await box.make(CONFIGMAPS, configmap("a"))
        status, made = await box.ask("PUT", f"{CONFIGMAPS}/a", configmap("a"))
        assert (status, made["data"]) == (200, {"k": "UPDATE"})
        assert (await box.ask("DELETE", f"{CONFIGMAPS}/a"))[0] == 200


@pytest.mark.parametrize(("policy", "seen"), [("Never", "v"), ("IfNeeded", "v again")])
async def test_a_policy_is_asked_again_if_it_wants_to_be(policy: str, seen: str) -> None:
    first = "Object{data: {'seen': has(object.data) && 'k' in object.data ? object.data.k + ' again' : 'v'}}"
    async with open_box() as box:
        await rule_by(box, mutating(first, name="a", reinvocationPolicy=policy))
        await rule_by(box, mutating("Object{data: {'k': 'v'}}", name="b"))
        assert (await box.make(CONFIGMAPS, configmap("a")))["data"] == {"k": "v", "seen": seen}


async def test_parameters_are_taken_one_after_the_other() -> None:
    text = "[JSONPatch{op: 'add', path: '/data/' + params.metadata.name, value: params.data.v}]"
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    ref = {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"}
    async with open_box() as box:
        for name in ("x", "y"):
            await box.make(CONFIGMAPS, {**configmap(name, labels={"is": "param"}), "data": {"v": name * 2}})
        await rule_by(box, mutating(text, paramKind=kind), paramRef=ref)
        made = await box.make(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
    assert made["data"] == {"k": "v", "x": "xx", "y": "yy"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Object{data: {'k': object.spec.n}}", "expression '{text}' resulted in error: no such key: spec"),
        (
            "Object{metadata: Object.spec{name: 'x'}}",
            'type mismatch: unexpected type name "Object.spec", expected "Object.metadata", which matches field',
        ),
        (
            "Object{spec: Object.spec{n: 1}}",
            "error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema",
        ),
        ("[JSONPatch{op: 'remove', path: '/data/nothing'}]", "JSONPath: operation 0 (remove /data/nothing)"),
        ("[JSONPatch{op: 'dance', path: '/data'}]", "JSONPath: "),
    ],
)
async def test_what_cannot_be_done_refuses_the_write(text: str, told: str) -> None:
    async with open_box() as box:
        await rule_by(box, mutating(text))
        assert (await problem(box)).startswith(told.replace("{text}", text))


async def test_lists_that_are_one_value_cannot_be_laid_over() -> None:
    text = (
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{"
        "containers: [Object.spec.template.spec.containers{name: 'main', command: ['x']}]}}}}"
    )
    async with open_box() as box:
        await rule_by(box, mutating(text, match=FOR_DEPLOYMENTS))
        status, told = await box.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    tail = "may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].command"
    assert status == 403
    assert told["message"].endswith(f"error applying patch: invalid ApplyConfiguration: {tail}")


async def test_what_cannot_be_done_is_left_undone_if_the_policy_says_so() -> None:
    async with open_box() as box:
        broken = {"name": "c", "expression": "object.spec.n == 1"}
        gone = {"apiVersion": "example.com/v1", "kind": "Gone"}
        ignored = {"failurePolicy": "Ignore"}
        await rule_by(box, mutating("Object{data: {'k': object.spec.n}}", "Object{data: {'l': 'm'}}", **ignored))
        await rule_by(box, mutating("Object{}", name="n", matchConditions=[broken], **ignored))
        await rule_by(box, mutating("Object{}", name="o", paramKind=gone, **ignored))
        assert (await box.make(CONFIGMAPS, configmap("a")))["data"] == {"l": "m"}


async def test_bindings_and_policies_that_cannot_be_held_to_refuse_the_write() -> None:
    ref = {"name": "nothing", "parameterNotFoundAction": "Deny"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    async with open_box() as box:
        await rule_by(box, mutating("Object{}", paramKind=kind), paramRef=ref)
        status, told = await box.ask("POST", CONFIGMAPS, configmap("a"))
        tail = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        assert (status, told["reason"]) == (403, "Forbidden")
        assert told["message"] == f"policy 'm' with binding 'm' denied request: {tail}"
        await box.ask("DELETE", f"{MUTATING}/m")
        await box.make(MUTATING, mutating("Object{}", paramKind={"apiVersion": "example.com/v1", "kind": "Gone"}))
        status, told = await box.ask("POST", CONFIGMAPS, configmap("a"))
    tail = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gone'"
    assert (status, told["message"]) == (403, f'policy "m" denied request: {tail}')


async def test_names_stay_as_they_are() -> None:
    async with open_box() as box:
        await rule_by(box, mutating("Object{metadata: Object.metadata{name: 'other'}}"))
        status, told = await box.ask("POST", CONFIGMAPS, configmap("a"))
    assert (status, told["message"]) == (
        500,
        "Internal error occurred: policy 'm' failed: name, namespace and uid of an object stay as they are",
    )


async def test_what_mutating_policies_do_is_judged_by_validating_ones() -> None:
    async with open_box() as box:
        await box.make(MUTATING, mutating("Object{data: {'k': 'bad'}}"))
        await box.make(MUTATING_BINDINGS, binding("m", "m", None))
        await rule_by(box, validating("object.data.k != 'bad'"))
        assert (await box.ask("POST", CONFIGMAPS, configmap("a")))[0] == 422


@pytest.mark.parametrize(("failure", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_stored_policy_that_does_not_compile_here_is_not_passed_over(failure: str, *, allowed: bool) -> None:
    asked = request(configmap("a"))
    async with open_box() as box:
        made = MutatingPolicy(box.server.world, mutating("magic()", failurePolicy=failure), [binding("m", "b", None)])
        response = await made.review(asked, None)
    assert response["allowed"] is allowed
    assert "patch" not in response
    if not allowed:
        assert "policy 'm' with binding 'b' denied request: compilation error: " in str(made.refusal(asked, response))
