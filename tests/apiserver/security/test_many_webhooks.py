"""Thousands of webhooks in one configuration: no write of it, or beside it, keeps other requests waiting for 50 ms."""

import asyncio
import logging
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from tests.apiserver.security.test_hostile_schemas import send, text_of
from tests.apiserver.security.test_large_writes import CONFIG_MAPS, config_map
from tests.apiserver.support.loop_watchdog import LIMIT, undisturbed, watch_loop

NOWHERE = "https://127.0.0.1:1/"
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
BESIDE: dict[str, dict[str, Any]] = {
    "rules that do not match": {"rules": [{**RULE, "apiGroups": ["other.io"]}]},
    "selectors that do not match": {"rules": [RULE], "objectSelector": {"matchLabels": {"a": "b"}}},
    "conditions that do not match": {
        "rules": [RULE],
        "matchConditions": [{"name": "a", "expression": "object.metadata.name == 'b'"}],
    },
    "questions to the authorizer": {
        "rules": [RULE],
        "matchConditions": [{"name": "a", "expression": "!authorizer.path('/x').check('get').allowed()"}],
    },
    "calls that fail": {"rules": [RULE], "failurePolicy": "Ignore"},
}


def configurations(kind: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"


def configuration(kind: str, count: int, **parts: Any) -> dict[str, Any]:
    hook = {"clientConfig": {"url": NOWHERE}, "admissionReviewVersions": ["v1"], "sideEffects": "None", **parts}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "many"},
        "webhooks": [{"name": f"w{number}.a.io", **hook} for number in range(count)],
    }


async def longest_hold(server: ApiServer, method: str, path: str, body: Any, status: int) -> tuple[float, str]:
    """The longest time in which the loop was held by a request, which must have this status, and by what."""
    with watch_loop() as watchdog:
        await asyncio.sleep(0)
        response = await send(server, method, path, body)
        await server.idle()
    assert response.status == status, text_of(response)[:300]
    return watchdog.longest, watchdog.culprit


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@undisturbed
async def test_writing_thousands_of_webhooks_keeps_no_other_request_waiting(kind: str) -> None:
    path, tree = configurations(kind), configuration(kind, 4_500)
    async with ApiServer(tls=False) as server:
        held = [await longest_hold(server, "POST", path, tree, 201)]
        tree["metadata"]["resourceVersion"] = str(server.state.storage.revision)
        tree["webhooks"][0]["timeoutSeconds"] = 7
        held.append(await longest_hold(server, "PUT", f"{path}/many", tree, 200))
        held.append(await longest_hold(server, "DELETE", f"{path}/many", {}, 200))
    assert max(held)[0] < LIMIT, max(held)[1]


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize("name", BESIDE)
@undisturbed
async def test_a_write_beside_thousands_of_webhooks_keeps_no_other_request_waiting(
    kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)  # a warning for each webhook that fails
    tree = configuration(kind, 1_900, **BESIDE[name])
    async with ApiServer(tls=False) as server:
        made = await send(server, "POST", configurations(kind), tree)
        assert made.status == 201, text_of(made)[:300]
        await server.idle()
        held, culprit = await longest_hold(server, "POST", CONFIG_MAPS, config_map(1), 201)
    assert held < LIMIT, culprit
