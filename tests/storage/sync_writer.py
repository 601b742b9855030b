"""Writes with full durability, alone and in company, and says a word for each write that was acknowledged."""

import asyncio
import os
import sys

from levelset.storage import SqliteStorage


async def main(path: str) -> None:
    async with await SqliteStorage.open(path, durability="full") as storage:
        for number in range(30):  # alone for so long that it is no longer asked to wait for others
            await storage.put(f"/{number}", b"", expected=0)
            os.write(1, b"acknowledged\n")
            await asyncio.sleep(0)
        for number in range(10):
            await asyncio.gather(*(storage.put(f"/{number}/{other}", b"", expected=0) for other in range(5)))
            os.write(1, b"acknowledged\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
