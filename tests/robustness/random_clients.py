"""Random clients of an API server, which record what they asked and what they got.

They create, read, update by resourceVersion and delete a few ConfigMaps, list them now and at older revisions, and
watch with cuts and resumption. They use a transport directly: a client that repeats requests would hide what happened.
"""

# ruff: noqa: ASYNC110 - a server that is down, or in another process, notifies no one

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from levelset.client.transport.interface import Call, Transport
from levelset.errors import LevelsetError
from tests.robustness.linearizability import FOREVER, Operation, Outcome

__all__ = ["History", "Listing", "RandomClients", "WatchEvent", "WatchRecord"]

MAPS = "/api/v1/namespaces/default/configmaps"
_OUTCOMES: dict[int, Outcome] = {200: "done", 201: "done", 404: "absent", 409: "conflict"}


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch; the revision of a deletion is its own."""

    kind: str
    key: str
    value: str
    revision: int


@dataclass(slots=True)
class WatchRecord:
    """What one watcher got after its list, over all resumptions; a relist begins another record."""

    name: str
    start: "Listing"
    events: list[WatchEvent] = field(default_factory=list)
    reached: int = 0
    """The revision up to which the server said that everything was delivered."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of one list, each with its revision and value, and the revision of the list."""

    revision: int
    items: dict[str, tuple[int, str]]


@dataclass(slots=True)
class History:
    """Everything that the clients saw."""

    operations: list[Operation] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    watches: list[WatchRecord] = field(default_factory=list)


