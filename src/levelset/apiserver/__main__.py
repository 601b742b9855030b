"""Runs an API server for its developers: `python -m levelset.apiserver --no-tls`."""

import argparse
import asyncio
import signal

from levelset.aio.event_loop import run
from levelset.apiserver.server import ApiServer
from levelset.storage import MemoryStorage, SqliteStorage

__all__ = ["main"]


def main() -> None:
    """Serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--data", default="memory")
    parser.add_argument("--token", default=None)
    parser.add_argument("--no-tls", action="store_true")
    options = parser.parse_args()
    run(_serve(options))


async def _serve(options: argparse.Namespace) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    storage = MemoryStorage() if options.data == "memory" else await SqliteStorage.open(options.data)
    try:
        async with ApiServer(storage, port=options.port, tls=not options.no_tls, token=options.token) as server:
            print(server.url, server.token, flush=True)  # noqa: T201 - this is a command
            await done.wait()
    finally:
        await storage.close()


if __name__ == "__main__":
    main()
