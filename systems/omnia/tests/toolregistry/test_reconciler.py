"""The ToolRegistry controller: URLs, Services, ready endpoints, and phases."""

from levelset import Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Service, ServicePort
from levelset.kinds.discovery_v1 import EndpointPort, EndpointSlice
from levelset.testing import Cluster
from levelset_omnia import ToolRegistry
from levelset_omnia.well_known import TOOL_DESCRIPTION, TOOL_NAME, TOOL_PATH, TOOL_TYPE
from systems.omnia.tests.support import (
    agent,
    condition,
    controllers,
    endpoints,
    pack,
    prompts,
    registry,
    secret,
    service,
    tool,
)

__all__: list[str] = []

TOOLS = Ref(ToolRegistry, "tools", "test")


async def found(cluster: Cluster) -> dict[str, tuple[str, str]]:
    await cluster.settled()
    status = (await cluster.get(TOOLS)).status
    assert status is not None
    return {one.name: (one.status, one.endpoint) for one in status.discovered_tools}


async def phase(cluster: Cluster) -> str | None:
    status = (await cluster.get(TOOLS)).status
    return None if status is None else status.phase


async def test_a_tool_with_a_url_is_available(cluster: Cluster) -> None:
    await cluster.create(registry(tool("search", url="https://search.example.dev/ask")))
    async with cluster.running(*controllers()):
        assert await found(cluster) == {"search": ("Available", "https://search.example.dev/ask")}
        one = await cluster.get(TOOLS)
        assert one.status is not None
        assert (one.status.phase, one.status.discovered_tools_count) == ("Ready", 1)
        assert condition(one, "ToolsDiscovered") == ("True", "ToolsDiscovered")
        assert one.status.conditions[0].message == "Discovered 1 tool(s)"
        assert one.status.last_discovery_time == cluster.now()


async def test_a_service_with_ready_endpoints_is_a_tool(cluster: Cluster) -> None:
    for one in (service(), endpoints(), registry()):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        assert await found(cluster) == {"search": ("Available", "http://search.test.svc.cluster.local:8080")}
        assert await phase(cluster) == "Ready"


async def test_a_service_is_unavailable_until_an_endpoint_is_ready_without_polling(
    cluster: Cluster,
) -> None:
    for one in (service(), endpoints(ready=False), registry(tool(), tool("other", url="http://a.example.dev"))):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        url = "http://search.test.svc.cluster.local:8080"
        assert (await found(cluster))["search"] == ("Unavailable", url)
        assert await phase(cluster) == "Degraded"
        began = cluster.now()
        await cluster.update(endpoints(ready=True))
        assert (await found(cluster))["search"] == ("Available", url)
        await cluster.delete(Ref(EndpointSlice, "search-1", "test"))
        assert (await found(cluster))["search"] == ("Unavailable", url)
        assert cluster.now() == began


async def test_without_a_matching_service_a_tool_is_unavailable_with_a_message(cluster: Cluster) -> None:
    for one in (service(labels={"tool": "another"}), endpoints(), registry()):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        assert await found(cluster) == {"search": ("Unavailable", "")}
        assert await phase(cluster) == "Failed"
        status = (await cluster.get(TOOLS)).status
        assert status is not None
        assert status.discovered_tools[0].message == "no Service in test has tool=search"


async def test_the_annotations_of_a_service_set_path_type_description_and_name(cluster: Cluster) -> None:
    annotations = {TOOL_PATH: "v1/ask", TOOL_TYPE: "grpc", TOOL_DESCRIPTION: "Finds things.", TOOL_NAME: "search"}
    for one in (
        service("older", label="search", annotations={TOOL_NAME: "something-else"}),
        service("newer", label="search", annotations=annotations),
        endpoints("older"),
        endpoints("newer"),
        registry(),
    ):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        assert await found(cluster) == {"search": ("Available", "grpc://newer.test.svc.cluster.local:8080/v1/ask")}
        status = (await cluster.get(TOOLS)).status
        assert status is not None
        assert (status.discovered_tools[0].type, status.discovered_tools[0].description) == ("grpc", "Finds things.")


async def test_the_named_port_takes_precedence_over_the_first_and_the_type_decides_the_scheme(cluster: Cluster) -> None:
    ports = (ServicePort(name="web", port=80), ServicePort(name="tool", port=9000))
    both = (EndpointPort(name="web", port=80), EndpointPort(name="tool", port=9000))
    for one in (
        service(ports=ports),
        endpoints(ports=both),
        registry(
            tool("a", labels={"tool": "search"}, port="tool", type="grpc"),
            tool("b", labels={"tool": "search"}, port="nope", type="mcp"),
        ),
    ):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        host = "search.test.svc.cluster.local"
        assert await found(cluster) == {
            "a": ("Available", f"grpc://{host}:9000"),
            "b": ("Available", f"http://{host}:80"),
        }


async def test_a_service_of_another_namespace_is_found(cluster: Cluster) -> None:
    for one in (service(namespace="default"), endpoints(namespace="default"), registry(tool(namespace="default"))):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        assert await found(cluster) == {"search": ("Available", "http://search.default.svc.cluster.local:8080")}


async def test_of_several_services_the_oldest_is_the_tool(cluster: Cluster) -> None:
    await cluster.create(service("z", label="search"))
    await cluster.create(endpoints("z"))
    await cluster.create(registry())
    async with cluster.running(*controllers()):
        await cluster.advance(5)
        await cluster.create(service("a", label="search"))
        await cluster.create(endpoints("a"))
        assert (await found(cluster))["search"][1] == "http://z.test.svc.cluster.local:8080"
        await cluster.delete(Ref(Service, "z", "test"))
        assert (await found(cluster))["search"][1] == "http://a.test.svc.cluster.local:8080"


async def test_a_changed_service_requeues_the_registries_that_select_it(cluster: Cluster) -> None:
    for one in (service(), endpoints(), registry(), registry(tool("x"), name="others")):
        await cluster.create(one)
    others = Ref(ToolRegistry, "others", "test")
    async with cluster.running(*controllers()):
        await cluster.settled()
        before = len(cluster.reconciles(TOOLS)), len(cluster.reconciles(others))
        await cluster.update(service(labels={}))  # it is no longer selected
        assert await found(cluster) == {"search": ("Unavailable", "")}
        assert (len(cluster.reconciles(TOOLS)), len(cluster.reconciles(others))) == (before[0] + 1, before[1])


async def test_the_tools_file_has_the_available_tools_and_changes_without_a_rollout(cluster: Cluster) -> None:
    for one in (prompts(), pack(), secret(), service(), registry(), agent(tool_registry_ref="tools")):
        await cluster.create(one)
    file = Ref(ConfigMap, "helper-tools", "test")
    async with cluster.running(*controllers()):
        await cluster.settled()
        before = (await cluster.get(Ref(Deployment, "helper", "test"))).metadata.generation
        assert '"tools": []' in (await cluster.get(file)).data["tools.json"]
        await cluster.create(endpoints())
        made = await cluster.until(file, lambda it: "search.test.svc" in it.data["tools.json"])
        assert '"timeout": "30s"' in made.data["tools.json"]
        assert (await cluster.get(Ref(Deployment, "helper", "test"))).metadata.generation == before
        helper = await cluster.get(agent().ref)
        await cluster.update(helper.with_spec(tool_registry_ref=None))
        await cluster.until_gone(file)
