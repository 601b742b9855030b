"""The operator of `levelset_peer.py`, whose recording is attached and detached while it runs.

Its argument is the file of the recording. Commands come from its input: `on`, `off`, and `cpu`, which prints the CPU
seconds of the process and those of its event loop's thread so far. All that is recorded is written before they are
answered, and `on` and `off` collect garbage, so that each turn has the same collections. A second argument
`uncompressed` writes no block compressed, as in a storm: a process that valgrind slows down takes it for no storm. The
event loop is that of `levelset.run`: uvloop if it is installed.
"""

import asyncio
import gc
import json
import os
import sys
import time

from levelset_operator import controllers

from levelset import Client, Config, Manager
from levelset.aio import event_loop
from levelset.client import Token
from levelset.client.internals import attach_tap, observe_writes
from levelset.runtime.recording import Recording, recording_file
from levelset.runtime.recording.recorder import Recorder


async def main() -> None:
    config = Config(server=os.environ["PEER_SERVER"], credentials=Token(os.environ["PEER_TOKEN"]))
    record = Recording(sys.argv[1], max_bytes=None)
    async with await Client.connect(config) as client, Manager(client, record=record) as manager:
        for one in controllers():
            manager.add(one)
        await manager.wait_idle()
        recorder = manager.recorder
        assert recorder is not None
        print(json.dumps({"phase": "started"}), flush=True)
        while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if word in {"on", "off"}:
                attach(manager, recorder if word == "on" else None, recorder)
            await write_pending(recorder)
            if word != "cpu":
                gc.collect()
            print(json.dumps({"phase": word, "cpu": time.process_time(), "loop": time.thread_time()}), flush=True)


def attach(manager: Manager, given: Recorder | None, recorder: Recorder) -> None:
    """Attaches the recorder everywhere, or detaches it: as when it opens and ends, but the file stays open."""
    manager.cluster.attach(given)
    for detach in recorder._detach_client:
        detach()
    client = manager.cluster.client
    attached = () if given is None else (attach_tap(client, given), observe_writes(client, given._record_write))
    recorder._detach_client = [*attached]
    asyncio.get_running_loop().set_task_factory(None if given is None else recorder._create_task)
    for one in manager.controllers.values():
        one.trace(given)


async def write_pending(recorder: Recorder) -> None:
    writer = recorder._writer
    assert writer is not None
    recorder._turn()
    writer.seal()
    while recorder._writing is not None:  # noqa: ASYNC110  # there is no notification
        await asyncio.sleep(0.001)
    if writer.pending:
        await asyncio.to_thread(writer.write_pending)


if "uncompressed" in sys.argv:
    recording_file._BUSY = 0  # type: ignore[misc]  # no such process is to be compressed
event_loop.run(main())
