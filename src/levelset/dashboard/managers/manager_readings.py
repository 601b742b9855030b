"""What is known of managers in other processes: one reading each, of the admin API or of the metrics of a Pod.

A manager of this user on this machine has a record with the address and the token of its admin API, which says
everything that `levelset status`, `why` and `trigger` show. A manager in a Pod is read through the API server's proxy,
with the rights of the dashboard's kubeconfig: its metrics and its readiness.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from levelset.client import Client
from levelset.client.internals import send_once
from levelset.client.transport.interface import Call, Response
from levelset.dashboard.managers.scraped_metrics import ScrapedController, ScrapedManager, parse_metrics, quantile
from levelset.dashboard.metrics_history import ControllerSample
from levelset.dashboard.views import map_in, maps_in, text_of
from levelset.errors import LevelsetError, Unreachable
from levelset.runtime.manager.process_records import ProcessRecord, call_admin

__all__ = [
    "ControllerReading",
    "ManagerReading",
    "call_manager",
    "is_same_server",
    "metrics_port",
    "read_pod",
    "read_process",
    "sample_between",
]

ADMIN_SECONDS: Final = 2.0
"""The longest that the admin API of a manager may take."""
PROXY_SECONDS: Final = 5.0
MOST_METRICS: Final = 4 * 1024 * 1024
"""The bytes of the metrics of a Pod; what follows is not read."""

_MOST_MESSAGE: Final = 500
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 -- compared, not bound
_PORT_NAMES: Final = ("metrics", "http-metrics", "https-metrics", "health", "https")
_PORT_ANNOTATION: Final = "prometheus.io/port"


class ControllerReading(msgspec.Struct, frozen=True):
    """One controller: as the page shows it, and the numbers of which a sample is made."""

    name: str
    view: Mapping[str, Any]
    reconciles: int
    waiting: int
    running: int
    errors: int | None = None
    """How many reconciles have failed so far; None if that is not known."""
    recent: Sequence[tuple[float, bool]] = ()
    """How long each of the last reconciles took, and whether it failed, oldest first."""
    buckets: Mapping[float, int] = {}
    failing: Sequence[Mapping[str, Any]] = ()
    """The objects that fail, with the error and when they are retried."""


class ManagerReading(msgspec.Struct, frozen=True, kw_only=True):
    """One manager at one moment; `problem` says what is wrong with the manager itself, `note` what is not known."""

    name: str
    pid: int | None = None
    pod: Mapping[str, Any] | None = None
    role: str = ""
    problem: str | None = None
    note: str = ""
    controllers: Sequence[ControllerReading] = ()
    watches: Sequence[Mapping[str, Any]] = ()
    members: Sequence[Mapping[str, Any]] = ()
    shards: Mapping[str, Any] = {}
    hot_loops: Sequence[Mapping[str, Any]] = ()
    reconciles: Sequence[Mapping[str, Any]] = ()
    """The last reconciles, newest first."""
    requests: int = 0
    failed_requests: int = 0


def is_same_server(one: str, other: str) -> bool:
    """Whether two URLs are of the same API server; the names of this machine are one name."""
    return bool(one) and bool(other) and _address(one) == _address(other)


def _address(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    return "localhost" if host in _LOOPBACK else host, parts.port or (443 if parts.scheme == "https" else 80)


# ---- processes of this machine ---------------------------------------------------------------------------------------


async def call_manager(record: ProcessRecord, method: str, path: str) -> tuple[int, Any]:
    """The response of the admin API of a manager, waited for in a thread; Unreachable if there is none."""
    return await asyncio.to_thread(call_admin, record, method, path, within=ADMIN_SECONDS)


async def read_process(record: ProcessRecord, *, is_only: bool = True) -> ManagerReading:
    """Reads a manager of this machine; unless it is the only one of its process its name has the port of its API."""
    program = PurePath(record.program).name
    port = "" if is_only else f", port {urlsplit(record.url).port}"
    name = text_of(f"process {record.pid}{f' ({program})' if program else ''}{port}")
    try:
        code, status = await call_manager(record, "GET", "/status")
        if code != 200:
            raise Unreachable(f"its admin API responds {code}")
        code, last = await call_manager(record, "GET", "/reconciles")
        reconciles: list[Any] = last["reconciles"] if code == 200 else []  # an older version does not have it
        return _process_reading(record, name, status, reconciles)
    except Unreachable as error:
        return ManagerReading(name=name, pid=record.pid, problem=str(error)[:_MOST_MESSAGE])
    except (KeyError, TypeError, ValueError) as error:  # of another version
        return ManagerReading(name=name, pid=record.pid, note=f"it is of another version: {error!r}"[:_MOST_MESSAGE])


def _process_reading(record: ProcessRecord, name: str, status: Any, reconciles: list[Any]) -> ManagerReading:
    members: list[Any] = status.get("members") or []
    is_leader = status["is_leader"]
    role = ("member" if is_leader else "joining") if members else ("leader" if is_leader else "standby")
    return ManagerReading(
        name=name,
        pid=record.pid,
        role=role,
        controllers=[_process_controller(one, reconciles) for one in status["controllers"]],
        watches=status["watches"],
        members=members,
        shards=status.get("shards") or {},
        hot_loops=status.get("hot_loops") or [],
        requests=status.get("requests", 0),
        failed_requests=status.get("failed_requests", 0),
        reconciles=reconciles,
    )


def _process_controller(one: Any, reconciles: list[Any]) -> ControllerReading:
    mine = [each for each in reversed(reconciles) if each["controller"] == one["name"]]
    errors = one["errors"]
    view = {
        "name": one["name"],
        "kind": f"{one['api_version']}/{one['kind']}" if "api_version" in one else "",
        "isReady": one["is_ready"],
        "isPaused": one.get("is_paused", False),
        "waiting": one["ready"],
        "delayed": one["delayed"],
        "running": one["running"],
        "workers": one["workers"],
        "longest": round(one.get("longest", 0.0), 3),
        "reconciles": one["reconciles"],
        "failing": one["failing"],
        "errors": len(errors),
        "lastError": {"message": text_of(errors[0]["error"])} if errors else None,
        "lastReconciled": None,
    }
    return ControllerReading(
        name=one["name"],
        view=view,
        reconciles=one["reconciles"],
        waiting=one["ready"],
        running=one["running"],
        recent=[(each["seconds"], each["result"] in {"failed", "timed_out", "gave_up"}) for each in mine],
        failing=one.get("failing_objects") or [],
    )


# ---- Pods ------------------------------------------------------------------------------------------------------------


def metrics_port(pod: Any) -> str | None:
    """The port of a Pod at which its metrics are, as the proxy wants it: `8081`, or `https` before it; None if unknown.

    It is the port with one of the usual names, or that of the annotation that Prometheus reads.
    """
    ports = [port for one in maps_in(map_in(pod, "spec"), "containers") for port in maps_in(one, "ports")]
    for name in _PORT_NAMES:
        for port in ports:
            number = port.get("containerPort")
            if port.get("name") == name and isinstance(number, int) and 0 < number < 65536:
                return f"https:{number}" if "https" in name else f"{number}"
    annotated = text_of(map_in(map_in(pod, "metadata"), "annotations").get(_PORT_ANNOTATION))
    return annotated if annotated.isascii() and annotated.isdecimal() and 0 < int(annotated) < 65536 else None


async def read_pod(client: Client, pod: Any) -> ManagerReading:
    """Reads a manager in a Pod: its metrics, and whether it is ready. What may not be read is a note."""
    meta = map_in(pod, "metadata")
    name, namespace = text_of(meta.get("name")), text_of(meta.get("namespace"))
    about = {"kind": "v1/Pod", "name": name, "namespace": namespace}
    shown, port = f"Pod {namespace}/{name}", metrics_port(pod)
    if port is None:
        return ManagerReading(name=shown, pod=about, note="its metrics are at no port that is named health or metrics")
    try:
        status, text = await _get(client, namespace, name, port, "metrics")
        if status != 200:
            why = "the kubeconfig may not get pods/proxy" if status == 403 else f"the response is {status}"
            return ManagerReading(name=shown, pod=about, note=f"its metrics cannot be read: {why}")
        found = await asyncio.to_thread(parse_metrics, text)
        problem = await _unreadiness(client, namespace, name, port)
    except LevelsetError as error:
        return ManagerReading(name=shown, pod=about, note=f"its metrics cannot be read: {error}"[:_MOST_MESSAGE])
    return ManagerReading(
        name=shown,
        pod=about,
        role=_role(found),
        problem=problem,
        note="" if found.controllers else "its metrics name no controller",
        controllers=[_pod_controller(key, one) for key, one in found.controllers.items()],
        watches=[_pod_watch(key, one) for key, one in found.watches.items()],
        requests=found.requests,
        failed_requests=found.failed_requests,
    )


async def _unreadiness(client: Client, namespace: str, name: str, port: str) -> str | None:
    """Why a manager is not ready: its failed checks; None if it is, or does not say."""
    status, text = await _get(client, namespace, name, port, "readyz")
    if status not in {500, 503}:
        return None  # or its health checks are at another port
    failed = [line.removeprefix("[-]") for line in text.splitlines() if line.startswith("[-]")]
    return "; ".join(failed)[:_MOST_MESSAGE] or "it is not ready"


async def _get(client: Client, namespace: str, name: str, port: str, path: str) -> tuple[int, str]:
    """The status and the text of what a Pod serves, through the API server; at most so many bytes of it."""
    scheme, _, number = port.rpartition(":")
    target = f"{f'{scheme}:' if scheme else ''}{name}:{number}"
    place = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(target, safe=':')}/proxy/{path}"
    about = f"read {path} of Pod/{namespace}/{name}"
    call = Call(
        method="GET",
        path=place,
        headers={"Accept": "*/*"},
        is_stream=True,
        timeout=PROXY_SECONDS,
        verb="get",
        about=about,
    )
    try:
        async with asyncio.timeout(PROXY_SECONDS):
            response = await send_once(client, call)
            return response.status, await _text(response)
    except TimeoutError as error:
        raise Unreachable(f"{about}: it took longer than {PROXY_SECONDS:.0f} s") from error


async def _text(response: Response) -> str:
    if response.stream is None:
        return response.body[:MOST_METRICS].decode(errors="replace")
    chunks, size = list[bytes](), 0
    try:
        async for chunk in response.stream:
            chunks.append(chunk)
            size += len(chunk)
            if size >= MOST_METRICS:
                break
    finally:
        await response.stream.aclose()
    return b"".join(chunks)[:MOST_METRICS].decode(errors="replace")


def _role(found: ScrapedManager) -> str:
    if found.members:
        return "member"
    return "" if found.is_leader is None else "leader" if found.is_leader else "standby"


def _pod_controller(name: str, one: ScrapedController) -> ControllerReading:
    view = {
        "name": name,
        "kind": "",
        "isReady": True,
        "isPaused": False,
        "waiting": one.waiting,
        "delayed": None,
        "running": one.running,
        "workers": one.workers,
        "longest": 0.0,
        "reconciles": one.reconciles,
        "failing": 0,
        "errors": one.errors,
        "lastError": None,
        "lastReconciled": None,
    }
    return ControllerReading(
        name=name,
        view=view,
        reconciles=one.reconciles,
        waiting=one.waiting,
        running=one.running,
        errors=one.errors,
        buckets=one.buckets,
    )


def _pod_watch(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    counts = {key: int(one.get(key, 0)) for key in ("objects", "bytes", "events", "relists", "reconnects", "errors")}
    return {"name": name, "is_ready": bool(one.get("is_ready", 1)), "lag": one.get("lag"), "error": None, **counts}


# ---- samples ---------------------------------------------------------------------------------------------------------


def sample_between(now: ControllerReading, before: ControllerReading | None) -> ControllerSample:
    """The sample of a controller of which this was read, and that before; after a restart it counts from zero."""
    new = now.reconciles - (0 if before is None else before.reconciles)
    if before is not None and new < 0:
        before, new = None, now.reconciles
    if now.errors is None:
        last = now.recent[-new:] if new > 0 else ()
        seconds = sorted(one for one, _ in last)
        median, p95, p99 = (_percentile(seconds, part) for part in (0.5, 0.95, 0.99))
        errors = sum(is_error for _, is_error in last)
    else:
        past: Mapping[float, int] = {} if before is None else before.buckets
        median, p95, p99 = (quantile(part, now.buckets, past) for part in (0.5, 0.95, 0.99))
        errors = max(0, now.errors - (0 if before is None else before.errors or 0))
    return ControllerSample(now.waiting, now.running, now.reconciles, errors, median, p95, p99)


def _percentile(ordered: Sequence[float], part: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
