"""Expressions of admission policies: their variables, what they may construct, and the authorizer."""

from typing import Any

import pytest

from levelset.cel import (
    STRING,
    Authorizer,
    CompileError,
    Decision,
    EvaluationError,
    PathCheck,
    ResourceCheck,
    compile_rule,
    list_of,
    policy_declarations,
)

REQUEST = {"name": "a", "userInfo": {"username": "jane"}, "operation": "CREATE", "dryRun": False}


def decide(check: PathCheck | ResourceCheck, verb: str, user: str | None) -> Decision:
    """All users may read pods; a service account may read everything."""
    if isinstance(check, PathCheck):
        return Decision(check.path == "/healthz")
    return Decision(verb == "get" and (check.resource == "pods" or user is not None), "because", "")


def run(text: str, **values: Any) -> Any:
    known = policy_declarations({"names": list_of(STRING)}, has_params=True, is_mutating=True)
    return compile_rule(text, known, None)({"request": REQUEST, "authorizer": Authorizer(decide), **values})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("!has(object.data) || !('bad' in object.data)", {"object": {"data": {"good": "1"}}}),
        ("variables.names.all(n, n.startsWith('k'))", {"variables": {"names": ["k1", "k2"]}}),
        ("object.data.map(k, k) == ['a']", {"object": {"data": {"a": "1"}}}),
        ("oldObject.metadata.name != 'keep'", {"oldObject": {"metadata": {"name": "other"}}}),
        ("object.data.size() <= params.spec.max", {"object": {"data": {}}, "params": {"spec": {"max": 1}}}),
        ("request.userInfo.username != 'joe' || request.name != 'secret'", {}),
        ("object == null && request.operation == 'CREATE'", {"object": None}),
        ("authorizer.group('').resource('pods').namespace('x').check('get').allowed()", {}),
        ("authorizer.path('/healthz').check('get').allowed()", {}),
        ("!authorizer.group('apps').resource('deployments').check('get').allowed()", {}),
        ("authorizer.serviceAccount('ns', 'sa').group('apps').resource('d').check('get').reason() == 'because'", {}),
        (
            "authorizer.requestResource.check('get').allowed()",
            {"authorizer.requestResource": ResourceCheck(Authorizer(decide), "", "pods")},
        ),
    ],
)
def test_a_policy_is_evaluated(text: str, values: dict[str, Any]) -> None:
    assert run(text, **values) is True


def test_objects_and_patches_may_be_written_out() -> None:
    text = "Object{spec: Object.spec{replicas: object.spec.replicas + 1, ?paused: object.spec.?paused}}"
    assert run(text, object={"spec": {"replicas": 1}}) == {"spec": {"replicas": 2}}
    text = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}]"
    assert run(text) == [{"op": "add", "path": "/metadata/labels/a~1b", "value": "x"}]


@pytest.mark.parametrize("text", ["object.data <", "request.nothing", "variables.other", "JSONPatch{what: 1}"])
def test_variables_and_functions_that_a_policy_does_not_have_are_refused(text: str) -> None:
    with pytest.raises(CompileError):
        run(text)


def test_a_result_of_type_dyn_is_not_accepted_as_a_bool() -> None:
    program = compile_rule("object.metadata.name", policy_declarations(), None)
    assert str(program.type) == "dyn"
    with pytest.raises(CompileError):
        compile_rule("object.metadata.name", policy_declarations())


@pytest.mark.parametrize(
    "text", ["authorizer.path(' ')", "authorizer.group('').resource('')", "authorizer.serviceAccount('A', 'b')"]
)
def test_an_authorizer_check_with_an_invalid_name_is_an_error(text: str) -> None:
    with pytest.raises(EvaluationError):
        run(text)


def test_authorizer_checks_have_a_high_cost() -> None:
    check = "authorizer.group('').resource('pods').check('get').allowed()"
    program = compile_rule(f"{check} && {check}", policy_declarations())
    assert program.cost.most > 700_000
