"""The pure plans of the controllers: the next step for what is observed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from levelset import ObjectMeta, replace
from levelset_dcp import volumes
from levelset_dcp.engines import NetworkInfo
from levelset_dcp.kinds import ContainerVolume, ContainerVolumeSpec, Service, ServiceSpec
from levelset_dcp.networks import state as networks
from levelset_dcp.services import state as services
from levelset_dcp.tunnels import state as tunnels

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def volume(*, is_deleted: bool = False, is_persistent: bool = False) -> ContainerVolume:
    metadata = ObjectMeta(name="data", uid="u", deletion_timestamp=NOW if is_deleted else None)
    return ContainerVolume(metadata=metadata, spec=ContainerVolumeSpec(name="data", persistent=is_persistent))


@pytest.mark.parametrize(
    ("of", "observed", "step"),
    [
        (volume(), {}, "create"),
        (volume(), {"retry_at": 11.0}, "none"),
        (volume(), {"state": "Ready"}, "none"),
        (volume(is_deleted=True), {"state": "Ready"}, "remove"),
        (volume(is_deleted=True), {"retry_at": 11.0}, "none"),
        (volume(is_deleted=True), {"is_removed": True}, "release"),
        (volume(is_deleted=True, is_persistent=True), {"state": "Ready"}, "release"),
    ],
)
def test_the_plan_of_a_volume(of: ContainerVolume, observed: dict[str, Any], step: str) -> None:
    assert volumes.plan(of, volumes.ObservedVolume(uid="u", **observed), 10.0) == step


INFO = NetworkInfo(id="n", name="net", container_ids=("a",))


@pytest.mark.parametrize(
    ("observed", "wanted", "step"),
    [
        ({}, {}, "create"),
        ({"state": "NotFound", "retry_at": 11.0}, {}, "none"),
        ({"state": "Running"}, {}, "resume"),
        ({"state": "Running", "info": INFO}, {}, "none"),
        ({"state": "Running", "info": INFO}, {"b": ()}, "change_connections"),
        ({"state": "Running", "info": INFO, "retry_at": 11.0}, {"b": ()}, "none"),
        ({"state": "Running", "info": INFO, "connected": frozenset("a")}, {}, "change_connections"),
        ({"state": "Running", "info": INFO, "message": "no such container b"}, {"a": ()}, "clear_message"),
        ({"state": "Removed"}, {"b": ()}, "none"),
        ({"state": "FailedToStart"}, {}, "none"),
    ],
)
def test_the_plan_of_a_network(observed: dict[str, Any], wanted: dict[str, tuple[str, ...]], step: str) -> None:
    assert networks.plan(networks.ObservedNetwork(uid="u", **observed), wanted, 10.0) == step


def test_attached_containers_with_a_connection_become_ours() -> None:
    observed = networks.ObservedNetwork(uid="u", state="Running", info=INFO)
    assert networks.claimed(observed, {"a": (), "b": ()}).connected == {"a"}
    assert networks.claimed(replace(observed, info=None), {"a": ()}).connected == frozenset()


@pytest.mark.parametrize(
    ("observed", "has_changes", "step"),
    [
        ({}, True, "start"),
        ({"state": "Starting"}, False, "start"),
        ({"state": "Running"}, False, "none"),
        ({"state": "Running"}, True, "change_tunnels"),
        ({"state": "Failed"}, True, "remove"),
        ({"state": "Failed", "is_removed": True}, True, "none"),
    ],
)
def test_the_plan_of_a_tunnel_proxy(observed: dict[str, Any], has_changes: bool, step: str) -> None:
    close = {"one": (tunnels.TunnelState(number=1), "")} if has_changes else {}
    changes = tunnels.TunnelChanges({}, close)
    assert tunnels.plan(tunnels.ObservedTunnelProxy(uid="u", **observed), changes) == step


TARGET = ("localhost", 80)


@pytest.mark.parametrize(
    ("tunnel", "attempts"),
    [
        ({"target": TARGET, "state": "Ready"}, None),
        ({"target": TARGET, "attempts": tunnels.ATTEMPTS - 1}, tunnels.ATTEMPTS - 1),
        ({"target": TARGET, "attempts": tunnels.ATTEMPTS, "state": "Failed"}, None),
        ({"target": ("localhost", 81), "attempts": tunnels.ATTEMPTS, "state": "Failed"}, 0),
        ({"target": ("localhost", 81), "state": "Ready"}, 0),
    ],
)
def test_a_tunnel_is_opened_up_to_twenty_times_for_each_target(tunnel: dict[str, Any], attempts: int | None) -> None:
    observed = tunnels.ObservedTunnelProxy(uid="u", tunnels={"one": tunnels.TunnelState(number=1, **tunnel)})
    opened = tunnels.tunnel_changes(observed, {"one": TARGET}).open
    assert {name: state.attempts for name, (state, _) in opened.items()} == (
        {} if attempts is None else {"one": attempts}
    )


@pytest.mark.parametrize(
    ("mode", "previous", "step"),
    [
        ("Proxyless", services.Attempt(3, port=80), "close"),
        ("Localhost", None, "listen"),
        ("Localhost", services.Attempt(3, port=80), "none"),
        ("Localhost", services.Attempt(2, port=80), "listen"),
        ("Localhost", services.Attempt(3, tries=29), "listen"),
        ("Localhost", services.Attempt(3, tries=30), "none"),
    ],
)
def test_the_plan_of_a_service(mode: Any, previous: services.Attempt | None, step: str) -> None:
    metadata = ObjectMeta(name="web", uid="u", generation=3)
    service = Service(metadata=metadata, spec=ServiceSpec(address_allocation_mode=mode))
    assert services.plan(service, previous) == step
