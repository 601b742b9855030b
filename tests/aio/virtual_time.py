"""The virtual-time event loop that levelset ships, and an event loop policy for whole test folders."""

import asyncio

from levelset.testing.virtual_time import VirtualLoop, run

__all__ = ["VirtualLoop", "VirtualPolicy", "run"]


class VirtualPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualLoop()
