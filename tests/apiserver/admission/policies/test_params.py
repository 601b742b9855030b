"""Parameters of policies: which objects they are, and what happens if there are none."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.params import (
    BindingConfigurationError,
    PolicyConfigurationError,
    collect_params,
    read_param_kind,
    read_param_ref,
)
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server

MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
NODES = {"apiVersion": "v1", "kind": "Node"}


async def collect(api: InProcessServer, kind: Any, ref: Any, namespace: str = "default") -> list[Any]:
    found = await collect_params(api.server.state, read_param_kind(kind), read_param_ref(ref), namespace)
    return [one and one["metadata"]["name"] for one in found]


async def test_without_parameters_a_policy_is_evaluated_once() -> None:
    async with open_server() as api:
        assert await collect(api, None, {"name": "x"}) == [None]
        assert await collect(api, MAPS, None) == [None]


async def test_parameters_are_found_by_name_and_by_labels() -> None:
    async with open_server() as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
        await api.create(CONFIGMAPS, configmap("a", labels={"is": "it"}))
        await api.create(CONFIGMAPS, configmap("b", labels={"is": "it"}))
        await api.create(CONFIGMAPS, configmap("c"))
        await api.create("/api/v1/namespaces/other/configmaps", configmap("d", labels={"is": "it"}))
        selector = {"selector": {"matchLabels": {"is": "it"}}}
        assert await collect(api, MAPS, {"name": "c"}) == ["c"]
        assert await collect(api, MAPS, selector) == ["a", "b"]
        assert await collect(api, MAPS, selector, "other") == ["d"]
        assert await collect(api, MAPS, {"name": "a", "namespace": "default"}, "other") == ["a"]
        assert await collect(api, MAPS, {"selector": {}}) == ["a", "b", "c"]
        assert await collect(api, MAPS, {"name": "a", "namespace": "default"}, "") == ["a"]


async def test_missing_params_are_an_error_only_with_deny() -> None:
    async with open_server() as api:
        assert await collect(api, MAPS, {"name": "x", "parameterNotFoundAction": "Allow"}) == []
        with pytest.raises(
            BindingConfigurationError, match="no params found for policy binding with `Deny` parameterNotFoundAction"
        ):
            await collect(api, MAPS, {"name": "x", "parameterNotFoundAction": "Deny"})


async def test_a_param_ref_must_fit_the_scope_of_the_kind() -> None:
    async with open_server() as api:
        with pytest.raises(
            BindingConfigurationError, match="paramRef.namespace must not be provided for a cluster-scoped"
        ):
            await collect(api, NODES, {"name": "x", "namespace": "y"})
        with pytest.raises(BindingConfigurationError, match="cannot use namespaced paramRef"):
            await collect(api, MAPS, {"name": "x"}, "")
        with pytest.raises(PolicyConfigurationError, match=r"referenced by paramKind: '/v9, Kind=Gone'"):
            await collect(api, {"apiVersion": "v9", "kind": "Gone"}, {"name": "x"})
