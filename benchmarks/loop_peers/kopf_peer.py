"""kopf: a handler that makes one ConfigMap and sets one field of the status, which kopf then patches.

kopf brings no client for children. The one here is the cheapest there can be: one request on a session of aiohttp.
"""

import asyncio
import json
import logging
import sys
import time

import aiohttp
import kopf

PORT, TOKEN = int(sys.argv[1]), sys.argv[2]
SERVER = f"http://127.0.0.1:{PORT}"


async def main() -> None:
    logging.disable(logging.CRITICAL)
    registry = kopf.OperatorRegistry()
    session = aiohttp.ClientSession(headers={"authorization": f"Bearer {TOKEN}"})

    @kopf.on.login(registry=registry)
    def login(**_):
        return kopf.ConnectionInfo(server=SERVER, token=TOKEN)

    @kopf.on.startup(registry=registry)
    def start(settings, **_):
        settings.posting.enabled = False
        settings.watching.chunk_size = 500

    @kopf.on.create("example.dev", "v1", "websites", registry=registry)
    async def create(body, spec, namespace, name, patch, **_):
        child = {"metadata": {"name": name}, "data": {"image": spec["image"]}}
        kopf.append_owner_reference(child, owner=body)
        async with session.post(f"{SERVER}/api/v1/namespaces/{namespace}/configmaps", json=child) as answer:
            answer.raise_for_status()
        patch.status["ready"] = 1

    operator = asyncio.create_task(kopf.operator(registry=registry, clusterwide=True, standalone=True), name="operator")
    began = time.process_time()
    print(json.dumps({"phase": "started"}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(json.dumps({"phase": "spent", "cpu": time.process_time() - began}), flush=True)
    operator.cancel()
    await asyncio.gather(operator, return_exceptions=True)
    await session.close()


asyncio.run(main())
