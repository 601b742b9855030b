"""Writes with full durability, one by one and concurrently, and prints a line for each acknowledged write."""

import asyncio
import os
import sys

from levelset.storage import SqliteStorage


async def main(path: str) -> None:
    async with await SqliteStorage.open(path, durability="full") as storage:
        for number in range(30):  # so many single writes that the storage no longer delays them to form a group
            await storage.put(f"/{number}", b"", expected=0)
            os.write(1, b"acknowledged\n")
            await asyncio.sleep(0)
        for number in range(10):
            await asyncio.gather(*(storage.put(f"/{number}/{other}", b"", expected=0) for other in range(5)))
            os.write(1, b"acknowledged\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
