"""Parameters of policies: which objects they are, and what it means if there are none."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.params import (
    BadBinding,
    BadPolicy,
    collect_params,
    read_param_kind,
    read_param_ref,
)
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box

MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
NODES = {"apiVersion": "v1", "kind": "Node"}


async def collect(box: Box, kind: Any, ref: Any, namespace: str = "default") -> list[Any]:
    found = await collect_params(box.server.world, read_param_kind(kind), read_param_ref(ref), namespace)
    return [one and one["metadata"]["name"] for one in found]


async def test_without_parameters_a_policy_is_evaluated_once() -> None:
    async with open_box() as box:
        assert await collect(box, None, {"name": "x"}) == [None]
        assert await collect(box, MAPS, None) == [None]


async def test_parameters_are_found_by_name_and_by_labels() -> None:
    async with open_box() as box:
        await box.make("/api/v1/namespaces", {"metadata": {"name": "other"}})
        await box.make(CONFIGMAPS, configmap("a", labels={"is": "it"}))
        await box.make(CONFIGMAPS, configmap("b", labels={"is": "it"}))
        await box.make(CONFIGMAPS, configmap("c"))
        await box.make("/api/v1/namespaces/other/configmaps", configmap("d", labels={"is": "it"}))
        selector = {"selector": {"matchLabels": {"is": "it"}}}
        assert await collect(box, MAPS, {"name": "c"}) == ["c"]
        assert await collect(box, MAPS, selector) == ["a", "b"]
        assert await collect(box, MAPS, selector, "other") == ["d"]
        assert await collect(box, MAPS, {"name": "a", "namespace": "default"}, "other") == ["a"]
        assert await collect(box, MAPS, {"selector": {}}) == ["a", "b", "c"]
        assert await collect(box, MAPS, {"name": "a", "namespace": "default"}, "") == ["a"]


async def test_parameters_that_are_not_there_are_an_error_only_if_they_must_be() -> None:
    async with open_box() as box:
        assert await collect(box, MAPS, {"name": "x", "parameterNotFoundAction": "Allow"}) == []
        with pytest.raises(BadBinding, match="no params found for policy binding with `Deny` parameterNotFoundAction"):
            await collect(box, MAPS, {"name": "x", "parameterNotFoundAction": "Deny"})


async def test_a_reference_must_fit_the_scope_of_its_kind() -> None:
    async with open_box() as box:
        with pytest.raises(BadBinding, match="paramRef.namespace must not be provided for a cluster-scoped"):
            await collect(box, NODES, {"name": "x", "namespace": "y"})
        with pytest.raises(BadBinding, match="cannot use namespaced paramRef"):
            await collect(box, MAPS, {"name": "x"}, "")
        with pytest.raises(BadPolicy, match=r"referenced by paramKind: '/v9, Kind=Gone'"):
            await collect(box, {"apiVersion": "v9", "kind": "Gone"}, {"name": "x"})
