"""Whatever goes wrong, and whenever: in the end the endpoints are those of the Pods that are there."""

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.core_v1 import Endpoints, Pod
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from levelset_local.endpoints import endpoint_slices_controller, endpoints_controller
from systems.local.tests.endpoints.objects import pod, service


async def scenario(people: Cluster) -> None:
    """A Service, two Pods that become ready one after the other, one that changes sides, and one that goes."""
    await people.create(service())
    for name, ip in (("a", "127.1.1.1"), ("b", "127.1.1.2")):
        await people.create(pod(name, real=True))
        status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
        await people.patch(Ref(Pod, name), MergePatch({"status": status}), subresource="status")
        await people.settled()
    await people.patch(Ref(Pod, "a"), MergePatch({"metadata": {"labels": {"app": "other"}}}))
    await people.create(service("other", selector={"app": "other"}))
    await people.settled()
    await people.delete(Ref(Pod, "b"))
    await people.settled()


def each_address_is_told_once(state: State) -> None:
    for name in ("web", "other"):
        told = [
            one.addresses[0]
            for it in state.list(EndpointSlice)
            if it.metadata.labels.get("kubernetes.io/service-name") == name
            for one in it.endpoints
        ]
        assert len(told) == len(set(told)), f"{name} is told to lead to {told}"


def there_is_one_object_of_each_name(state: State) -> None:
    names = [one.name for one in state.list(Endpoints)]
    assert len(names) == len(set(names))


@pytest.mark.explore(budget=20)
def test_endpoints_survive_everything() -> Exploration:
    return Exploration(
        scenario,
        lambda: [endpoint_slices_controller(), endpoints_controller()],
        invariants=[each_address_is_told_once, there_is_one_object_of_each_name],
        name="endpoints",
    )
