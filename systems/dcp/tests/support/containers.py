"""Helpers for tests of containers: a host with an in-memory engine, builders of objects, and a fake prober."""

from collections.abc import Mapping
from typing import Any

from levelset import ObjectMeta, Ref, encode
from levelset.apiserver import LogRequest
from levelset.objects import decode_tree
from levelset.testing import Cluster
from levelset_dcp.containers import ContainerHost
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import Container, ContainerSpec, ContainerStatus
from levelset_dcp.records import MemoryRecords
from levelset_machine import Check, FakeMachine, HttpCheck, Identity, LogStore, Outcome, ProbeResult

__all__ = ["FakeProber", "container", "fake_container_host", "names", "read_log", "state_history", "status"]


def fake_container_host(engine: InMemoryEngine | None, **more: Any) -> ContainerHost:
    machine = FakeMachine()
    fields: dict[str, Any] = {
        "engine": engine,
        "prober": machine,
        "logs": LogStore(None, now=machine.now),
        "records": MemoryRecords(),
        "now": machine.now,
        "ambient": {"PATH": "/bin"},
        "creator": Identity(4711, 99),
        **more,
    }
    return ContainerHost(**fields)


def container(name: str = "one", annotations: Mapping[str, str] | None = None, **spec: Any) -> Container:
    metadata = ObjectMeta(name=name, annotations=dict(annotations or {}))
    fields: dict[str, Any] = {"image": "web:1", **spec}
    return Container(metadata=metadata, spec=ContainerSpec(**fields))


async def status(cluster: Cluster, name: str = "one") -> ContainerStatus:
    await cluster.settled()
    return (await cluster.get(Ref(Container, name))).status or ContainerStatus()


def state_history(cluster: Cluster, ref: Ref[Any]) -> list[str]:
    """The consecutive states in the history of an object."""
    found = [(version.after or {}).get("status", {}).get("state") for version in cluster.history(ref)]
    texts = [one for one in found if one]
    return [one for place, one in enumerate(texts) if place == 0 or texts[place - 1] != one]


async def names(engine: InMemoryEngine) -> list[str]:
    return sorted(one.name for one in await engine.list_containers())


class FakeProber:
    """A prober with fixed outcomes, by a part of the URL or the program; it records all checks."""

    def __init__(self, **outcomes: Outcome) -> None:
        self.outcomes: dict[str, Outcome] = dict(outcomes)
        self.checks: list[Check] = []

    async def probe(self, check: Check, *, timeout: float) -> ProbeResult:  # noqa: ASYNC109  (the signature of Prober)
        del timeout
        self.checks.append(check)
        key = check.url if isinstance(check, HttpCheck) else str(check)
        matching: list[Outcome] = [one for part, one in self.outcomes.items() if part in key]
        found = matching[0] if matching else "Failure"
        return ProbeResult(found, f"fixed outcome {found}")


async def read_log(cluster: Cluster, logs: Any, ref: Ref[Any], /, **query: str) -> bytes:
    """Reads the log of an object."""
    obj = await cluster.get(ref)
    request = LogRequest(ref.name, None, decode_tree(encode(obj)), query)
    return b"".join([piece async for piece in await logs(request)])
