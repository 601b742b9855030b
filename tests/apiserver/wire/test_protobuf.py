"""Objects in protobuf are decoded into the tree that they have in JSON."""

import contextlib
import random
import struct
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.kind_table import BUILTIN_KINDS
from levelset.apiserver.wire.protobuf import PROTOBUF, read_protobuf
from levelset.errors import BadObject
from tests.apiserver.support.in_process_server import CONFIGMAPS, open_server, widgets
from tests.apiserver.support.protobuf_messages import envelope, message, meta

NOON = message((1, 1_700_000_000), (2, 123_456_789))
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def read(version: str, kind: str, raw: bytes) -> dict[str, Any]:
    return read_protobuf(envelope(version, kind, raw))


def test_zero_values_are_omitted_as_in_go_json() -> None:
    tree = read("v1", "ConfigMap", message((1, meta("a"))))
    assert tree == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_a_zero_behind_a_pointer_is_preserved() -> None:
    tree = read("apps/v1", "Deployment", message((2, message((1, 0), (5, 0), (6, 0)))))
    assert tree["spec"] == {"replicas": 0, "revisionHistoryLimit": 0}


def test_maps_can_hold_strings_bytes_and_quantities() -> None:
    data = message((1, "a"), (2, b"\x00\xff"))
    assert read("v1", "Secret", message((2, data)))["data"] == {"a": "AP8="}
    cpu = message((1, "cpu"), (2, message((1, "250m"))))
    assert read("v1", "Node", message((3, message((1, cpu)))))["status"] == {"capacity": {"cpu": "250m"}}
    assert read("v1", "ConfigMap", message((2, message((1, "k")))))["data"] == {"k": ""}


def test_an_inlined_message_is_part_of_its_parent_in_json() -> None:
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
def test_an_int_or_string_has_the_type_it_declares(port: bytes, value: Any) -> None:
    service = read("v1", "Service", message((1, meta("a")), (2, message((1, message((3, 80), (4, port)))))))
    assert service["spec"]["ports"][0]["targetPort"] == value


def test_raw_extensions_are_json() -> None:
    raw = message((2, message((1, b'{"a":[1,{"b":null}]}'))))
    assert read("apps/v1", "ControllerRevision", raw)["data"] == {"a": [1, {"b": None}]}
    managed = message((1, "m"), (7, message((1, b'{"f:data":{}}'))))
    tree = read("v1", "ConfigMap", message((1, message((17, managed)))))
    assert tree["metadata"]["managedFields"] == [{"manager": "m", "fieldsV1": {"f:data": {}}}]


def test_crd_schemas_are_decoded_with_their_alternatives() -> None:
    whole = message((5, "object"), (29, message((1, "a"), (2, message((5, "array"), (24, _items()))))))
    version = message((1, "v1"), (2, 1), (3, 1), (4, message((1, whole))))
    tree = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, message((7, version)))))
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]
    assert schema == {"type": "array", "items": {"type": "number", "minimum": 0.5, "additionalProperties": False}}


def _items() -> bytes:
    least = b"\x59" + struct.pack("<d", 0.5)  # field 11, eight bytes
    return message((1, message((5, "number")) + least + message((30, message((1, 0))))))


def test_maps_of_string_lists_are_decoded() -> None:
    extra = message((1, "scopes"), (2, message((1, ("a", "b")))))
    tree = read("authentication.k8s.io/v1", "TokenReview", message((3, message((2, message((4, extra)))))))
    assert tree["status"]["user"] == {"extra": {"scopes": ["a", "b"]}}


def test_packed_integers_are_decoded() -> None:
    tree = read("v1", "Pod", message((2, message((14, message((4, b"\x01\x96\x01")))))))
    assert tree["spec"]["securityContext"] == {"supplementalGroups": [1, 150]}


def test_unknown_fields_are_ignored() -> None:
    tree = read("v1", "ConfigMap", message((1, meta("a", (999, "new"))), (500, 7), (501, "x")))
    assert tree["metadata"] == {"name": "a"}


