"""The whole system, with the in-memory engine and without an engine."""

from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset_dcp.kinds import Container, ContainerNetwork, ContainerNetworkSpec, ContainerSpec, ContainerVolume
from levelset_dcp.session import SessionOptions, open_session
from systems.dcp.tests.support.sessions import WITHIN


def options(tmp_path: Path, **more: Any) -> SessionOptions:
    return SessionOptions(kubeconfig=tmp_path / "kubeconfig", state=tmp_path / "state" / "state.sqlite3", **more)


@pytest.mark.parametrize(("runtime", "state"), [("memory", "Running"), ("none", "RuntimeUnhealthy")])
async def test_a_session_runs_containers_and_deletes_them_at_its_end(runtime: str, state: str, tmp_path: Path) -> None:
    async with open_session(options(tmp_path, runtime=runtime, shutdown_within=10.0)) as session:
        client = session.local.client
        await client.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        await client.create(Container.new("db", ContainerSpec(image="db")))
        await client.wait(
            Ref(Container, "db"), lambda one: bool(one.status and one.status.state == state), within=WITHIN
        )
        await session.end()
        assert session.report is not None
        assert session.report.left == []
        assert session.report.deleted == {"Container": 1, "ContainerNetwork": 1}
        assert await client.list(ContainerVolume) == []
