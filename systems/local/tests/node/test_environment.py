"""The environment of a container from all sources; no process is started."""

from typing import Any

import pytest

from levelset import ObjectMeta, Quantity, decode, encode
from levelset.kinds.core_v1 import ConfigMap, Secret, Service
from levelset_local.node.config_sources import ConfigSources, config_map_refs, secret_refs
from levelset_local.node.downward_api import PodInfo
from levelset_local.node.environment import BadEnvironment, container_environment, expand, service_variables
from systems.local.tests.node.fake_node import container, pod

SOURCES = ConfigSources(
    {"settings": ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "red", "size": "L"})},
    {"key": Secret(metadata=ObjectMeta(name="key"), data={"token": b"s3cret"})},
)
METADATA = {"namespace": "shop", "uid": "u-1", "labels": {"app": "web"}, "annotations": {"note": 'say "hi"'}}


def environment(sources: ConfigSources = SOURCES, services: tuple[Service, ...] = (), **fields: Any) -> dict[str, str]:
    it = pod("web", container(**fields), metadata=METADATA, nodeName="local", serviceAccountName="robot")
    info = PodInfo(it, "127.9.0.1", allocatable={"memory": Quantity("8Gi"), "cpu": Quantity("4")})
    return container_environment(it.spec.containers[0], info, sources, services)


def service(name: str, address: str | None, *ports: dict[str, Any]) -> Service:
    tree = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }
    return decode(Service, encode(tree))


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A) and $(B)", "1 and 2"),
        ("$(C) stays", "$(C) stays"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $ $", "$A $ $"),
        ("$(A", "$(A"),
        ("", ""),
    ],
)
def test_variables_are_expanded_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_values_may_refer_to_earlier_variables_and_to_the_given_ones() -> None:
    found = environment(
        env=[
            {"name": "LATE", "value": "$(HOST)"},
            {"name": "HOST", "value": "$(POD_IP)"},
            {"name": "URL", "value": "http://$(HOST):80/$$(HOST)"},
        ]
    )
    assert found["LATE"] == "$(HOST)"
    assert found["URL"] == "http://127.9.0.1:80/$(HOST)"
    assert found["HOSTNAME"] == "web"


def test_variables_from_pod_fields_and_resources() -> None:
    def field(path: str) -> dict[str, Any]:
        return {"name": path, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    def resource(name: str, **more: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"resourceFieldRef": {"resource": name, **more}}}

    paths = ["metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels['app']", "metadata.labels['no']"]
    more = ["status.podIP", "status.hostIP", "spec.nodeName", "spec.serviceAccountName", "metadata.annotations['note']"]
    resources = [
        resource("limits.cpu", divisor="1m"),
        resource("limits.memory", divisor="1Mi"),
        resource("requests.cpu"),
    ]
    found = environment(
        env=[*map(field, [*paths, *more]), *resources],
        resources={"limits": {"cpu": "1500m"}, "requests": {"cpu": "0.2"}},
    )
    assert [found[path] for path in paths] == ["web", "shop", "u-1", "web", ""]
    assert [found[path] for path in more] == ["127.9.0.1", "127.0.0.1", "local", "robot", 'say "hi"']
    assert (found["limits.cpu"], found["limits.memory"], found["requests.cpu"]) == ("1500", "8192", "1")


def test_variables_from_config_maps_and_secrets() -> None:
    found = environment(
        envFrom=[{"prefix": "S_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "key"}}],
        env=[
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
            {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "key", "key": "no", "optional": True}}},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "no", "optional": True}}},
            {"name": "S_size", "value": "XL"},
        ],
    )
    assert (found["S_colour"], found["S_size"], found["token"]) == ("red", "XL", "s3cret")
    assert (found["C"], found["T"]) == ("red", "s3cret")
    assert "NO" not in found
    assert "NONE" not in found


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "none", "key": "a"}}, 'secret "none" not found'),
        ({"configMapKeyRef": {"name": "settings", "key": "a"}}, "couldn't find key a in ConfigMap shop/settings"),
        ({"secretKeyRef": {"name": "key", "key": "a"}}, "couldn't find key a in Secret shop/key"),
        ({"fieldRef": {"fieldPath": "spec.wrong"}}, "unsupported fieldPath: spec.wrong"),
        ({"resourceFieldRef": {"resource": "limits"}}, "unsupported container resource : limits"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}}, "container x not found"),
    ],
)
def test_a_missing_source_is_reported_with_the_message_of_kubernetes(source: dict[str, Any], message: str) -> None:
    with pytest.raises(BadEnvironment) as caught:
        environment(env=[{"name": "A", "valueFrom": source}])
    assert str(caught.value) == message


def test_a_missing_env_from_source_is_an_error_unless_it_is_optional() -> None:
    assert environment(envFrom=[{"secretRef": {"name": "none", "optional": True}}])
    with pytest.raises(BadEnvironment, match='secret "none" not found'):
        environment(envFrom=[{"secretRef": {"name": "none"}}])


def test_services_have_variables() -> None:
    web = service("my-web", "127.8.0.1", {"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP"})
    found = service_variables([web, service("headless", "None", {"port": 1}), service("outside", None)])
    assert found["MY_WEB_SERVICE_HOST"] == found["MY_WEB_PORT_80_TCP_ADDR"] == "127.8.0.1"
    assert found["MY_WEB_SERVICE_PORT"] == found["MY_WEB_SERVICE_PORT_HTTP"] == "80"
    assert found["MY_WEB_PORT"] == found["MY_WEB_PORT_80_TCP"] == "tcp://127.8.0.1:80"
    assert found["MY_WEB_PORT_53_UDP"] == "udp://127.8.0.1:53"
    assert not any(name.startswith(("HEADLESS", "OUTSIDE")) for name in found)
    assert environment(services=(web,), env=[{"name": "U", "value": "$(MY_WEB_PORT)"}])["U"] == "tcp://127.8.0.1:80"


def test_all_config_maps_and_secrets_that_a_pod_references_are_found() -> None:
    projected: dict[str, Any] = {
        "sources": [{"secret": {"name": "s2"}}, {"configMap": {"name": "c3"}}, {"downwardAPI": {"items": []}}]
    }
    it = pod(
        "web",
        container(
            env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "a"}}}],
            envFrom=[{"configMapRef": {"name": "c1"}}, {"secretRef": {"name": "s1"}}],
        ),
        initContainers=[container("i", envFrom=[{"configMapRef": {"name": "c0"}}])],
        volumes=[
            {"name": "a", "configMap": {"name": "c2"}},
            {"name": "b", "secret": {"secretName": "s3"}},
            {"name": "c", "projected": projected},
        ],
    )
    assert sorted(ref.name for ref in config_map_refs(it)) == ["c0", "c1", "c2", "c3"]
    assert sorted(ref.name for ref in secret_refs(it)) == ["s1", "s2", "s3"]
