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
    changes = tuple(history.batch_nowait())
    history.close_nowait()
    assert changes[-1].revision == cluster.storage.revision, "a copy has to be at the same revision"
    return StartingState(changes, _server(cluster).server.state.random.getstate())


def storage_of(start: StartingState) -> MemoryStorage:
    """A new storage with the history of a starting state."""
    return MemoryStorage(changes=start.changes)


def continue_from(start: StartingState, cluster: Cluster) -> None:
    """Lets a cluster on such a storage continue with the next random numbers: no uid is generated twice."""
    _server(cluster).server.state.random.setstate(start.random)


def _server(cluster: Cluster) -> EmbeddedServer:
    assert cluster.environment.embedded is not None, "explorations run in process"
    return cluster.environment.embedded
