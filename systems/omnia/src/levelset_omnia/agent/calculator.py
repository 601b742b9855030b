"""A sample tool: adds the numbers that it is sent. `python -m levelset_omnia.agent.calculator`."""

import asyncio
import json
import os
import signal
import sys
from typing import Any, cast

from levelset.http import Request, Response, Server

__all__ = ["handle", "main"]

_JSON = (("Content-Type", "application/json"),)


def handle(request: Request) -> Response:
    """Answers POST `/add` with `{"numbers": [1, 2]}` by `{"sum": 3}`, and `/healthz`."""
    if request.path == "/healthz":
        return Response(body=b"ok\n")
    if (request.method, request.path) != ("POST", "/add"):
        return _error(404, "not found; the paths are POST /add and /healthz")
    try:
        value: Any = json.loads(request.body)
    except ValueError as error:
        return _error(400, f"the body is not JSON: {error}")
    numbers = cast("dict[str, Any]", value).get("numbers") if isinstance(value, dict) else None
    several: list[Any] | None = cast("Any", numbers) if isinstance(numbers, list) else None
    if several is None or not all(isinstance(one, int | float) for one in several):
        return _error(400, 'numbers: a list of numbers is expected, as in {"numbers": [1, 2]}')
    return Response(200, _JSON, json.dumps({"sum": sum(several)}).encode())


def main() -> None:
    """Serves at POD_IP, or on loopback, until SIGTERM."""
    asyncio.run(_serve(os.environ.get("POD_IP", "127.0.0.1"), int(os.environ.get("PORT", "8080"))))


async def _serve(host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Server(handle, host=host, port=port):
        sys.stdout.write(f"adds numbers at {host}:{port}\n")
        sys.stdout.flush()
        await stop.wait()


def _error(status: int, message: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": message}).encode())


if __name__ == "__main__":
    main()
