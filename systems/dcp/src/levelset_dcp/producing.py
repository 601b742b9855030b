"""Which Services a workload produces: the annotation `service-producer`, read and turned into Endpoints."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from levelset_dcp.naming import SERVICE_PRODUCER

__all__ = ["BadProducer", "Producer", "producers_of"]


class BadProducer(ValueError):
    """The annotation is not what it should be; the words say which part."""


@dataclass(frozen=True, slots=True)
class Producer:
    """One Service that a workload produces, and where, as far as it says."""

    service: str
    namespace: str = ""
    address: str = ""
    port: int | None = None


def producers_of(annotations: Mapping[str, str]) -> Sequence[Producer]:
    """What the annotation says; BadProducer, with what is expected, if it is no such list."""
    text = annotations.get(SERVICE_PRODUCER)
    if not text:
        return ()
    try:
        tree: Any = json.loads(text)
    except ValueError as error:
        raise BadProducer(f"annotation {SERVICE_PRODUCER}: it is no JSON: {error}") from error
    if not isinstance(tree, list):
        raise BadProducer(f'annotation {SERVICE_PRODUCER}: a list is expected, such as [{{"serviceName": "web"}}]')
    several: list[Any] = cast("Any", tree)
    return tuple(_producer(number, one) for number, one in enumerate(several))


def _producer(number: int, tree: Any) -> Producer:
    where = f"annotation {SERVICE_PRODUCER}[{number}]"
    if not isinstance(tree, dict):
        raise BadProducer(f'{where}: an object is expected, such as {{"serviceName": "web", "port": 8080}}')
    known = cast("dict[str, Any]", tree)
    service, port = known.get("serviceName"), known.get("port")
    if not isinstance(service, str) or not service:
        raise BadProducer(f"{where}.serviceName: the name of a Service is expected")
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65536):
        raise BadProducer(f"{where}.port: a number from 1 to 65535 is expected, or none")
    texts = {name: known.get(name) or "" for name in ("serviceNamespace", "address")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise BadProducer(f"{where}.{name}: a text is expected")
    return Producer(service, texts["serviceNamespace"], texts["address"], port or None)
