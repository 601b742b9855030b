"""The operator of start.py: prints what its start took when it reconciles for the first time, and ends."""

import os
import sys
import time
from pathlib import Path

from levelset import Context, Controller, Resource, Spec, Status, run

IMPORTED = time.process_time()


class GreetingSpec(Spec):
    name: str


class GreetingStatus(Status):
    message: str


class Greeting(Resource[GreetingSpec, GreetingStatus], api="demo.example.dev/v1"):
    """A person to greet."""


async def greet(greeting: Greeting, ctx: Context) -> None:
    reconciled = time.process_time()
    await ctx.set_status(greeting, GreetingStatus(message=f"Hello, {greeting.spec.name}!"))
    status = Path("/proc/self/status").read_text(encoding="ascii")  # noqa: ASYNC240  # it is no file on a disk
    resident = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    sys.stderr.write(f"{IMPORTED * 1000} {reconciled * 1000} {resident} {len(sys.modules)}\n")
    os._exit(0)


if __name__ == "__main__":
    run(Controller(Greeting, greet))
