import time
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.pods import qos_class, set_pod_defaults, set_pod_spec_defaults
from levelset.apiserver.registry.builtin.strategies import kind_rules
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

PODS = ("", "v1", "pods")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "IfNotPresent"),
        ("host:5000/nginx:latest", "Always"),
        ("latest", "Always"),
        ("a" * 64, "IfNotPresent"),
        ("A/B", "IfNotPresent"),
        ("UPPER:latest", "IfNotPresent"),
        (f"{'a' * 250}:latest", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_an_image_without_a_fixed_tag_is_always_pulled(image: str, policy: str) -> None:
    spec = {"containers": [{"name": "a", "image": image}]}
    set_pod_spec_defaults(spec)
    assert spec["containers"][0]["imagePullPolicy"] == policy


def test_a_pod_gets_defaults() -> None:
    pod: dict[str, Any] = {
        "spec": {"containers": [{"name": "a", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]}
    }
    set_pod_defaults(pod)
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        30,
    )
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


def test_probes_variables_and_volumes_get_defaults() -> None:
    variable: dict[str, Any] = {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container: dict[str, Any] = {
        "name": "a",
        "image": "a:1",
        "env": [variable],
        "livenessProbe": {"httpGet": {"port": 80}},
    }
    volumes: list[dict[str, Any]] = [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}]
    set_pod_spec_defaults({"containers": [container], "volumes": volumes})
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert variable["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert volumes[0] == {"name": "v", "emptyDir": {}}
    assert volumes[1]["secret"] == {"secretName": "x", "defaultMode": 420}


async def test_a_new_pod_is_pending() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(PODS, {"spec": {"containers": [{"name": "a", "image": "a:1"}]}})
    assert (made["status"], made["metadata"]["generation"]) == ({"phase": "Pending", "qosClass": "BestEffort"}, 1)


async def test_a_pod_needs_containers_with_names_and_images() -> None:
    kinds = await KindsHarness.make()
    assert await kinds.refused(PODS, {"spec": {"containers": []}}) == {"spec.containers": "FieldValueRequired"}
    twice = [{"name": "a", "image": "x"}, {"name": "a"}, {"name": "B", "image": "x"}]
    assert await kinds.refused(PODS, {"spec": {"containers": twice}}) == {
        "spec.containers[1].name": "FieldValueDuplicate",
        "spec.containers[1].image": "FieldValueRequired",
        "spec.containers[2].name": "FieldValueInvalid",
    }


async def test_the_image_of_a_pod_can_change_but_not_its_command() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(PODS, {"spec": {"containers": [{"name": "a", "image": "a:1"}]}})
    made["spec"]["containers"][0]["image"] = "a:2"
    made = await kinds.update(PODS, made)
    assert made["metadata"]["generation"] == 2
    made["spec"]["containers"][0]["command"] = ["x"]
    assert await kinds.refused_update(PODS, made) == {"spec": "FieldValueForbidden"}


@pytest.mark.parametrize(
    "fields",
    [
        {"tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in range(20_000)]},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": "DoNotSchedule"}
                for number in range(20_000)
            ]
        },
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_update_with_very_many_entries_is_validated_in_linear_time(fields: dict[str, Any]) -> None:
    rules = kind_rules("", "Pod")
    spec = {"containers": [{"name": "c", "image": "x"}], **fields}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": spec}
    began = time.process_time()
    rules.validate(pod, pod | {"metadata": {"name": "a", "namespace": "default", "labels": {"a": "b"}}})
    assert time.process_time() - began < 5  # comparing each with all others takes half a minute


async def test_the_options_of_a_mount_without_a_path_are_checked_too() -> None:
    kinds = await KindsHarness.make()
    container = {"name": "a", "image": "a", "volumeMounts": [{"name": "v", "subPath": "/a"}]}
    assert await kinds.refused(PODS, {"spec": {"containers": [container]}}) == {
        "spec.containers[0].volumeMounts.subPath": "FieldValueInvalid",
        "spec.containers[0].volumeMounts[0].mountPath": "FieldValueRequired",
        "spec.containers[0].volumeMounts[0].name": "FieldValueNotFound",
    }


def causes_of(**changes: Any) -> list[str]:
    """The fields of the causes of a Pod whose container differs from a valid one."""
    container: dict[str, Any] = {"name": "a", "image": "a:1", "args": ["x"], "env": [{"name": "A", "value": "b"}]}
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [container | changes]}}
    set_pod_defaults(pod)
    return [one.field for one in kind_rules("", "Pod").validate(pod, None)]


def test_a_spec_like_a_valid_one_is_refused_for_what_differs() -> None:
    path = "spec.containers[0]"
    assert causes_of() == causes_of(image="b:2", args=["y"], env=[{"name": "A", "value": "c"}]) == []
    assert causes_of(image="") == [f"{path}.image"]
    assert causes_of(image=" a:1") == [f"{path}.image"]
    assert causes_of(env=[{"name": "A=", "value": "b"}]) == [f"{path}.env[0].name"]
    field = {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}
    assert causes_of(env=[{"name": "A", "valueFrom": field}]) == []
    assert causes_of(env=[{"name": "A", "value": "b", "valueFrom": field}]) == [f"{path}.env[0].valueFrom"]


def test_the_image_of_an_ephemeral_container_is_checked_after_a_valid_one() -> None:
    for image, expected in (("a:1", []), (" a:1", ["spec.ephemeralContainers[0].image"])):
        pod: dict[str, Any] = {
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "a", "image": "a:1"}],
                "ephemeralContainers": [{"name": "e", "image": image}],
            },
        }
        set_pod_defaults(pod)
        assert [one.field for one in kind_rules("", "Pod").validate(pod, pod)] == expected


@pytest.mark.parametrize("group", ["containers", "initContainers"])
def test_the_amounts_of_a_container_are_checked_after_a_valid_one(group: str) -> None:
    def causes(resources: dict[str, Any]) -> list[str]:
        others = {"containers": [{"name": "b", "image": "b:1"}]} if group != "containers" else {}
        spec: dict[str, Any] = {**others, group: [{"name": "a", "image": "a:1", "resources": resources}]}
        pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": spec}
        set_pod_defaults(pod)
        return [one.field for one in kind_rules("", "Pod").validate(pod, None)]

    path = f"spec.{group}[0].resources"
    assert causes({"limits": {"cpu": "1"}}) == causes({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}) == []
    assert causes({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}) == [f"{path}.requests"]
    assert causes({"limits": {"cpu": "-1"}}) == [f"{path}.limits[cpu]", f"{path}.requests[cpu]"]
    assert set(causes({"limits": {"apples": "1"}})) == {f"{path}.limits[apples]", f"{path}.requests[apples]"}
    assert causes({"claims": [{"name": "c"}]}) == [f"{path}.claims[0]"]


def test_resources_of_a_whole_pod_decide_its_class_even_if_they_are_empty() -> None:
    containers = [{"name": "main", "resources": {"limits": {"memory": "1Gi"}}}]
    assert qos_class({"containers": containers}) == "Burstable"
    assert qos_class({"containers": containers, "resources": {}}) == "BestEffort"