class RandomClients:
    """Clients, watchers and their common history; `connect` gives the transport of the moment."""

    def __init__(
        self,
        connect: Callable[[], Transport],
        seed: object,
        *,
        keys: int = 3,
        pause: float = 0.01,
        cancelled: float = 0.0,
    ) -> None:
        self.history = History()
        self._connect = connect
        self._seed = seed
        self._keys = [f"k{number}" for number in range(keys)]
        self._pause = pause
        self._cancelled = cancelled
        self._dice = random.Random(f"{seed} cancelled")
        self._clock = itertools.count(1)
        self._values = itertools.count(1)
        self._newest = 0

    async def run(
        self, *, clients: int = 4, watchers: int = 2, operations: int = 30, patience: float = 20.0
    ) -> History:
        """Lets all of them work, and waits until every watcher has seen the last write."""
        watching = [await self._start_watcher(f"watcher {number}") for number in range(watchers)]
        reference = await self._start_watcher("reference", is_cut=False)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(clients):
                    group.create_task(self._work(f"client {number}", operations))
            last = await self._write_last()
            await self._wait_seen(last, patience)
        finally:
            for task in (*watching, reference):
                task.cancel()
            await asyncio.gather(*watching, reference, return_exceptions=True)
        return self.history

    async def list(self, **query: str) -> Listing | None:
        """One list, recorded; None without a result."""
        called = next(self._clock)
        status, tree = await self._request("GET", MAPS, None, **query)
        if status != 200:
            return None
        listing = _listing(tree)
        self._newest = max(self._newest, listing.revision)
        self.history.listings.append(listing)
        if not query:
            self._add_reads(listing, called)
        return listing

    def _add_reads(self, listing: Listing, called: int) -> None:
        """A list of what is there now is a read of every object."""
        returned = next(self._clock)
        for key in self._keys:
            revision, value = listing.items.get(key, (None, None))
            outcome: Outcome = "absent" if value is None else "done"
            self.history.operations.append(
                Operation(key, "get", called, returned, outcome, value, None, revision, "list")
            )

    async def _work(self, name: str, count: int) -> None:
        dice = random.Random(f"{self._seed} {name}")
        known: dict[str, int] = {}
        for _ in range(count):
            await asyncio.sleep(dice.random() * self._pause)
            key = dice.choice(self._keys)
            match dice.choices(["create", "get", "update", "delete", "list", "past"], [3, 3, 6, 2, 1, 1])[0]:
                case "list":
                    await self.list()
                case "past":
                    await self._list_past(dice)
                case verb:
                    await self._operate(name, key, verb, known, dice)

    async def _list_past(self, dice: random.Random) -> None:
        if self._newest > 3:
            revision = dice.randint(max(1, self._newest - 10), self._newest)
            await self.list(resourceVersion=str(revision), resourceVersionMatch="Exact")

    async def _operate(self, name: str, key: str, verb: Any, known: dict[str, int], dice: random.Random) -> None:
        expected = known.get(key) if verb == "update" or (verb == "delete" and dice.random() < 0.5) else None
        if verb == "update" and expected is None:
            verb = "get"
        value = f"{name} {next(self._values)}" if verb in {"create", "update"} else None
        called = next(self._clock)
        status, tree = await self._send(verb, key, value, expected)
        returned = next(self._clock)
        if status == 429:  # nothing happened
            return
        outcome = _OUTCOMES.get(status, "unknown")
        revision = None
        if outcome == "done" and verb != "delete":
            revision = int(tree["metadata"]["resourceVersion"])
            value = tree["data"]["value"]
            known[key] = revision
            self._newest = max(self._newest, revision)
        ended = FOREVER if outcome == "unknown" else returned
        self.history.operations.append(Operation(key, verb, called, ended, outcome, value, expected, revision, name))

    async def _send(self, verb: str, key: str, value: str | None, expected: int | None) -> tuple[int, Any]:
        path = f"{MAPS}/{key}"
        match verb:
            case "create":
                return await self._request("POST", MAPS, _config_map(key, value))
            case "update":
                return await self._request("PUT", path, _config_map(key, value, resourceVersion=str(expected)))
            case "delete":
                preconditions = {} if expected is None else {"preconditions": {"resourceVersion": str(expected)}}
                return await self._request(
                    "DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **preconditions}
                )
            case _:
                return await self._request("GET", path, None)

    async def _request(self, method: str, path: str, body: Any, **query: str) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "accept": "application/json"}
        call = Call(
            method=method, path=path, query=urlencode(query), headers=headers, body=content, timeout=15.0, about=path
        )
        patience = self._dice.random() * self._pause if self._dice.random() < self._cancelled else None
        try:
            async with asyncio.timeout(patience):
                response = await self._connect().send(call)
        except (LevelsetError, OSError, TimeoutError):
            return 0, None
        return response.status, json.loads(response.body or b"{}")

    async def _write_last(self) -> int:
        """A last object, which every watcher must see in the end."""
        for _ in range(200):
            status, tree = await self._request("POST", MAPS, _config_map(f"last-{next(self._values)}", "last"))
            if status == 201:
                return int(tree["metadata"]["resourceVersion"])
            await asyncio.sleep(0.1)
        raise AssertionError("the server does not accept writes any more")

    async def _wait_seen(self, revision: int, patience: float) -> None:
        """Waits until all watchers have reached a revision; those that do not are found by the check."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while loop.time() < end:
            newest = {record.name: record.reached for record in self.history.watches}
            if all(reached >= revision for reached in newest.values()):
                break
            await asyncio.sleep(0.02)
        while await self.list() is None:
            await asyncio.sleep(0.1)

    async def _start_watcher(self, name: str, *, is_cut: bool = True) -> asyncio.Task[None]:
        record = await self._relist(name)
        return asyncio.create_task(self._watch(record, is_cut=is_cut), name=name)

    async def _relist(self, name: str) -> WatchRecord:
        while (listing := await self.list()) is None:
            await asyncio.sleep(0.05)
        record = WatchRecord(name, listing, reached=listing.revision)
        self.history.watches.append(record)
        return record

    async def _watch(self, record: WatchRecord, *, is_cut: bool) -> None:
        dice = random.Random(f"{self._seed} {record.name}")
        while True:
            patience = dice.random() * self._pause * 20 if is_cut else 3600.0
            with suppress(LevelsetError, OSError, TimeoutError):
                async with asyncio.timeout(patience):
                    if not await self._watch_once(record):
                        record = await self._relist(record.name)
            await asyncio.sleep(self._pause * 5 * dice.random())

    async def _watch_once(self, record: WatchRecord) -> bool:
        """Reads one watch to its end; False if its revision has expired."""
        query = urlencode({"watch": "true", "resourceVersion": record.reached, "allowWatchBookmarks": "true"})
        call = Call(
            method="GET", path=MAPS, query=query, headers={"accept": "application/json"}, is_stream=True, timeout=15.0
        )
        response = await self._connect().send(call)
        if response.stream is None:
            return response.status != 410
        try:
            async for event in _lines(response.stream):
                if event["type"] == "ERROR":
                    return bool(event["object"].get("code") != 410)
                self._add_event(record, event)
        finally:
            await response.stream.aclose()
        return True

    def _add_event(self, record: WatchRecord, event: Any) -> None:
        metadata = event["object"]["metadata"]
        revision = int(metadata["resourceVersion"])
        if event["type"] != "BOOKMARK":
            value = (event["object"].get("data") or {}).get("value", "")
            record.events.append(WatchEvent(event["type"], metadata["name"], value, revision))
        record.reached = revision


async def _lines(stream: Any) -> AsyncIterator[Any]:
    rest = b""
    async for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)


def _config_map(key: str, value: str | None, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key, **metadata},
        "data": {"value": value},
    }


def _listing(tree: Any) -> Listing:
    items = {
        item["metadata"]["name"]: (int(item["metadata"]["resourceVersion"]), (item.get("data") or {}).get("value", ""))
        for item in tree["items"]
    }
    return Listing(int(tree["metadata"]["resourceVersion"]), items)
