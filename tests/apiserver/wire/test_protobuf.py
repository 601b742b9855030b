"""Objects in protobuf are read into the very tree that they are in JSON."""

import contextlib
import random
import struct
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.kind_table import TABLE
from levelset.apiserver.wire.protobuf import PROTOBUF, read_protobuf
from levelset.errors import BadObject
from tests.apiserver.box import CONFIGMAPS, open_box, widgets
from tests.apiserver.proto import envelope, message, meta

NOON = message((1, 1_700_000_000), (2, 123_456_789))
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def read(version: str, kind: str, raw: bytes) -> dict[str, Any]:
    return read_protobuf(envelope(version, kind, raw))


def test_what_is_empty_is_left_out_as_go_leaves_it_out_of_json() -> None:
    tree = read("v1", "ConfigMap", message((1, meta("a"))))
    assert tree == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_a_zero_behind_a_pointer_is_kept() -> None:
    tree = read("apps/v1", "Deployment", message((2, message((1, 0), (5, 0), (6, 0)))))
    assert tree["spec"] == {"replicas": 0, "revisionHistoryLimit": 0}


def test_maps_hold_texts_bytes_and_quantities() -> None:
    data = message((1, "a"), (2, b"\x00\xff"))
    assert read("v1", "Secret", message((2, data)))["data"] == {"a": "AP8="}
    cpu = message((1, "cpu"), (2, message((1, "250m"))))
    assert read("v1", "Node", message((3, message((1, cpu)))))["status"] == {"capacity": {"cpu": "250m"}}
    assert read("v1", "ConfigMap", message((2, message((1, "k")))))["data"] == {"k": ""}


def test_what_stands_in_a_message_of_its_own_may_be_part_of_its_parent_in_json() -> None:
    volume = message((1, "v"), (2, message((6, message((1, "s"), (3, 0))))))
    tree = read("v1", "Pod", message((2, message((1, volume)))))
    assert tree["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s", "defaultMode": 0}}]


def test_times_have_the_precision_of_their_type() -> None:
    lease = read("coordination.k8s.io/v1", "Lease", message((2, message((3, NOON)))))
    assert lease["spec"]["acquireTime"] == "2023-11-14T22:13:20.123456Z"
    pod = read("v1", "Pod", message((1, meta("a", (9, NOON)))))
    assert pod["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    old = read("v1", "Pod", message((1, message((9, message((1, -50_000_000_000)))))))
    assert old["metadata"]["deletionTimestamp"] == "0385-07-25T07:06:40Z"


@pytest.mark.parametrize(
    ("port", "value"),
    [(message((1, 0), (2, 80), (3, "")), 80), (message((1, 1), (2, 0), (3, "http")), "http"), (b"", 0)],
)
def test_a_number_or_a_text_is_the_one_that_it_says(port: bytes, value: Any) -> None:
    service = read("v1", "Service", message((1, meta("a")), (2, message((1, message((3, 80), (4, port)))))))
    assert service["spec"]["ports"][0]["targetPort"] == value


def test_objects_within_objects_are_json() -> None:
    raw = message((2, message((1, b'{"a":[1,{"b":null}]}'))))
    assert read("apps/v1", "ControllerRevision", raw)["data"] == {"a": [1, {"b": None}]}
    managed = message((1, "m"), (7, message((1, b'{"f:data":{}}'))))
    tree = read("v1", "ConfigMap", message((1, message((17, managed)))))
    assert tree["metadata"]["managedFields"] == [{"manager": "m", "fieldsV1": {"f:data": {}}}]


def test_schemas_of_definitions_are_read_with_their_alternatives() -> None:
    whole = message((5, "object"), (29, message((1, "a"), (2, message((5, "array"), (24, _items()))))))
    version = message((1, "v1"), (2, 1), (3, 1), (4, message((1, whole))))
    tree = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, message((7, version)))))
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]
    assert schema == {"type": "array", "items": {"type": "number", "minimum": 0.5, "additionalProperties": False}}


def _items() -> bytes:
    least = b"\x59" + struct.pack("<d", 0.5)  # field 11, eight bytes
    return message((1, message((5, "number")) + least + message((30, message((1, 0))))))


def test_lists_of_texts_by_name_are_lists() -> None:
    extra = message((1, "scopes"), (2, message((1, ("a", "b")))))
    tree = read("authentication.k8s.io/v1", "TokenReview", message((3, message((2, message((4, extra)))))))
    assert tree["status"]["user"] == {"extra": {"scopes": ["a", "b"]}}


def test_numbers_may_stand_packed() -> None:
    tree = read("v1", "Pod", message((2, message((14, message((4, b"\x01\x96\x01")))))))
    assert tree["spec"]["securityContext"] == {"supplementalGroups": [1, 150]}


def test_fields_that_nobody_knows_are_left_aside() -> None:
    tree = read("v1", "ConfigMap", message((1, meta("a", (999, "new"))), (500, 7), (501, "x")))
    assert tree["metadata"] == {"name": "a"}


