"""The page as it is sent: one document with style and script inside, and the policy that lets only these two work."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["Page", "read_page"]

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Page:
    """The bytes of the document, and its Content-Security-Policy."""

    body: bytes
    policy: str


@cache
def read_page() -> Page:
    """The page, read and put together once; nothing in it comes from anywhere else, or depends on who asks."""
    style, script, document = [(_HERE / f"page.{ending}").read_text("utf-8") for ending in ("css", "js", "html")]
    policy = [
        "default-src 'none'",
        f"style-src {_hash(style)}",
        f"script-src {_hash(script)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
    return Page(document.replace("{style}", style).replace("{script}", script).encode(), "; ".join(policy))


def _hash(text: str) -> str:
    """The name by which a policy knows an inline element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
