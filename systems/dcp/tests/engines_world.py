"""A world of containers in which nothing really runs, and words for tests to talk about it."""

from collections.abc import Mapping
from typing import Any

from levelset import ObjectMeta, Ref, encode
from levelset.apiserver import Asked
from levelset.objects import decode_tree
from levelset.testing import Cluster
from levelset_dcp.containers import Containers
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import Container, ContainerSpec, ContainerStatus
from levelset_dcp.records import MemoryRecords
from levelset_machine import Check, HttpCheck, Identity, LogStore, Outcome, PretendMachine, Verdict

__all__ = ["Answers", "container", "engine_world", "names", "read_log", "seen_states", "status"]


def engine_world(engine: InMemoryEngine | None, **more: Any) -> Containers:
    pretend = PretendMachine()
    given: dict[str, Any] = {
        "engine": engine,
        "prober": pretend,
        "logs": LogStore(None, now=pretend.now),
        "records": MemoryRecords(),
        "now": pretend.now,
        "ambient": {"PATH": "/bin"},
        "creator": Identity(4711, 99),
        **more,
    }
    return Containers(**given)


def container(name: str = "one", annotations: Mapping[str, str] | None = None, **spec: Any) -> Container:
    metadata = ObjectMeta(name=name, annotations=dict(annotations or {}))
    given: dict[str, Any] = {"image": "web:1", **spec}
    return Container(metadata=metadata, spec=ContainerSpec(**given))


async def status(cluster: Cluster, name: str = "one") -> ContainerStatus:
    await cluster.settled()
    return (await cluster.get(Ref(Container, name))).status or ContainerStatus()


def seen_states(cluster: Cluster, ref: Ref[Any]) -> list[str]:
    """The states that somebody could see, one after the other."""
    found = [(version.after or {}).get("status", {}).get("state") for version in cluster.history(ref)]
    texts = [one for one in found if one]
    return [one for place, one in enumerate(texts) if place == 0 or texts[place - 1] != one]


async def names(engine: InMemoryEngine) -> list[str]:
    return sorted(one.name for one in await engine.list_containers())


class Answers:
    """A prober that answers as it was told, by URL or by program; and remembers what it was asked."""

    def __init__(self, **outcomes: Outcome) -> None:
        self.outcomes: dict[str, Outcome] = dict(outcomes)
        self.asked: list[Check] = []

    async def probe(self, check: Check, *, timeout: float) -> Verdict:  # noqa: ASYNC109  (the words of Prober)
        del timeout
        self.asked.append(check)
        key = check.url if isinstance(check, HttpCheck) else str(check)
        told: list[Outcome] = [one for part, one in self.outcomes.items() if part in key]
        found = told[0] if told else "Failure"
        return Verdict(found, f"told so: {found}")


async def read_log(cluster: Cluster, logs: Any, ref: Ref[Any], /, **query: str) -> bytes:
    """What a request for the log of an object gets."""
    obj = await cluster.get(ref)
    asked = Asked(ref.name, None, decode_tree(encode(obj)), query)
    return b"".join([piece async for piece in await logs(asked)])
