"""What can go wrong with a container engine, as one tree, so that a controller can tell what to wait for.

```
EngineError
├── RuntimeNotHealthy       nobody is at home: try again when the engine runs
├── EngineNotFound          no such container, network, volume or image; also a LookupError
├── EngineAlreadyExists     the name is taken, or it is connected already
├── CouldNotAllocate        a port or an address that somebody else has
├── ObjectInUse             it cannot be removed while something uses it
├── Incomplete              the engine has answered for a part of what was asked
├── EngineTimedOut          no answer in time; also a TimeoutError: whether it has happened is unknown
└── EngineRefused           the engine said no, for another reason
```
"""

from levelset.errors import LevelsetError

__all__ = [
    "CouldNotAllocate",
    "EngineAlreadyExists",
    "EngineError",
    "EngineNotFound",
    "EngineRefused",
    "EngineTimedOut",
    "Incomplete",
    "ObjectInUse",
    "RuntimeNotHealthy",
]


class EngineError(LevelsetError):
    """An engine did not do what it was asked to; the words name the object, and say what the engine said."""


class RuntimeNotHealthy(EngineError):
    """The engine is not installed, or does not run: it may be tried again when it does."""


class EngineNotFound(EngineError, LookupError):
    """The engine has no such container, network, volume or image."""


class EngineAlreadyExists(EngineError):
    """The name is taken; or a container is in a network already."""


class CouldNotAllocate(EngineError):
    """A port or a range of addresses cannot be had, because somebody else has it."""


class ObjectInUse(EngineError):
    """Something uses it still, so that it cannot be removed now."""


class Incomplete(EngineError):
    """The engine has done, or answered for, only a part of what was asked, and did not say why."""


class EngineTimedOut(EngineError, TimeoutError):
    """The engine did not answer in time; whether it has done what it was asked to is not known."""


class EngineRefused(EngineError):
    """The engine said no, for a reason that has no class of its own."""
