"""Measures the storages: puts per second, and how reads grow with the number of objects.

Run: python benchmarks/storage.py
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from levelset.storage import MemoryStorage, SqliteStorage, Storage

VALUE = b"x" * 1500
SECONDS = 1.0


async def main() -> None:
    with TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        backends: dict[str, Callable[[str], AbstractAsyncContextManager[Storage]]] = {
            "memory": lambda _: MemoryStorage(),
            "sqlite normal": lambda name: SqliteStorage(Path(folder) / name),
            "sqlite full": lambda name: SqliteStorage(Path(folder) / name, durability="full"),
        }
        print(f"{'puts per second, 1.5 KB':28}{'create':>12}{'update':>12}")
        for name, open_storage in backends.items():
            for writers in (1, 32):
                async with open_storage(f"{name}-{writers}.db") as storage:
                    made = await rate(storage, writers, create=True)
                    changed = await rate(storage, writers, create=False)
                print(f"{name + f', {writers} writer' + 's' * (writers > 1):28}{made:12,.0f}{changed:12,.0f}")
    nowait()
    for number in (1_000, 100_000):
        await reads(number)
    await wake_ups()


async def rate(storage: Storage, writers: int, *, create: bool) -> float:
    done, end = 0, time.perf_counter() + SECONDS

    async def write(writer: int) -> None:
        nonlocal done
        number = 0
        while time.perf_counter() < end:
            number += 1
            name = number if create else number % 100 + 1
            await storage.put(f"/registry/core/configmaps/ns{writer}/{name:06}", VALUE, expected=0 if create else None)
            done += 1

    start = time.perf_counter()
    await asyncio.gather(*map(write, range(writers)))
    return done / (time.perf_counter() - start)


def nowait() -> None:
    storage = MemoryStorage()
    keys = [f"/registry/core/configmaps/ns{number % 10}/{number:06}" for number in range(50_000)]
    for what, expected in (("create", 0), ("update", None)):
        start = time.perf_counter()
        for key in keys:
            storage.put_nowait(key, VALUE, expected=expected)
        print(f"memory put_nowait, {what}: {(time.perf_counter() - start) / len(keys) * 1e6:.2f} µs")


async def reads(number: int) -> None:
    storage = MemoryStorage()
    for one in range(number):
        storage.put_nowait(f"/registry/core/configmaps/ns{one % 10}/{one:06}", VALUE, expected=0)
    print(f"\nwith {number:,} objects in ten namespaces")
    all_of_them, one_space = "/registry/core/configmaps/", "/registry/core/configmaps/ns3/"
    timed("first list, which sorts", lambda: storage.list_nowait(all_of_them))
    timed("list all", lambda: storage.list_nowait(all_of_them))
    timed("list one namespace", lambda: storage.list_nowait(one_space))
    timed("page of 500", lambda: storage.list_nowait(all_of_them, limit=500, after=one_space))
    storage.put_nowait(one_space + "new", VALUE, expected=0)
    timed("list one namespace after one create", lambda: storage.list_nowait(one_space))
    timed("page of 500, 500 changes ago", lambda: storage.list_nowait(all_of_them, limit=500, revision=number - 499))
    timed("count", lambda: storage.count_nowait(all_of_them))
    timed("get", lambda: storage.get_nowait(one_space + "new"))


async def wake_ups() -> None:
    storage, watchers, writes = MemoryStorage(), 1_000, 2_000
    seen = 0

    async def follow() -> None:
        nonlocal seen
        async with storage.watch("/registry/core/configmaps/", after=0) as watch:
            while watch.revision < writes:
                batch = await anext(watch)
                seen += len(batch)

    followers = [asyncio.ensure_future(follow()) for _ in range(watchers)]
    await asyncio.sleep(0)
    start = time.perf_counter()
    for number in range(writes):
        storage.put_nowait(f"/registry/core/configmaps/ns/{number}", VALUE, expected=0)
        if number % 100 == 99:
            await asyncio.sleep(0)
    await asyncio.gather(*followers)
    print(
        f"\n1,000 watchers, 100 writes a turn: {seen / (time.perf_counter() - start):,.0f} changes x watchers a second"
    )


def timed(what: str, work: Callable[[], object]) -> None:
    start = time.perf_counter()
    work()
    print(f"  {what:36}{(time.perf_counter() - start) * 1e3:10.3f} ms")


if __name__ == "__main__":
    asyncio.run(main())
