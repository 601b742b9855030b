"""Endpoint controllers under the explorer: with any fault the endpoints converge to the existing Pods."""

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.core_v1 import Endpoints, Pod
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from levelset_local.endpoints import endpoint_slices_controller, endpoints_controller
from systems.local.tests.endpoints.endpoint_samples import pod, service


async def scenario(user: Cluster) -> None:
    """A Service and two Pods that become ready; one moves to another Service, and one is deleted."""
    await user.create(service())
    for name, ip in (("a", "127.1.1.1"), ("b", "127.1.1.2")):
        await user.create(pod(name, real=True))
        status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
        await user.patch(Ref(Pod, name), MergePatch({"status": status}), subresource="status")
        await user.settled()
    await user.patch(Ref(Pod, "a"), MergePatch({"metadata": {"labels": {"app": "other"}}}))
    await user.create(service("other", selector={"app": "other"}))
    await user.settled()
    await user.delete(Ref(Pod, "b"))
    await user.settled()


def each_address_is_listed_once(state: State) -> None:
    for name in ("web", "other"):
        listed = [
            one.addresses[0]
            for it in state.list(EndpointSlice)
            if it.metadata.labels.get("kubernetes.io/service-name") == name
            for one in it.endpoints
        ]
        assert len(listed) == len(set(listed)), f"{name} has duplicate addresses: {listed}"


def there_is_one_object_of_each_name(state: State) -> None:
    names = [one.name for one in state.list(Endpoints)]
    assert len(names) == len(set(names))


@pytest.mark.explore(budget=20)
def test_endpoints_converge_under_all_faults() -> Exploration:
    return Exploration(
        scenario,
        lambda: [endpoint_slices_controller(), endpoints_controller()],
        invariants=[each_address_is_listed_once, there_is_one_object_of_each_name],
        name="endpoints",
    )
