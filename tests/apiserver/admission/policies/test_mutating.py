"""MutatingAdmissionPolicies through the API: how they change a write, and how they fail."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.mutating import MutatingPolicy
from tests.apiserver.support.admission_policies import (
    MUTATING,
    MUTATING_BINDINGS,
    binding,
    enforce_policy,
    mutating,
    request,
    rule,
    validating,
)
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server

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


async def problem(api: InProcessServer, body: Any = None) -> str:
    status, error = await api.request("POST", CONFIGMAPS, body or {**configmap("a"), "data": {"k": "v"}})
    assert (status, error["reason"]) == (403, "Invalid"), error
    start = "policy 'm' with binding 'm' denied request: "
    assert error["message"].startswith(start)
    assert error["details"]["causes"] == [{"message": error["message"]}]
    return str(error["message"]).removeprefix(start)


async def test_an_apply_configuration_is_merged_into_the_object() -> None:
    sidecar = "Object.spec.template.spec.containers{name: 'side', image: 'two'}"
    inner = f"Object.spec.template.spec{{containers: [{sidecar}]}}"
    text = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {inner}}}}}}}"
    async with open_server() as api:
        await enforce_policy(api, mutating(text, match=FOR_DEPLOYMENTS))
        made = await api.create(DEPLOYMENTS, DEPLOYMENT)
    found = made["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["image"]) for one in found] == [("main", "one"), ("side", "two")]
    assert found[1]["imagePullPolicy"] == "Always"  # it gets what every container gets


async def test_a_json_patch_is_applied_to_the_object() -> None:
    patch = """[
        JSONPatch{op: 'test', path: '/data/k', value: 'v'},
        JSONPatch{op: 'replace', path: '/data/k', value: 'w'},
        JSONPatch{op: 'add', path: '/metadata/labels', value: {'example.com/a': object.metadata.name}},
        JSONPatch{op: 'copy', from: '/data/k', path: '/data/l'},
        JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('b/c'), value: 'd'}
    ]"""
    async with open_server() as api:
        await enforce_policy(api, mutating(patch))
        made = await api.create(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        other = await api.create(CONFIGMAPS, {**configmap("b"), "data": {"k": "other"}})
    assert made["data"] == {"k": "w", "l": "w"}
    assert made["metadata"]["labels"] == {"example.com/a": "a", "b/c": "d"}
    assert (other["data"], "labels" in other["metadata"]) == ({"k": "other"}, False)  # the test operation failed


async def test_mutations_get_the_result_of_earlier_ones() -> None:
    first = "Object{data: {'n': '1'}}"
    second = "[JSONPatch{op: 'add', path: '/data/m', value: object.data.n + variables.more}]"
    variables = [{"name": "more", "expression": "object.data.n + '!'"}]
    async with open_server() as api:
        await enforce_policy(api, mutating(first, second, variables=variables))
        assert (await api.create(CONFIGMAPS, configmap("a")))["data"] == {"n": "1", "m": "11!"}


async def test_a_mutated_object_is_validated() -> None:
    async with open_server() as api:
        await enforce_policy(api, mutating("[JSONPatch{op: 'add', path: '/data', value: {'no way': 'x'}}]"))
        status, error = await api.request("POST", CONFIGMAPS, configmap("a"))
        assert (status, error["reason"]) == (422, "Invalid")
        assert error["details"]["causes"][0]["field"] == "data[no way]"


async def test_updates_are_mutated_and_deletions_are_not() -> None:
    async with open_server() as api:
        match = {"resourceRules": [rule(operations=["*"])]}
        await enforce_policy(api, mutating("Object{data: {'k': request.operation}}", match=match))
        await api.create(CONFIGMAPS, configmap("a"))
        status, made = await api.request("PUT", f"{CONFIGMAPS}/a", configmap("a"))
        assert (status, made["data"]) == (200, {"k": "UPDATE"})
        assert (await api.request("DELETE", f"{CONFIGMAPS}/a"))[0] == 200


@pytest.mark.parametrize(("policy", "seen"), [("Never", "v"), ("IfNeeded", "v again")])
async def test_a_policy_is_reinvoked_if_needed(policy: str, seen: str) -> None:
    first = "Object{data: {'seen': has(object.data) && 'k' in object.data ? object.data.k + ' again' : 'v'}}"
    async with open_server() as api:
        await enforce_policy(api, mutating(first, name="a", reinvocationPolicy=policy))
        await enforce_policy(api, mutating("Object{data: {'k': 'v'}}", name="b"))
        assert (await api.create(CONFIGMAPS, configmap("a")))["data"] == {"k": "v", "seen": seen}


async def test_a_policy_is_applied_once_per_parameter() -> None:
    text = "[JSONPatch{op: 'add', path: '/data/' + params.metadata.name, value: params.data.v}]"
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    ref = {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"}
    async with open_server() as api:
        for name in ("x", "y"):
            await api.create(CONFIGMAPS, {**configmap(name, labels={"is": "param"}), "data": {"v": name * 2}})
        await enforce_policy(api, mutating(text, paramKind=kind), paramRef=ref)
        made = await api.create(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
    assert made["data"] == {"k": "v", "x": "xx", "y": "yy"}


@pytest.mark.parametrize(
    ("text", "expected"),
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
async def test_a_failed_mutation_rejects_the_write(text: str, expected: str) -> None:
    async with open_server() as api:
        await enforce_policy(api, mutating(text))
        assert (await problem(api)).startswith(expected.replace("{text}", text))


async def test_atomic_lists_cannot_be_mutated_by_an_apply_configuration() -> None:
    text = (
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{"
        "containers: [Object.spec.template.spec.containers{name: 'main', command: ['x']}]}}}}"
    )
    async with open_server() as api:
        await enforce_policy(api, mutating(text, match=FOR_DEPLOYMENTS))
        status, error = await api.request("POST", DEPLOYMENTS, DEPLOYMENT)
    tail = "may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].command"
    assert status == 403
    assert error["message"].endswith(f"error applying patch: invalid ApplyConfiguration: {tail}")


async def test_a_failed_mutation_is_skipped_if_the_failure_policy_is_ignore() -> None:
    async with open_server() as api:
        broken = {"name": "c", "expression": "object.spec.n == 1"}
        gone = {"apiVersion": "example.com/v1", "kind": "Gone"}
        ignored = {"failurePolicy": "Ignore"}
        await enforce_policy(api, mutating("Object{data: {'k': object.spec.n}}", "Object{data: {'l': 'm'}}", **ignored))
        await enforce_policy(api, mutating("Object{}", name="n", matchConditions=[broken], **ignored))
        await enforce_policy(api, mutating("Object{}", name="o", paramKind=gone, **ignored))
        assert (await api.create(CONFIGMAPS, configmap("a")))["data"] == {"l": "m"}


async def test_misconfigured_policies_and_bindings_reject_the_write() -> None:
    ref = {"name": "nothing", "parameterNotFoundAction": "Deny"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    async with open_server() as api:
        await enforce_policy(api, mutating("Object{}", paramKind=kind), paramRef=ref)
        status, error = await api.request("POST", CONFIGMAPS, configmap("a"))
        tail = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        assert (status, error["reason"]) == (403, "Forbidden")
        assert error["message"] == f"policy 'm' with binding 'm' denied request: {tail}"
        await api.request("DELETE", f"{MUTATING}/m")
        await api.create(MUTATING, mutating("Object{}", paramKind={"apiVersion": "example.com/v1", "kind": "Gone"}))
        status, error = await api.request("POST", CONFIGMAPS, configmap("a"))
    tail = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gone'"
    assert (status, error["message"]) == (403, f'policy "m" denied request: {tail}')


async def test_a_policy_cannot_change_the_name_of_an_object() -> None:
    async with open_server() as api:
        await enforce_policy(api, mutating("Object{metadata: Object.metadata{name: 'other'}}"))
        status, error = await api.request("POST", CONFIGMAPS, configmap("a"))
    assert (status, error["message"]) == (
        500,
        "Internal error occurred: policy 'm' failed: it changed the name, namespace or uid of the object",
    )


async def test_validating_policies_get_the_result_of_mutating_ones() -> None:
    async with open_server() as api:
        await api.create(MUTATING, mutating("Object{data: {'k': 'bad'}}"))
        await api.create(MUTATING_BINDINGS, binding("m", "m", None))
        await enforce_policy(api, validating("object.data.k != 'bad'"))
        assert (await api.request("POST", CONFIGMAPS, configmap("a")))[0] == 422


@pytest.mark.parametrize(("failure", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_stored_policy_that_does_not_compile_follows_its_failure_policy(failure: str, *, allowed: bool) -> None:
    review = request(configmap("a"))
    async with open_server() as api:
        made = MutatingPolicy(api.server.state, mutating("magic()", failurePolicy=failure), [binding("m", "b", None)])
        response = await made.review(review, None)
    assert response["allowed"] is allowed
    assert "patch" not in response
    if not allowed:
        assert "policy 'm' with binding 'b' denied request: compilation error: " in str(made.denial(review, response))
