"""A program that records a long run in virtual time, or replays one, on the Python that it runs on.

    python -m tests.testing.replay.long_run record FILE WEBSITES
    python -m tests.testing.replay.long_run replay FILE

Each prints what the run was as a line of JSON. It needs nothing but levelset, so that other Pythons can run it, too.
"""

import json
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from levelset import Context, Controller, MergePatch, Ref, owns
from levelset.runtime.cache import by_owner
from levelset.runtime.recording import read_recording
from levelset.runtime.recording.entries import Begin, End, Request
from levelset.testing import Cluster
from levelset.testing.replay import replay
from tests.testing.replay.operators import Config, Website, deploy, many_things, record, site

__all__ = ["controllers"]

IMAGES = ("nginx", "flaky", "broken", "bad", "apache", "plain-1", "plain-2")
BATCH = 50


async def reconcile(found: Website, ctx: Context) -> Any:
    """Some with child tasks, timeouts and errors, some with times and random numbers in what they write."""
    return await (deploy if found.spec.image.startswith("plain") else many_things)(found, ctx)


async def count(found: Config, ctx: Context) -> None:
    """The number of members of a ConfigMap, as a label of it."""
    size = str(len(found.data))
    if (found.metadata.labels or {}).get("size") != size:
        metadata = {"name": found.name, "namespace": found.namespace, "labels": {"size": size}}
        await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def controllers() -> list[Controller[Any]]:
    """Two of them, the second of which reconciles what the first one makes."""
    # With the index, a reconcile does not read the children of all websites.
    websites = Controller(Website, reconcile, owns(Config, indexes=[by_owner()]), name="websites", concurrency=50)
    return [websites, Controller(Config, count, name="counter")]


def record_run(path: Path, websites: int) -> dict[str, Any]:
    """Records users that create websites in batches, and change and delete some of each."""

    async def use(cluster: Cluster) -> None:
        for first in range(0, websites, BATCH):
            names = [f"site-{number}" for number in range(first, first + BATCH)]
            for number, name in enumerate(names):
                await cluster.create(site(name, IMAGES[number % len(IMAGES)]))
            await cluster.advance(3, allow_errors=True)
            await cluster.patch(Ref(Website, names[0]), MergePatch({"spec": {"image": "nginx:2"}}))
            await cluster.delete(Website, names[-1])
        await cluster.advance(100, allow_errors=True)

    record(path, *controllers(), use=use, allow_errors=True)
    entries = read_recording(path)
    return {
        "reconciles": sum(isinstance(one, Begin) for one in entries),
        "requests": sum(isinstance(one, Request) for one in entries),
        "outcomes": dict(Counter(one.result for one in entries if isinstance(one, End))),
        "bytes": path.stat().st_size,
    }


def replay_run(path: Path) -> dict[str, Any]:
    result = replay(path, controllers())
    difference = None if result.ok else str(result.difference)
    done = {"reconciles": result.reconciles, "requests": result.requests, "is_complete": result.is_complete}
    return {**done, "digest": result.digest, "difference": difference}


if __name__ == "__main__":
    what, file, *rest = sys.argv[1:]
    found = record_run(Path(file), int(rest[0])) if what == "record" else replay_run(Path(file))
    print(json.dumps({"python": platform.python_version(), **found}))