def test_a_message_in_two_pieces_is_merged() -> None:
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
def test_invalid_protobuf_is_rejected(data: bytes) -> None:
    with pytest.raises(BadObject):
        read_protobuf(data)


def test_a_too_deeply_nested_schema_is_rejected() -> None:
    nested = b""
    for _ in range(400):
        nested = message((28, nested))  # not
    version = message((1, "v1"), (4, message((1, nested))))
    with pytest.raises(BadObject, match="levels deep"):
        read("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, message((7, version)))))


def test_every_builtin_kind_can_be_decoded() -> None:
    for place, rows in BUILTIN_KINDS.items():
        for row in rows:
            version = place.removeprefix("/")
            assert read(version, row.kind, message((1, meta("a"))))["kind"] == row.kind


def test_random_bytes_raise_only_bad_object() -> None:
    dice = random.Random(8)
    good = envelope("apps/v1", "Deployment", message((1, meta("a", (11, message((1, "k"), (2, "v"))))), (2, NOON)))
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(dice.randint(1, 6)):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        cut = bytes(data[: dice.randrange(4, len(data) + 1)])
        with contextlib.suppress(BadObject):
            assert isinstance(read_protobuf(cut), dict)


async def test_a_protobuf_body_is_stored_and_returned_as_json() -> None:
    entry = message((1, "k"), (2, "v"))
    async with open_server() as api:
        body = envelope("v1", "ConfigMap", message((1, meta("a")), (2, entry)))
        status, made = await api.request("POST", CONFIGMAPS, body, kind=PROTOBUF, accept=f"{PROTOBUF}, */*")
        assert (status, made["data"]) == (201, {"k": "v"})
        body = envelope("v1", "ConfigMap", message((1, meta("a")), (2, message((1, "k"), (2, "w")))))
        status, made = await api.request("PUT", f"{CONFIGMAPS}/a", body, kind=PROTOBUF)
        assert (status, made["data"]) == (200, {"k": "w"})


async def test_delete_options_can_be_protobuf() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        condition = message((2, message((1, "another"))))
        path = f"{CONFIGMAPS}/a"
        status, error = await api.request("DELETE", path, envelope("v1", "DeleteOptions", condition), kind=PROTOBUF)
        assert (status, error["reason"]) == (409, "Conflict")
        policy = envelope("v1", "DeleteOptions", message((4, "Background")))
        assert (await api.request("DELETE", path, policy, kind=PROTOBUF))[0] == 200


async def test_a_scale_can_be_protobuf() -> None:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with open_server() as api:
        await api.create(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {"selector": labels, "template": template}})
        scale = envelope("autoscaling/v1", "Scale", message((1, meta("a")), (2, message((1, 3)))))
        status, made = await api.request("PUT", f"{DEPLOYMENTS}/a/scale", scale, kind=PROTOBUF)
        assert (status, made["spec"]) == (200, {"replicas": 3})


async def test_custom_resources_cannot_be_protobuf_and_nothing_can_be_cbor() -> None:
    async with open_server() as api:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        path = "/apis/example.com/v1/namespaces/default/widgets"
        body = envelope("example.com/v1", "Widget", message((1, meta("a"))))
        status, error = await api.request("POST", path, body, kind=PROTOBUF)
        assert (status, error["reason"]) == (415, "UnsupportedMediaType")
        for method, place in (("POST", CONFIGMAPS), ("PUT", f"{CONFIGMAPS}/a"), ("DELETE", f"{CONFIGMAPS}/a")):
            status, error = await api.request(method, place, b"\xd9\xd9\xf7\xa0", kind="application/cbor")
            assert (status, error["reason"]) == (415, "UnsupportedMediaType")
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        status, error = await api.request("PATCH", f"{CONFIGMAPS}/a", b"\xa0", kind="application/apply-patch+cbor")
        assert (status, error["reason"]) == (415, "UnsupportedMediaType")
