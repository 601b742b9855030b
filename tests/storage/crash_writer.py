"""Forks a child per line of input, which writes and prints each acknowledged revision until it is killed.

The children are forked, because starting an interpreter each time would take longer than the storm. Every line is
written in one piece, so that a killed child leaves no half line.
"""

import asyncio
import os
import sys

from levelset.storage import SqliteStorage
from levelset.storage.sqlite_wal import WriteAheadLog


async def storm(path: str, durability: str) -> None:
    storage = SqliteStorage(path, durability=durability, history_changes=400)  # type: ignore[arg-type]  # from argv
    # A short log, so that it is checkpointed and reused many times in the life of a child.
    storage._log = WriteAheadLog(storage.path, is_synced=durability == "full", longest=100)
    os.write(1, f"start {os.getpid()} {storage.revision}\n".encode())

    async def write(name: int) -> None:
        key, count = f"/storm/{name}", 0
        while True:
            count += 1
            # A value of many pages, all the same byte: half a write would show.
            item = await storage.put(key, bytes([count % 256]) * (100 * (count % 90)), expected=None)
            os.write(1, f"put {key} {item.revision} {item.version}\n".encode())
            if count % 20 == 0:
                gone = await storage.delete(key, expected=item.revision)
                os.write(1, f"delete {key} {gone.revision} 0\n".encode())

    await asyncio.gather(*(write(name) for name in range(8)))


def main() -> None:
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(storm(*sys.argv[1:]))
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
