"""Virtual time for single tests, where the others of the room need real sockets."""

from levelset.testing.virtual_time import VirtualLoop, virtual

__all__ = ["VirtualLoop", "virtual"]
