"""Which Services a workload names: those that it produces, and those that its templates speak of; pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from levelset import Ref
from levelset_dcp.kinds import Container, Executable, HealthProbe, Service
from levelset_dcp.producing import BadProducer, Producer, producers_of

__all__ = ["Workload", "named_in", "producers", "services_named"]

Workload = Executable | Container

_NAMED: Final = re.compile(r"""(?:port|address)For(?:Serving)?\s+["`](?:[^"`/]*/)?([^"`/]+)["`]""")


def producers(workload: Workload) -> tuple[Producer, ...]:
    """The Services that a workload produces; none if it does not say so in a form that can be read."""
    try:
        return tuple(producers_of(workload.metadata.annotations))
    except BadProducer:
        return ()


def services_named(workload: Workload) -> Iterator[Ref[Service]]:
    """All Services that it produces or that its templates name: a change of one is a reason to look at it."""
    spec = workload.spec
    texts = [*spec.args, *(one.value for one in spec.env), *_probe_texts(spec.health_probes)]
    for name in sorted(named_in(texts) | {one.service for one in producers(workload)}):
        yield Ref(Service, name)


def named_in(texts: Sequence[str]) -> set[str]:
    """The Services that templates name."""
    return {found for text in texts if "{{" in text for found in _NAMED.findall(text)}


def _probe_texts(probes: tuple[HealthProbe, ...]) -> Iterator[str]:
    for probe in probes:
        if probe.http_probe is not None:
            yield probe.http_probe.url
            yield from (one.value for one in probe.http_probe.headers)
        if probe.executable_probe is not None:
            yield from probe.executable_probe.args
            yield from (one.value for one in probe.executable_probe.env)
