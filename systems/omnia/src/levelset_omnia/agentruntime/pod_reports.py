"""Reads the reports of an agent's Pods: what keeps them from answering, and how many requests failed.

Kubernetes shows that a Pod is not ready, and not why. The agent serves `/report` on its facade port; the operator reads
it only while an agent has no ready Pods, or while a canary is judged by its errors.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import Pod
from levelset_omnia.well_known import CONFIG_HASH

__all__ = ["PodProblem", "PodReport", "ReadReport", "counts_of", "read_report", "read_reports"]

_TIMEOUT: Final = 2.0
_MAX_REPORT: Final = 64 * 1024
_MAX_PODS: Final = 20
"""The Pods of one agent whose reports are read at once; those of the others would say the same."""


class PodProblem(Struct, frozen=True):
    """One problem of an agent: `part` is `facade`, `session` or `provider`."""

    part: str
    message: str


class PodReport(Struct, frozen=True):
    """What one Pod reports; the counts are since its start."""

    problems: tuple[PodProblem, ...] = ()
    requests: int = 0
    errors: int = 0
    config_hash: str = ""
    """Of the template that the Pod was made of."""


ReadReport = Callable[[str, int], Awaitable[PodReport | None]]
"""Reads the report at an address and port; None if there is none."""


async def read_reports(pods: Iterable[Pod], port: int, read: ReadReport) -> Sequence[PodReport]:
    """The reports of all Pods that have an address and answer."""
    placed = [one for one in pods if one.status is not None and one.status.pod_ip][:_MAX_PODS]
    found = await asyncio.gather(*(read(one.status.pod_ip or "", port) for one in placed if one.status is not None))
    return [
        PodReport(report.problems, report.requests, report.errors, pod.metadata.annotations.get(CONFIG_HASH, ""))
        for pod, report in zip(placed, found, strict=True)
        if report is not None
    ]


def counts_of(deployment: Deployment | None, reports: Iterable[PodReport]) -> tuple[int, int]:
    """The requests and errors of the Pods of a Deployment's present template; those of earlier templates are others."""
    if deployment is None:
        return 0, 0
    digest = deployment.spec.template.metadata.annotations.get(CONFIG_HASH)
    present = [one for one in reports if one.config_hash == digest]
    return sum(one.requests for one in present), sum(one.errors for one in present)


async def read_report(address: str, port: int) -> PodReport | None:
    """The report of the Pod at an address; None if it does not answer, or serves no report, as other images may."""
    host = f"[{address}]" if ":" in address else address
    try:
        tree = await asyncio.to_thread(_get, f"http://{host}:{port}/report")
        return convert(tree, PodReport)
    except (OSError, ValueError, ValidationError):
        return None


def _get(url: str) -> Any:
    """The JSON at a URL; OSError or ValueError if there is none."""
    # Imported late: they bring parsers of mails along, and a system without a Pod reads no report.
    from http.client import HTTPException  # noqa: PLC0415
    from urllib.request import ProxyHandler, build_opener  # noqa: PLC0415

    # No proxy of the environment: the address is that of a Pod.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=_TIMEOUT) as answer:
            return json.loads(answer.read(_MAX_REPORT))
    except HTTPException as error:
        raise OSError(f"{url} does not answer as an HTTP server") from error
