"""Where the logs of commands inside of containers are."""

__all__ = ["exec_keys"]


def exec_keys(uid: str) -> tuple[str, str]:
    """The keys of what a command has written: its output and its errors."""
    return f"{uid}_out", f"{uid}_err"
