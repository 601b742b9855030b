"""The errors of container engines, as one tree, so that controllers can decide what to retry.

```
EngineError
├── RuntimeNotHealthy       not installed or not running: retry when the engine is healthy
├── EngineNotFound          no such container, network, volume or image; also a LookupError
├── EngineAlreadyExists     the name is taken, or the container is connected already
├── CouldNotAllocate        a port or an address range is taken
├── ObjectInUse             the object cannot be removed while it is used
├── Incomplete              the engine has answered only a part of the request
├── EngineTimedOut          no answer in time; also a TimeoutError: whether the operation took effect is unknown
└── EngineRefused           the engine rejected the request for another reason
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
    "most_likely_created_nothing",
]


class EngineError(LevelsetError):
    """An engine operation failed; the message names the object, and has the output of the engine."""


class RuntimeNotHealthy(EngineError):
    """The engine is not installed or not running; retry when it is healthy."""


class EngineNotFound(EngineError, LookupError):
    """The engine has no such container, network, volume or image."""


class EngineAlreadyExists(EngineError):
    """The name is taken, or the container is connected to the network already."""


class CouldNotAllocate(EngineError):
    """A port or an address range is taken."""


class ObjectInUse(EngineError):
    """The object is still used, so it cannot be removed."""


class Incomplete(EngineError):
    """The engine has answered only a part of the request, without an error."""


class EngineTimedOut(EngineError, TimeoutError):
    """The engine did not answer in time; whether the operation took effect is unknown."""


class EngineRefused(EngineError):
    """The engine rejected the request, for a reason that has no class of its own."""


def most_likely_created_nothing(error: EngineError, object_id: str) -> bool:
    """Whether the engine is down and no object of it is known, so that a removal need not wait for the engine.

    An object whose creation was not reported is removed as an orphan by the next session.
    """
    return isinstance(error, RuntimeNotHealthy) and not object_id
