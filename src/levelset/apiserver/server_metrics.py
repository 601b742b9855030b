"""`GET /metrics`: the state of the server as Prometheus text, computed when it is read, so that requests do not pay."""

import time
from collections.abc import Callable

from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.http import Request, Response

__all__ = ["PATH", "ServerMetrics"]

PATH = "/metrics"
_TYPE = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)


class ServerMetrics:
    """Serves the metrics; `holds_controllers` says whether the controllers of the server run here."""

    def __init__(self, state: ServerState, *, holds_controllers: Callable[[], bool]) -> None:
        self._state = state
        self._holds_controllers = holds_controllers
        self._started = time.time()

    def page(self, request: Request) -> Response | None:
        """Returns the response, or None if the path is another one."""
        if request.path.rstrip("/") != PATH:
            return None
        if request.method != "GET":
            raise method_not_allowed()
        lines: list[str] = []
        for name, kind, about, value in self._values():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value:.17g}"]
        return Response(200, _TYPE, ("\n".join(lines) + "\n").encode())

    def _values(self) -> list[tuple[str, str, str, float]]:
        storage, reader = self._state.storage, self._state.reader
        watches = 0 if self._state.feeds is None else self._state.feeds.watchers
        return [
            ("levelset_storage_ready", "gauge", "Whether writes are possible.", reader.find_write_problem() is None),
            ("levelset_storage_objects", "gauge", "Stored objects of all kinds.", reader.count_nowait("/registry/")),
            ("levelset_storage_revision", "gauge", "The newest revision that this server has seen.", storage.revision),
            ("levelset_storage_compacted_revision", "gauge", "The oldest revision it knows.", storage.compacted),
            ("levelset_storage_damaged_objects", "gauge", "Objects that cannot be read.", len(reader.damaged)),
            ("levelset_watches", "gauge", "Open watches of clients.", watches),
            ("levelset_controllers_held", "gauge", "Whether its controllers run here.", self._holds_controllers()),
            ("process_start_time_seconds", "gauge", "When the server was created.", self._started),
            ("process_cpu_seconds_total", "counter", "User and system time.", time.process_time()),
        ]
