"""Where the logs of a container are, and the lease of one that outlives the session."""

from levelset_dcp.containers.plan import name_of
from levelset_dcp.kinds import Container

__all__ = ["lease_of", "startup_keys", "system_key"]


def startup_keys(uid: str) -> tuple[str, str]:
    """The keys of what the engine has said while a container was made: its output and its errors."""
    return f"{uid}_startup_out", f"{uid}_startup_err"


def system_key(uid: str) -> str:
    """The key of what was said of a container."""
    return f"{uid}_system"


def lease_of(container: Container) -> str:
    """The lease of a container that outlives the session."""
    return f"containers/{name_of(container)}"
