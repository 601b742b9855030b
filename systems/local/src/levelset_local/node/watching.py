"""Asks a container how it is while it runs: its hook after the start, then startup, then liveness and readiness."""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from levelset import ConfigError
from levelset.kinds.core_v1 import Probe
from levelset_local.node import changes
from levelset_local.node.agent import Node
from levelset_local.node.changes import Change
from levelset_local.node.charges import Charge, run_hook
from levelset_local.node.checks import BadProbe, pace_of, probe_check
from levelset_machine import Tally, Verdict, keep_probing

__all__ = ["watch_container"]

Tell = Callable[[Change], object]
ProbeWord = Literal["Startup", "Liveness", "Readiness"]

_HOOK_WITHIN: Final = 600.0


async def watch_container(node: Node, charge: Charge, tell: Tell) -> None:
    """Has the hook and the probes of a container carried out until it is cancelled, and tells what they find."""
    if not await _post_start(node, charge, tell):
        return
    container = charge.container
    if container.startup_probe is not None and not charge.live.is_started:
        await _keep(node, charge, tell, "Startup", container.startup_probe)
    async with asyncio.TaskGroup() as group:
        if container.liveness_probe is not None:
            group.create_task(_keep(node, charge, tell, "Liveness", container.liveness_probe))
        if container.readiness_probe is not None:
            group.create_task(_keep(node, charge, tell, "Readiness", container.readiness_probe))


async def _post_start(node: Node, charge: Charge, tell: Tell) -> bool:
    """Whether the container may go on: its hook is through, or there is none."""
    lifecycle = charge.container.lifecycle
    if charge.live.is_posted or lifecycle is None or lifecycle.post_start is None:
        return True
    verdict = await run_hook(node, charge, lifecycle.post_start, within=_HOOK_WITHIN)
    name, identity = charge.container.name, charge.live.identity
    if verdict.outcome == "Success":
        tell(changes.posted(name, identity))
        return True
    tell(changes.news("FailedPostStartHook", f"PostStartHook failed: {verdict.reason}"))
    tell(changes.failing(name, identity, "FailedPostStartHook"))
    return False


async def _keep(node: Node, charge: Charge, tell: Tell, word: ProbeWord, probe: Probe) -> None:
    """Makes one probe again and again; one that cannot be made is told, and counts as failing from the start."""
    judge = _Judge(charge, tell, word, probe)
    try:
        check = probe_check(probe, charge.container, charge.command, charge.address)
        pace = pace_of(probe, until_success=word == "Startup")
    except (BadProbe, ConfigError) as error:
        tell(changes.news("Unhealthy", f"{word} probe errored: {error}"))
        await asyncio.Event().wait()  # until the container ends: nobody can ask it
        return
    await keep_probing(node.prober, check, pace, judge)


class _Judge:
    """Tells what follows from the verdicts of one probe: only what has changed, and each failure for people."""

    def __init__(self, charge: Charge, tell: Tell, word: ProbeWord, probe: Probe) -> None:
        self._charge = charge
        self._tell = tell
        self._word = word
        self._grace = probe.termination_grace_period_seconds
        self._is_ready: bool | None = charge.live.is_ready
        self._is_told = False

    def __call__(self, verdict: Verdict, tally: Tally) -> None:
        name, identity = self._charge.container.name, self._charge.live.identity
        if verdict.outcome == "Failure":
            self._tell(changes.news("Unhealthy", f"{self._word} probe failed: {verdict.reason}"))
        if self._word == "Readiness":
            is_ready = tally.standing == "passing"
            if tally.standing != "unknown" and is_ready != self._is_ready:
                self._is_ready = is_ready
                self._tell(changes.ready(name, identity, is_ready=is_ready))
        elif tally.standing == "passing" and self._word == "Startup":
            self._tell(changes.started(name, identity))
        elif tally.standing == "failing" and not self._is_told:
            self._is_told = True
            why = f"failed {self._word.lower()} probe"
            self._tell(changes.failing(name, identity, why, self._grace))
