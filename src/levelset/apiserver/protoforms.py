"""What some protobuf messages are in JSON: a time, a quantity, a number or a text, an object of whatever kind.

Each form gets the fields of a message and gives the value in JSON; None if it stands for nothing.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from levelset.errors import BadObject
from levelset.objects import decode_tree

__all__ = ["FORMS"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time(fields: dict[str, Any]) -> str | None:
    moment = _moment(fields)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _micro_time(fields: dict[str, Any]) -> str | None:
    moment = _moment(fields)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _moment(fields: dict[str, Any]) -> datetime | None:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if not seconds and not nanos:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise BadObject(f"{seconds} seconds since 1970 are no time that can be written down") from error


def _quantity(fields: dict[str, Any]) -> str:
    return fields.get("string") or "0"


def _int_or_string(fields: dict[str, Any]) -> int | str:
    match fields.get("type", 0):
        case 0:
            return int(fields.get("intVal", 0))
        case 1:
            return str(fields.get("strVal", ""))
        case other:
            raise BadObject(f"a number or a text is neither of them: its type is {other}")


def _json(fields: dict[str, Any]) -> Any:
    raw = base64.b64decode(fields.get("raw") or fields.get("Raw") or "")
    return decode_tree(raw) if raw else None


def _schema_or_bool(fields: dict[str, Any]) -> Any:
    return fields.get("schema", fields.get("allows", False))


def _schema_or_array(fields: dict[str, Any]) -> Any:
    return fields.get("jSONSchemas") or fields.get("schema")


def _schema_or_names(fields: dict[str, Any]) -> Any:
    return fields.get("property") or fields.get("schema")


FORMS: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.FieldsV1": _json,
    "api.resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
    "pkg.runtime.RawExtension": _json,
    "apiextensions.v1.JSON": _json,
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or_array,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or_names,
}
