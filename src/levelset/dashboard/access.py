"""Who may look at the page: somebody on this machine who has the token, from the page itself and nowhere else.

A page in the same browser must not read it, whatever it tries: other names for this address (DNS rebinding) are refused
by the Host header, requests of other sites by the cookie, which is sent for none of them, and by what browsers say of
where a request comes from.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from levelset.http import Headers, Request

__all__ = ["SAFE", "Access", "is_loopback"]

SAFE: Final = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""What every answer carries, whatever it is."""

_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_A_DAY: Final = 24 * 60 * 60


class Access:
    """Tells those who may look from those who may not; the token is made anew unless one is given."""

    def __init__(self, token: str | None = None) -> None:
        self.token = secrets.token_urlsafe(32) if token is None else token
        # Cookies do not know ports: each page has a name of its own, or two of them would log each other out.
        self.cookie_name = f"levelset-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    @property
    def cookie(self) -> str:
        """What to set once the token was shown: a day long, and out of reach for scripts and for other sites."""
        return f"{self.cookie_name}={self.token}; Path=/; Max-Age={_A_DAY}; HttpOnly; SameSite=Strict"

    def refuses(self, request: Request) -> tuple[int, str] | None:
        """The status and the sentence for who may not look; None for who may."""
        if not is_loopback(request.headers.get("host")):
            return 403, "This page answers to 127.0.0.1 and localhost only: open the address that was printed."
        if request.method != "GET":
            return 405, "This page is for looking only: nothing is changed here. Use kubectl, or levelset trigger."
        if request.segments and _is_from_elsewhere(request.headers):
            return 403, "Other pages may not read this one."
        if not (self.has_token(request) or self._has_cookie(request.headers)):
            return 401, "Open the address that was printed at the start, with its ?token=...: it lets your browser in."
        return None

    def has_token(self, request: Request) -> bool:
        """Whether the address has the token; it opens the page itself, and nothing but that."""
        return not request.segments and self._is_token(request.parameter("token"))

    def _has_cookie(self, headers: Headers) -> bool:
        return any(self._is_token(_cookies(one).get(self.cookie_name)) for one in headers.get_all("cookie"))

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(errors="replace"), self.token.encode())


def is_loopback(host: str | None) -> bool:
    """Whether a Host header names this machine by one of the names that only it has, with any port or none."""
    if host is None:
        return False
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "0"
    return name.lower() in _NAMES and port.isascii() and port.isdecimal()


def _is_from_elsewhere(headers: Headers) -> bool:
    """Whether the browser says that another page asks: one of another site, or of another port of this machine."""
    return headers.get("sec-fetch-site") not in {None, "same-origin", "none"}


def _cookies(text: str) -> Mapping[str, str]:
    """The cookies of a header; what other programs on this machine have put there may be of any form."""
    pairs = [one.partition("=") for one in text.split(";")]
    return {name.strip(): value.strip() for name, _, value in pairs}
