"""The Services that a workload produces and uses, and the Endpoints that are created for them."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from levelset import Context, ObjectMeta, Ref, Resource
from levelset_dcp.kinds import Container, Endpoint, EndpointSpec, Executable, HealthProbe, Service
from levelset_dcp.names import SERVICE_PRODUCER

__all__ = [
    "BadProducer",
    "Producer",
    "Workload",
    "endpoint_of",
    "producers",
    "producers_of",
    "referenced_services",
    "services_in_templates",
    "sync_endpoints",
]

Workload = Executable | Container
_CALLS: Final = ("portFor", "addressFor")
_SERVICE: Final = re.compile(r"""["`](?:[^"`/]*/)?([^"`/]+)["`]""")


class BadProducer(ValueError):
    """The annotation is invalid; the message names the part."""


class Producer(Struct, frozen=True):
    """One Service that a workload produces, with its address and port, if they are given."""

    service: str
    namespace: str = ""
    address: str = ""
    port: int | None = None


def producers_of(annotations: Mapping[str, str]) -> Sequence[Producer]:
    """Parses the annotation `service-producer`; raises BadProducer with what was expected."""
    text = annotations.get(SERVICE_PRODUCER)
    if not text:
        return ()
    try:
        tree: Any = json.loads(text)
    except ValueError as error:
        raise BadProducer(f"annotation {SERVICE_PRODUCER}: invalid JSON: {error}") from error
    if not isinstance(tree, list):
        raise BadProducer(f'annotation {SERVICE_PRODUCER}: a list is expected, such as [{{"serviceName": "web"}}]')
    several: list[Any] = cast("Any", tree)
    return tuple(_producer(number, one) for number, one in enumerate(several))


def _producer(number: int, tree: Any) -> Producer:
    where = f"annotation {SERVICE_PRODUCER}[{number}]"
    if not isinstance(tree, dict):
        raise BadProducer(f'{where}: an object is expected, such as {{"serviceName": "web", "port": 8080}}')
    fields = cast("dict[str, Any]", tree)
    service, port = fields.get("serviceName"), fields.get("port")
    if not isinstance(service, str) or not service:
        raise BadProducer(f"{where}.serviceName: the name of a Service is expected")
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65536):
        raise BadProducer(f"{where}.port: a number from 1 to 65535 is expected, or none")
    texts = {name: fields.get(name) or "" for name in ("serviceNamespace", "address")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise BadProducer(f"{where}.{name}: a text is expected")
    return Producer(service, texts["serviceNamespace"], texts["address"], port or None)


def producers(workload: Workload) -> tuple[Producer, ...]:
    """The Services that a workload produces; none if the annotation is invalid."""
    try:
        return tuple(producers_of(workload.metadata.annotations))
    except BadProducer:
        return ()


def referenced_services(workload: Workload) -> Iterator[Ref[Service]]:
    """All Services that a workload produces or its templates name; a change of one enqueues the workload."""
    spec = workload.spec
    texts = [*spec.args, *(one.value for one in spec.env), *_probe_texts(spec.health_probes)]
    for name in sorted(services_in_templates(texts) | {one.service for one in producers(workload)}):
        yield Ref(Service, name)


def services_in_templates(texts: Sequence[str]) -> set[str]:
    """All literals in templates that call for a Service: a pipeline may pass the name from anywhere in the text."""
    calling = (text for text in texts if "{{" in text and any(one in text for one in _CALLS))
    return {found for text in calling for found in _SERVICE.findall(text)}


def _probe_texts(probes: tuple[HealthProbe, ...]) -> Iterator[str]:
    for probe in probes:
        if probe.http_probe is not None:
            yield probe.http_probe.url
            yield from (one.value for one in probe.http_probe.headers)
        if probe.executable_probe is not None:
            program = probe.executable_probe.executable_template.spec
            yield from program.args
            yield from (one.value for one in program.env)


def endpoint_of(owner: Resource[Any, Any], service: str, address: str, port: int) -> Endpoint:
    """The Endpoint of a workload for a Service; its name is deterministic, so that none is created twice."""
    digest = hashlib.sha256(f"{owner.metadata.uid}\0{service}".encode()).hexdigest()[:8]
    name = f"{owner.name[:200]}-{service[:40]}-{digest}".lower()
    spec = EndpointSpec(service_name=service, address=address, port=port)
    return Endpoint(metadata=ObjectMeta(name=name), spec=spec)


async def sync_endpoints(ctx: Context, owner: Resource[Any, Any], wanted: Iterable[Endpoint]) -> Sequence[Endpoint]:
    """Creates, updates and deletes Endpoints so that the workload owns exactly these; returns the changed ones."""
    desired = {one.name: one for one in wanted}
    there = {one.name: one for one in await ctx.children(Endpoint) if one.metadata.deletion_timestamp is None}
    changed = [one for name, one in desired.items() if name not in there or there[name].spec != one.spec]
    for one in changed:
        await ctx.apply(one, owner=owner)
    for name, one in there.items():
        if name not in desired:
            await ctx.delete(one)
    return changed
