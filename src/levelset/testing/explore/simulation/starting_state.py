"""The state of the server in which the runs of an exploration begin: its kinds are installed, and nothing has happened.

Starting an empty server and installing kinds is the same work in each run, and a tenth of it. The first run does it,
and the others begin on a copy of what it has stored.
"""

from levelset.storage import MemoryStorage
from levelset.testing.cluster import Cluster
from levelset.testing.embedded_server import EmbeddedServer
from levelset.testing.explore.records.run_result import StartingState

__all__ = ["capture_start", "continue_from", "storage_of"]


def capture_start(cluster: Cluster) -> StartingState:
    """The state of a cluster in which only kinds were installed."""
    history = cluster.storage.watch("/", after=cluster.storage.compacted)
    changes = history.batch_nowait()
    history.close_nowait()
    # Nothing is deleted while kinds are installed, so that each revision is a write.
    writes = tuple((one.key, one.after.value) for one in changes if one.after is not None)
    assert len(writes) == cluster.storage.revision, "the revisions of a copy have to be the same"
    return StartingState(writes, _server(cluster).server.state.random.getstate())


def storage_of(start: StartingState) -> MemoryStorage:
    """A new storage with the writes of a starting state, at the same revisions."""
    made = MemoryStorage()
    for key, value in start.writes:
        made.put_nowait(key, value, expected=None)
    return made


def continue_from(start: StartingState, cluster: Cluster) -> None:
    """Lets a cluster on such a storage continue with the next random numbers: no uid is generated twice."""
    _server(cluster).server.state.random.setstate(start.random)


def _server(cluster: Cluster) -> EmbeddedServer:
    assert cluster.environment.embedded is not None, "explorations run in process"
    return cluster.environment.embedded
