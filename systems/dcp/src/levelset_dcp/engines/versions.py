"""Reads and compares the versions of engines."""

import re

__all__ = ["is_older", "version_of"]


def version_of(text: str) -> str:
    """The first thing in a text that looks like a version: `28.2.2` of `Docker version 28.2.2, build e6534b4`."""
    found = re.search(r"\d+(\.\d+)+\S*?(?=[,\s]|$)", text)
    return found.group() if found else ""


def is_older(version: str, oldest: tuple[int, ...]) -> bool:
    """Whether a version is older than that; one that cannot be read is not."""
    parts = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    return parts is not None and tuple(int(part) for part in parts.group().split(".")) < oldest
