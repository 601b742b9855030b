"""Objects of built-in kinds, good and bad: the answers of kube-apiserver 1.36.4 are recorded, and ours are the same."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.strategies import RULE_TABLES, kind_rules
from levelset.http import Response
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.conformance.builtin import passed_rules, recorded_objects, recorded_resources, reported_rules
from tests.conformance.builtin.expected_differences import DIFFERENCES

for _area in recorded_objects.AREAS:  # read before an event loop runs
    recorded_objects.load(_area)
    recorded_objects.answers(_area)
recorded_resources.openapi_of_definitions()
recorded_resources.pod_security()
_places: dict[str, set[reported_rules.Place]] = {}
"""Where the rules reported causes while the answers of an area were replayed."""
_evaluated = passed_rules.Evaluated()
"""Which rules were evaluated for the objects that were accepted."""


@pytest.mark.parametrize("area", recorded_objects.AREAS)
async def test_objects_are_answered_as_recorded_in_memory(area: str):
    with reported_rules.noted() as _places[area], passed_rules.nothing_remembered():
        await _replay(area, MemoryStorage(), _evaluated)


@pytest.mark.parametrize("area", recorded_objects.AREAS)
async def test_objects_are_answered_as_recorded_in_sqlite(area: str, tmp_path: Path):
    storage = await asyncio.to_thread(SqliteStorage, tmp_path / "data.db")
    await _replay(area, storage)
    await storage.close()


def test_every_rule_table_of_a_kind_is_there_and_every_base_is_accepted():
    for key in RULE_TABLES:
        assert kind_rules(*key).rules.lines, key
    refused = [
        (area, base, answer)
        for area in recorded_objects.AREAS
        for base, answers in recorded_objects.answers(area).items()
        for answer in (answers.get("", {"code": 201}),)
        if answer["code"] != 201
    ]
    assert not refused


async def test_every_rule_is_reported_in_a_recorded_answer():
    """Of a rule that is none, record an answer with its cause, or remove it: no request reaches it."""
    for area in set(recorded_objects.AREAS) - _places.keys():  # this test runs alone
        await test_objects_are_answered_as_recorded_in_memory(area)
    missing = await asyncio.to_thread(reported_rules.unreported, set().union(*_places.values()))
    assert not missing, "\n".join(missing)


NEVER_PASSED = ["must populate the given metric source only"]
"""Words of rules that are evaluated only if another one has refused the object."""


async def test_every_rule_is_passed_in_a_recorded_answer():
    """Of a rule that is not, record an object that is accepted after it was evaluated: `cases/acceptances.yaml`."""
    for area in set(recorded_objects.AREAS) - _places.keys():  # this test runs alone
        await test_objects_are_answered_as_recorded_in_memory(area)
    unpassed = await asyncio.to_thread(passed_rules.unpassed, _evaluated.places)
    missing = [one for one in unpassed if not any(words in one for words in NEVER_PASSED)]
    assert not missing, "\n".join(missing)
    assert len(unpassed) == len(NEVER_PASSED)


async def _replay(area: str, storage: Storage, evaluated: passed_rules.Evaluated | None = None) -> None:
    async with open_server(storage, cluster_defaults=area == "system") as server:
        await server.create("/api/v1/namespaces", {"metadata": {"name": recorded_objects.NAMESPACE}})
        found = {base.name: await _answers(base, server, evaluated) for base in recorded_objects.load(area)}
    problems = _differences(area, found)
    assert not problems, f"{len(problems)} answers differ:\n" + "\n".join(problems)


async def _answers(
    base: recorded_objects.Base, server: InProcessServer, evaluated: passed_rules.Evaluated | None
) -> dict[str, Any]:
    exchange = recorded_objects.run(base)
    try:
        request = next(exchange)
        while True:
            with nullcontext() if evaluated is None else evaluated.request() as accept:
                response = await _send(server, *request)
                if accept is not None and response.status < 300:
                    accept()
            assert isinstance(response.body, bytes)
            request = exchange.send((response.status, _decoded(response.body)))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


async def _send(server: InProcessServer, method: str, path: str, body: Any) -> Response:
    path, _, query = path.partition("?")
    return await server.send_raw(method, path, query, body, kind=recorded_objects.media(method))


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def _differences(area: str, found: dict[str, dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for base, answers in recorded_objects.answers(area).items():
        for name, answer in answers.items():
            ours = found.get(base, {}).get(name)
            reason = DIFFERENCES.get((area, base, name))
            if (ours == answer) == (reason is not None):
                shown = f"    recorded {json.dumps(answer)}\n    ours     {json.dumps(ours)}"
                lines.append(
                    f"{area}: {base}: {name}\n{shown}" + (f"\n    expected to differ: {reason}" if reason else "")
                )
    return lines


@pytest.mark.parametrize("path", recorded_resources.recorded())
async def test_a_group_serves_the_recorded_resources_with_their_verbs_names_and_categories(path: str):
    async with open_server() as server:
        _, body = await server.request("GET", path)
    assert recorded_resources.normal_form(body) == recorded_resources.recorded()[path]


async def test_the_groups_that_are_served_are_those_that_were_recorded():
    async with open_server() as server:
        _, body = await server.request("GET", "/apis")
    paths = {f"/apis/{one['groupVersion']}" for group in body["groups"] for one in group["versions"]}
    assert {"/api/v1", *paths} == set(recorded_resources.recorded())


async def test_the_openapi_documents_of_definitions_are_those_that_were_recorded():
    recorded = recorded_resources.openapi_of_definitions()
    async with open_server() as server:
        for definition in recorded["definitions"]:
            await server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        _, v2 = await server.request("GET", "/openapi/v2")
        _, v3 = await server.request("GET", "/openapi/v3/apis/oa.example.com/v1")
    assert {name: v2["definitions"].get(name) for name in recorded["v2"]} == recorded["v2"]
    assert {name: v3["components"]["schemas"].get(name) for name in recorded["v3"]} == recorded["v3"]


async def test_pod_security_admission_answers_as_recorded():
    namespace = "/api/v1/namespaces/psa"
    async with open_server() as server:
        await server.create("/api/v1/namespaces", {"metadata": {"name": "psa"}})
        for case in recorded_resources.pod_security():
            if case["labels"] is not None:
                labels = {"metadata": {"labels": case["labels"]}}
                await server.request("PATCH", namespace, labels, kind="application/merge-patch+json")
            path, _, query = case["path"].partition("?")
            response = await server.send_raw(case["method"], path, query, case["body"])
            assert isinstance(response.body, bytes)
            warning = next((value for name, value in response.headers if name == "Warning"), None)
            message = json.loads(response.body)["message"] if response.status >= 400 else None
            wanted = (case["code"], case["warning"], case["message"])
            assert (response.status, warning, message) == wanted, case["labels"]
