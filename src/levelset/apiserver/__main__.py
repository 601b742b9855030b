"""Runs an API server from the command line, for those who work on it: `python -m levelset.apiserver --no-tls`."""

import argparse
import asyncio
import signal

from levelset.aio.event_loop import run
from levelset.apiserver.server import ApiServer
from levelset.storage import MemoryStorage, SqliteStorage

__all__ = ["main"]


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--data", default="memory")
    parser.add_argument("--token", default=None)
    parser.add_argument("--no-tls", action="store_true")
    given = parser.parse_args()
    run(_serve(given))


async def _serve(given: argparse.Namespace) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    storage = MemoryStorage() if given.data == "memory" else await SqliteStorage.open(given.data)
    try:
        async with ApiServer(storage, port=given.port, tls=not given.no_tls, token=given.token) as server:
            print(server.url, server.token, flush=True)  # noqa: T201 - this is a command
            await done.wait()
    finally:
        await storage.close()


if __name__ == "__main__":
    main()
