"""The `levelset` command; the only package that uses a terminal."""

from levelset.cli.main import main

__all__ = ["main"]
