"""kopf: a handler that makes one ConfigMap and sets one field of the status, which kopf then patches.

`kopf run kopf_peer.py` is how its users start it. `python kopf_peer.py` is kopf at its cheapest: embedded in a
program, without logging, and without posting Events. kopf has no client for children; the cheapest one is used: one request
on an aiohttp session. The server's address is in the environment.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import time

import aiohttp
import kopf

SERVER, TOKEN = os.environ["PEER_SERVER"], os.environ["PEER_TOKEN"]
IS_CHEAPEST = __name__ == "__main__"


@kopf.on.login()
def login(**_):
    return kopf.ConnectionInfo(server=SERVER, token=TOKEN)


@kopf.on.startup()
async def start(settings, memo, **_):
    if IS_CHEAPEST:
        settings.posting.enabled = False
        settings.watching.chunk_size = 500
    memo.session = aiohttp.ClientSession(headers={"authorization": f"Bearer {TOKEN}"})
    threading.Thread(target=report_usage, daemon=True).start()


@kopf.on.create("example.dev", "v1", "websites")
async def create(body, spec, namespace, name, patch, memo, **_):
    child = {"metadata": {"name": name}, "data": {"image": spec["image"]}}
    kopf.append_owner_reference(child, owner=body)
    async with memo.session.post(f"{SERVER}/api/v1/namespaces/{namespace}/configmaps", json=child) as answer:
        answer.raise_for_status()
    patch.status["ready"] = 1


@kopf.on.cleanup()
async def stop(memo, **_):
    await memo.session.close()


def report_usage():
    """Prints the CPU time on request, at the end."""
    began = time.process_time()
    print(json.dumps({"phase": "started"}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"phase": "spent", "cpu": time.process_time() - began}), flush=True)


if IS_CHEAPEST:
    logging.disable(logging.CRITICAL)
    asyncio.run(kopf.operator(clusterwide=True, standalone=True))
