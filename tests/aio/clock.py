"""The event loop in virtual time that is shipped for users, and a policy by which whole folders of tests get it."""

import asyncio

from levelset.testing.virtual_time import VirtualLoop, run

__all__ = ["VirtualLoop", "VirtualPolicy", "run"]


class VirtualPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualLoop()
