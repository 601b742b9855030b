"""The `levelset` command; the only room that knows of a terminal."""

from levelset.cli.main import main

__all__ = ["main"]
