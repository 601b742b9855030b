from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.pods import KnownOutlines, pod_outline

SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "args": ["a"],
            "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            "volumeMounts": [{"name": "kube-api-access-abcde", "mountPath": "/token"}],
        }
    ],
    "initContainers": [{"name": "first", "image": "first:1", "command": ["c"]}],
    "volumes": [{"name": "kube-api-access-abcde", "emptyDir": {}}],
}
Change = Callable[[Any], Any]


def outline_after(change: Change) -> bytes:
    spec = deepcopy(SPEC)
    change(spec)
    return pod_outline(spec)


def rename_token_volume(spec: Any) -> None:
    spec["volumes"][0]["name"] = spec["containers"][0]["volumeMounts"][0]["name"] = "kube-api-access-z9z9z"


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["containers"][0].update(image="web:2"),
        lambda spec: spec["containers"][0].update(args=["b", "c"]),
        lambda spec: spec["initContainers"][0].update(command=["d"]),
        lambda spec: spec["containers"][0]["env"][0].update(value="c"),
        lambda spec: spec["containers"][0]["resources"]["limits"].update(cpu="2"),
        rename_token_volume,
    ],
    ids=["image", "args", "command", "value", "amount", "token volume"],
)
def test_specs_that_differ_in_what_decides_nothing_have_one_outline(change: Change) -> None:
    assert outline_after(change) == pod_outline(SPEC)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["containers"][0].update(image=""),
        lambda spec: spec["containers"][0].pop("image"),
        lambda spec: spec["containers"][0].update(args=[]),
        lambda spec: spec["containers"][0].update(args=None),
        lambda spec: spec["containers"][0]["env"][0].update(name="C"),
        lambda spec: spec["containers"][0]["env"][0].update(value=""),
        lambda spec: spec["containers"][0]["env"][0].pop("value"),
        lambda spec: spec["containers"][0]["env"][1]["valueFrom"]["fieldRef"].update(fieldPath="q"),
        lambda spec: spec["containers"][0]["resources"]["limits"].update(memory="1"),
        lambda spec: spec["containers"][0]["resources"].update(limits={}),
        lambda spec: spec["containers"][0]["resources"]["limits"].update(cpu=""),
        lambda spec: spec["containers"][0]["resources"].update(claims=[{"name": "a"}]),
        lambda spec: spec["volumes"][0].update(name="kube-api-access-other"),
        lambda spec: spec["volumes"].append({"name": "kube-api-access-fghij", "emptyDir": {}}),
        lambda spec: spec.update(hostNetwork=True),
    ],
)
def test_an_outline_has_all_that_decides(change: Change) -> None:
    assert outline_after(change) != pod_outline(SPEC)


@pytest.mark.parametrize("odd", [None, "", 0, [], "text"])
def test_containers_that_are_no_maps_have_an_outline(odd: Any) -> None:
    assert pod_outline({"containers": [odd]}) != pod_outline({"containers": [{}]})


def test_known_outlines_are_bounded_in_number_and_length() -> None:
    known = KnownOutlines()
    known.add(b"x" * 10_000)
    assert b"x" * 10_000 not in known
    for number in range(1_000):
        known.add(b"%d" % number)
    assert b"999" in known
    assert b"1" not in known
