"""Access control of the dashboard: only requests from this machine, with the token, from the page itself.

Other sites in the same browser must not read it: DNS rebinding is rejected by the Host header, cross-site requests by
the SameSite cookie and by Sec-Fetch-Site.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Final

from levelset.http import Headers, Request
from levelset.http.private_files import write_private
from levelset.runtime.manager.process_records import private_folder

__all__ = ["ACTION_HEADER", "SAFE", "AccessPolicy", "is_loopback", "token_of_port"]

SAFE: Final = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""The security headers of every response."""

_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{40,}")
_COOKIE_SECONDS: Final = 24 * 60 * 60


ACTION_HEADER: Final = "x-levelset-action"
"""The header that an action must have: a browser sends it to its own origin only, unless that allows more."""


class AccessPolicy:
    """Decides which requests are allowed; generates a token unless one is given.

    With `actions`, a POST to an action is allowed from the page itself.
    """

    def __init__(self, token: str | None = None, *, actions: bool = False) -> None:
        self.has_actions = actions
        self.token = secrets.token_urlsafe(32) if token is None else token
        # Cookies ignore ports: without a name for each dashboard, two of them would log each other out.
        self.cookie_name = f"levelset-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    @property
    def cookie(self) -> str:
        """The cookie that replaces the token: valid for a day, not readable by scripts, not sent by other sites."""
        return f"{self.cookie_name}={self.token}; Path=/; Max-Age={_COOKIE_SECONDS}; HttpOnly; SameSite=Strict"

    def refuses(self, request: Request) -> tuple[int, str] | None:
        """The status and message of a rejected request; None if it is allowed."""
        if not is_loopback(request.headers.get("host")):
            return 403, "The dashboard is served to 127.0.0.1 and localhost only: open the URL that was printed."
        if request.method == "POST" and self.has_actions and request.segments[:2] == ("api", "actions"):
            return self._refuses_action(request)
        if request.method != "GET":
            return 405, "The dashboard is read-only. Use kubectl, or levelset trigger."
        if request.segments and _is_cross_site(request.headers):
            return 403, "Cross-site requests are not allowed."
        if not (self.has_token(request) or self._has_cookie(request.headers)):
            return 401, "Not authenticated: open the URL that was printed at the start, with its ?token=..."
        return None

    def _refuses_action(self, request: Request) -> tuple[int, str] | None:
        """An action needs the cookie, and all the signs that the page itself has sent it."""
        headers = request.headers
        is_own_origin = headers.get("origin") == f"http://{headers.get('host')}"
        if not is_own_origin or headers.get("sec-fetch-site") not in {None, "same-origin"}:
            return 403, "Actions are accepted from the page of the dashboard only."
        if headers.get(ACTION_HEADER) != "1" or headers.get("content-type") != "application/json":
            return 403, f"Actions are JSON, with the header {ACTION_HEADER}: 1."
        if not self._has_cookie(headers):
            return 401, "Not authenticated: open the URL that was printed at the start, with its ?token=..."
        return None

    def has_token(self, request: Request) -> bool:
        """Whether the URL has the token, which is accepted for the page itself only."""
        return not request.segments and self._is_token(request.parameter("token"))

    def _has_cookie(self, headers: Headers) -> bool:
        return any(self._is_token(_cookies(one).get(self.cookie_name)) for one in headers.get_all("cookie"))

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(errors="replace"), self.token.encode())


def token_of_port(port: int) -> str | None:
    """The token for a port that was chosen, the same at every start, so that open pages reconnect; None for any port.

    It is in a private folder of this user. Reads and writes a file: call it with `asyncio.to_thread`.
    """
    if port == 0:
        return None
    path = private_folder() / f"dashboard-{port}.token"
    try:
        found = path.read_text("ascii")
    except (OSError, ValueError):
        found = ""
    if not _TOKEN.fullmatch(found):
        found = secrets.token_urlsafe(32)
        write_private(path, found.encode())
    return found


def is_loopback(host: str | None) -> bool:
    """Whether a Host header is a loopback name, with any port or none."""
    if host is None:
        return False
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "0"
    return name.lower() in _NAMES and port.isascii() and port.isdecimal()


def _is_cross_site(headers: Headers) -> bool:
    """Whether the browser marks the request as coming from another site or another port."""
    return headers.get("sec-fetch-site") not in {None, "same-origin", "none"}


def _cookies(text: str) -> Mapping[str, str]:
    """Parses a Cookie header leniently: cookies of other local programs may have any form."""
    pairs = [one.partition("=") for one in text.split(";")]
    return {name.strip(): value.strip() for name, _, value in pairs}
