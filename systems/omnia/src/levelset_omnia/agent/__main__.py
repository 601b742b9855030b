"""The agent as a program: serves until SIGTERM, then finishes open requests."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack

from levelset.errors import ConfigError
from levelset.http import Server
from levelset_omnia.agent.agent import Agent
from levelset_omnia.agent.facade import Facade
from levelset_omnia.agent.settings import Settings, read_settings

__all__ = ["main", "serve"]


def main() -> None:
    """Runs the agent that the environment configures; exits with code 2 on an invalid configuration."""
    try:
        asyncio.run(serve(read_settings(os.environ)))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; then reports not ready, and returns when open requests are answered."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = Agent(settings)
    facade = Facade(agent, is_ready=lambda: not stop.is_set())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(agent.close)
        stack.push_async_callback(facade.close)
        await stack.enter_async_context(Server(facade.handle, host=settings.host, port=settings.port))
        if settings.health_port is not None and settings.health_port != settings.port:
            await stack.enter_async_context(Server(facade.handle, host=settings.host, port=settings.health_port))
        sys.stdout.write(f"agent {settings.namespace}/{settings.name} serves at {settings.host}:{settings.port}\n")
        for problem in await agent.problems():
            sys.stdout.write(f"not ready: {problem.message}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    main()
