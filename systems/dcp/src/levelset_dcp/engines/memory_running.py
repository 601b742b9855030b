"""How programs run in the pretended engine: they start, write, end, and are started again as their policy says."""

import asyncio

from levelset_dcp.engines.memory_objects import HeldContainer, Written
from levelset_dcp.engines.memory_world import World
from levelset_dcp.engines.models import EngineHealth, HealthName, LogOrigin

__all__ = ["begin", "check_health", "finish", "write"]


def begin(world: World, held: HeldContainer) -> None:
    """Starts the program of a container; raises CouldNotAllocate if a port is taken."""
    held.ports = world.publish(held)
    held.status, held.started_at, held.exit_code = "running", world.now(), None
    start, held.starts = held.starts, held.starts + 1
    held.drop_timers()
    world.tell_of(held, "start")
    script = held.script
    loop = asyncio.get_running_loop()
    lines: list[tuple[float, LogOrigin, str]] = []
    lines.extend((delay, "stdout", line) for delay, line in script.prints)
    lines.extend((delay, "stderr", line) for delay, line in script.errors)
    for delay, origin, line in lines:
        if delay > 0:
            held.timers.append(loop.call_later(delay, write, world, held, line, origin))
        else:
            write(world, held, line, origin)
    if script.health is not None:
        check_health(world, held, script.health)
    code = script.code(start)
    if code is not None:
        held.timers.append(loop.call_later(script.after, finish, world, held, code))


def write(world: World, held: HeldContainer, text: str, origin: LogOrigin = "stdout") -> None:
    """The program writes lines."""
    for line in text.removesuffix("\n").split("\n"):
        held.log.append(Written(world.now(), origin, line.encode() + b"\n"))
    held.wake()


def finish(world: World, held: HeldContainer, code: int, *, is_asked: bool = False) -> None:
    """The program ends; the engine starts it again if its policy says so, unless somebody has asked it to end."""
    if not held.is_alive:
        return
    held.drop_timers()
    held.ports = ()
    held.status, held.exit_code, held.finished_at = "exited", code, world.now()
    again = not is_asked and _is_started_again(held, code)
    if again:
        held.status = "restarting"
        wait = min(60.0, 0.1 * 2**held.restarts)
        held.restarts += 1
        held.timers.append(asyncio.get_running_loop().call_later(wait, _begin_again, world, held))
    world.tell_of(held, "die", exitCode=str(code))


def check_health(world: World, held: HeldContainer, status: HealthName, output: str = "") -> None:
    """The health check of the image has said something."""
    held.health = EngineHealth(status=status, output=output, at=world.now())
    world.tell_of(held, "health_status", health=status)


def _is_started_again(held: HeldContainer, code: int) -> bool:
    policy = held.spec.restart_policy
    return policy in ("always", "unless-stopped") or (policy == "on-failure" and code != 0)


def _begin_again(world: World, held: HeldContainer) -> None:
    if held.status == "restarting" and held.id in world.containers:
        begin(world, held)
