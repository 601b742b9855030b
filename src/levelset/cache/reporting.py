"""Where the errors of other people's functions go: into the log, while the cache goes on."""

import logging

__all__ = ["report_error"]

_log = logging.getLogger("levelset.cache")


def report_error(where: str, error: Exception) -> None:
    """Writes the error to the log of `levelset.cache`, with the place where it happened."""
    _log.error("%s: %s", where, error, exc_info=error)