def test_a_message_that_comes_in_two_pieces_is_one() -> None:
    tree = read("v1", "ConfigMap", message((1, message((1, "a"))), (1, message((3, "n")))))
    assert tree["metadata"] == {"name": "a", "namespace": "n"}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"k8s\x00\x0e", id="no envelope"),
        pytest.param(envelope("v1", "Unknown", b""), id="no such kind"),
        pytest.param(envelope("v1", "ConfigMap", message((1, 5))), id="metadata as a number"),
        pytest.param(envelope("v1", "ConfigMap", message((1, message((1, b"\xff"))))), id="a name that is no text"),
        pytest.param(envelope("v1", "ConfigMap", message((4, "x"))), id="a truth value as a text"),
        pytest.param(envelope("v1", "Pod", message((1, message((9, message((1, 2**62))))))), id="no time"),
        pytest.param(envelope("apps/v1", "ControllerRevision", message((2, message((1, b"{"))))), id="broken JSON"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(BadObject):
        read_protobuf(data)


def test_a_schema_without_bottom_is_refused() -> None:
    nested = b""
    for _ in range(400):
        nested = message((28, nested))  # not
    version = message((1, "v1"), (4, message((1, nested))))
    with pytest.raises(BadObject, match="levels deep"):
        read("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, message((7, version)))))


def test_every_builtin_kind_can_be_read() -> None:
    for place, rows in TABLE.items():
        for row in rows:
            version = place.removeprefix("/")
            assert read(version, row.kind, message((1, meta("a"))))["kind"] == row.kind


def test_whatever_the_bytes_are_nothing_else_happens() -> None:
    dice = random.Random(8)
    good = envelope("apps/v1", "Deployment", message((1, meta("a", (11, message((1, "k"), (2, "v"))))), (2, NOON)))
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(dice.randint(1, 6)):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        cut = bytes(data[: dice.randrange(4, len(data) + 1)])
        with contextlib.suppress(BadObject):
            assert isinstance(read_protobuf(cut), dict)


async def test_a_body_in_protobuf_is_stored_and_answered_in_json() -> None:
    entry = message((1, "k"), (2, "v"))
    async with open_box() as box:
        body = envelope("v1", "ConfigMap", message((1, meta("a")), (2, entry)))
        status, made = await box.ask("POST", CONFIGMAPS, body, kind=PROTOBUF, accept=f"{PROTOBUF}, */*")
        assert (status, made["data"]) == (201, {"k": "v"})
        body = envelope("v1", "ConfigMap", message((1, meta("a")), (2, message((1, "k"), (2, "w")))))
        status, made = await box.ask("PUT", f"{CONFIGMAPS}/a", body, kind=PROTOBUF)
        assert (status, made["data"]) == (200, {"k": "w"})


async def test_options_of_a_deletion_may_come_as_protobuf() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, {"metadata": {"name": "a"}})
        condition = message((2, message((1, "another"))))
        path = f"{CONFIGMAPS}/a"
        status, told = await box.ask("DELETE", path, envelope("v1", "DeleteOptions", condition), kind=PROTOBUF)
        assert (status, told["reason"]) == (409, "Conflict")
        policy = envelope("v1", "DeleteOptions", message((4, "Background")))
        assert (await box.ask("DELETE", path, policy, kind=PROTOBUF))[0] == 200


async def test_a_scale_may_come_as_protobuf() -> None:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with open_box() as box:
        await box.make(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {"selector": labels, "template": template}})
        scale = envelope("autoscaling/v1", "Scale", message((1, meta("a")), (2, message((1, 3)))))
        status, made = await box.ask("PUT", f"{DEPLOYMENTS}/a/scale", scale, kind=PROTOBUF)
        assert (status, made["spec"]) == (200, {"replicas": 3})


async def test_custom_resources_do_not_come_as_protobuf_and_nothing_comes_as_cbor() -> None:
    async with open_box() as box:
        await box.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        path = "/apis/example.com/v1/namespaces/default/widgets"
        body = envelope("example.com/v1", "Widget", message((1, meta("a"))))
        status, told = await box.ask("POST", path, body, kind=PROTOBUF)
        assert (status, told["reason"]) == (415, "UnsupportedMediaType")
        for method, place in (("POST", CONFIGMAPS), ("PUT", f"{CONFIGMAPS}/a"), ("DELETE", f"{CONFIGMAPS}/a")):
            status, told = await box.ask(method, place, b"\xd9\xd9\xf7\xa0", kind="application/cbor")
            assert (status, told["reason"]) == (415, "UnsupportedMediaType")
        await box.make(CONFIGMAPS, {"metadata": {"name": "a"}})
        status, told = await box.ask("PATCH", f"{CONFIGMAPS}/a", b"\xa0", kind="application/apply-patch+cbor")
        assert (status, told["reason"]) == (415, "UnsupportedMediaType")
