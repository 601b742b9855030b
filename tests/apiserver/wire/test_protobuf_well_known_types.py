import base64
from typing import Any

import pytest

from levelset.apiserver.wire.protobuf import WELL_KNOWN_TYPES
from levelset.errors import BadObject

SCHEMAS = "apiextensions.v1.JSONSchemaPropsOr"


def raw(text: bytes) -> dict[str, Any]:
    return {"raw": base64.b64encode(text).decode()}


@pytest.mark.parametrize(
    ("message", "fields", "value"),
    [
        ("meta.v1.Time", {"seconds": 1}, "1970-01-01T00:00:01Z"),
        ("meta.v1.Time", {"seconds": 0, "nanos": 0}, None),
        ("meta.v1.Time", {}, None),
        ("meta.v1.Time", {"seconds": -62135596800}, "0001-01-01T00:00:00Z"),
        ("meta.v1.MicroTime", {"seconds": 1, "nanos": 1999}, "1970-01-01T00:00:01.000001Z"),
        ("api.resource.Quantity", {"string": "1Gi"}, "1Gi"),
        ("api.resource.Quantity", {}, "0"),
        ("util.intstr.IntOrString", {"type": 1, "strVal": "a", "intVal": 0}, "a"),
        ("util.intstr.IntOrString", {"intVal": 5}, 5),
        ("pkg.runtime.RawExtension", raw(b'{"a":1}'), {"a": 1}),
        ("pkg.runtime.RawExtension", {}, None),
        ("apiextensions.v1.JSON", raw(b"false"), False),
        (f"{SCHEMAS}Bool", {"allows": True}, True),
        (f"{SCHEMAS}Bool", {"allows": True, "schema": {"type": "string"}}, {"type": "string"}),
        (f"{SCHEMAS}Array", {"jSONSchemas": [{}, {}]}, [{}, {}]),
        (f"{SCHEMAS}StringArray", {"property": ["a"]}, ["a"]),
    ],
)
def test_a_well_known_message_becomes_its_json_value(message: str, fields: dict[str, Any], value: Any) -> None:
    assert WELL_KNOWN_TYPES[message](fields) == value


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("meta.v1.Time", {"seconds": 2**62}),
        ("meta.v1.MicroTime", {"seconds": -(2**62)}),
        ("util.intstr.IntOrString", {"type": 7}),
        ("pkg.runtime.RawExtension", raw(b"k8s\x00")),
        ("meta.v1.FieldsV1", {"Raw": base64.b64encode(b"{").decode()}),
    ],
)
def test_an_invalid_well_known_message_is_rejected(message: str, fields: dict[str, Any]) -> None:
    with pytest.raises(BadObject):
        WELL_KNOWN_TYPES[message](fields)
