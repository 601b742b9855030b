"""The state of the server in which the runs of an exploration begin: its kinds are installed, and nothing has happened.

Starting an empty server and installing kinds is the same work in each run, and a tenth of it. The first run does it, and
the others begin on a copy of what it has stored.
"""

from dataclasses import dataclass
from typing import Any, Self

from levelset.storage import MemoryStorage
from levelset.testing.cluster import Cluster
from levelset.testing.embedded_server import EmbeddedServer

__all__ = ["StartingState"]


@dataclass(frozen=True, slots=True)
class StartingState:
    """What is stored after the preparation, and the state of the server's random numbers."""

    writes: tuple[tuple[str, bytes], ...]
    """All writes in their order: the keys with the values."""
    random: tuple[Any, ...]

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """The state of a cluster in which only kinds were installed."""
        with_history = cluster.storage.watch("/", after=cluster.storage.compacted)
        changes = with_history.batch_nowait()
        with_history.close_nowait()
        # Nothing is deleted while kinds are installed, so that each revision is a write.
        writes = tuple((one.key, one.after.value) for one in changes if one.after is not None)
        assert len(writes) == cluster.storage.revision, "the revisions of a copy have to be the same"
        return cls(writes, _server(cluster).server.state.random.getstate())

    def storage(self) -> MemoryStorage:
        """A new storage with these writes, at the same revisions."""
        made = MemoryStorage()
        for key, value in self.writes:
            made.put_nowait(key, value, expected=None)
        return made

    def continue_in(self, cluster: Cluster) -> None:
        """Lets a cluster on such a storage continue with the next random numbers: no uid is generated twice."""
        _server(cluster).server.state.random.setstate(self.random)


def _server(cluster: Cluster) -> EmbeddedServer:
    assert cluster.environment.embedded is not None, "explorations run in process"
    return cluster.environment.embedded
