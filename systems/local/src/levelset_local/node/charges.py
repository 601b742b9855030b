"""One run of a container that is attended to: its process, its probes, and what it leaves when it ends."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levelset import NotFound, Ref
from levelset.aio import timing
from levelset.kinds.core_v1 import Container, LifecycleHandler, Pod
from levelset_local.node.agent import Node
from levelset_local.node.checks import BadProbe, hook_check, stop_signal
from levelset_local.node.known import End, Live
from levelset_local.node.starting import message_file
from levelset_machine import Command, Ended, LogOptions, Run, Verdict

__all__ = ["Charge", "last_words", "run_hook", "stop_run", "the_end"]

_MOST_MESSAGE: Final = 4096
_MOST_LOG: Final = 2048
_LOG_LINES: Final = 80
_LEAST_GRACE: Final = 2.0
"""What a process is left after its hook has used up its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A run of a container, and everything that looks after it needs."""

    ref: Ref[Pod]
    uid: str
    container: Container
    run: Run
    live: Live
    command: Command
    address: str
    root: Path
    log: str
    """The key of its log."""

    @property
    def key(self) -> tuple[str, str]:
        """Which container of which Pod."""
        return self.uid, self.container.name

    @property
    def name(self) -> str:
        """What its task is called."""
        return f"{self.uid}/{self.container.name} {self.live.container_id}"


async def run_hook(node: Node, charge: Charge, handler: LifecycleHandler, *, within: float) -> Verdict:
    """Carries out a hook; one that takes longer than it may has failed."""
    try:
        check = hook_check(handler, charge.container, charge.command, charge.address)
    except BadProbe as error:
        return Verdict("Failure", str(error))
    if check is not None:
        return await node.prober.probe(check, timeout=max(within, 0.001))
    seconds = float(handler.sleep.seconds if handler.sleep is not None else 0)
    await timing.sleep(min(seconds, within))
    return Verdict("Success", f"slept {seconds:g} s")


async def stop_run(node: Node, charge: Charge, within: float) -> Verdict | None:
    """Ends a run: its hook first, then the signal, then by force. Gives what the hook said, if there is one.

    Raises StopFailed if something survives.
    """
    began = timing.now()
    hook = charge.container.lifecycle.pre_stop if charge.container.lifecycle is not None else None
    said = None
    if hook is not None and within > 0:
        said = await run_hook(node, charge, hook, within=within)
    left = within if said is None else max(_LEAST_GRACE, within - (timing.now() - began))
    await node.runner.stop(charge.run, grace=left, signal=stop_signal(charge.container))
    return said


async def the_end(node: Node, charge: Charge, ended: Ended) -> End:
    """How a run ended, with its last words."""
    reason = "Completed" if ended.code == 0 else "Error"
    if not ended.is_known:
        reason = "ContainerStatusUnknown"
    return End(
        code=ended.code,
        reason=reason,
        message=await last_words(node, charge, is_error=ended.code != 0),
        container_id=charge.live.container_id,
        started_at=charge.live.started_at,
        finished_at=ended.at,
    )


async def last_words(node: Node, charge: Charge, *, is_error: bool) -> str:
    """What a container wrote into its termination message; or, if it wants that, the end of its log."""
    path = message_file(charge.root, charge.container)
    written = await asyncio.to_thread(_read_end, path)
    if written or not is_error or charge.container.termination_message_policy != "FallbackToLogsOnError":
        return written
    try:
        parts = [part async for part in node.logs.read(charge.log, LogOptions(tail=_LOG_LINES))]
    except NotFound:
        return ""
    return b"".join(parts)[-_MOST_LOG:].decode(errors="replace")


def _read_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_MESSAGE).decode(errors="replace")
    except OSError:
        return ""
