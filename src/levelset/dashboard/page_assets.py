"""The files of the page: its document, its style and its modules, read once; and its Content-Security-Policy.

The modules are served as they are written, without a build step; `assets/vendor` has the libraries they use.
"""

from functools import cache
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Asset", "content_policy", "read_assets"]

FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


class Asset(msgspec.Struct, frozen=True):
    """One file, and what it is."""

    content_type: str
    body: bytes


@cache
def read_assets() -> dict[str, Asset]:
    """All files by their path below `/assets/`; the same for every client."""
    found = [one for one in sorted(FOLDER.rglob("*")) if one.suffix in _TYPES]
    return {one.relative_to(FOLDER).as_posix(): Asset(_TYPES[one.suffix], one.read_bytes()) for one in found}


def content_policy(root: str) -> str:
    """What the page may load and run: only its own files, below one path of this host; no markup from scripts.

    The path matters: the other responses of the same host contain texts of objects and of logs. The root is the host of
    the request, which the access policy has found to be this machine, with the path of the dashboard.
    """
    own = f"http://{root}assets/"
    policy = [
        "default-src 'none'",
        f"style-src {own}",
        f"script-src {own}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(policy)
