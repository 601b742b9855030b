"""A container engine in memory, for tests, demos and the explorer."""

from levelset_dcp.engines.memory.engine import InMemoryEngine
from levelset_dcp.engines.memory.objects import FakeFile

__all__ = ["FakeFile", "InMemoryEngine"]
