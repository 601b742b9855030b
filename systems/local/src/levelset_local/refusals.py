"""Why a server would not make something, as far as it matters to those who make it."""

from levelset import ApiError, Forbidden, Unreachable

__all__ = ["is_ending"]


def is_ending(error: ApiError | Unreachable) -> bool:
    """Whether nothing can be made because the namespace is being deleted: whoever wants it will go, too."""
    return isinstance(error, Forbidden) and any(one.reason == "NamespaceTerminating" for one in error.causes)
