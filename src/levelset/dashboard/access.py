"""Access control of the dashboard: only requests from this machine, with the token, from the page itself.

Other sites in the same browser must not read it: DNS rebinding is rejected by the Host header, cross-site requests by
the SameSite cookie and by Sec-Fetch-Site. Other servers of this machine must not receive the cookie: browsers do not
separate cookies by port, so everything is below a path that cannot be guessed, and the cookie is sent there only.
"""

import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from levelset.http import Headers, Request
from levelset.http.private_files import write_private
from levelset.objects.lazy_pattern import Pattern
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
_TOKEN: Final = Pattern(r"[A-Za-z0-9_-]{40,}")
_COOKIE_SECONDS: Final = 24 * 60 * 60
_NOT_AUTHENTICATED: Final = (401, "Not authenticated: open the URL that was printed at the start, with its ?token=...")
_READ_ONLY: Final = (405, "The dashboard is read-only. Use kubectl, or levelset trigger.")

ACTION_HEADER: Final = "x-levelset-action"
"""The header that an action must have: a browser sends it to its own origin only, unless that allows more."""


class AccessPolicy:
    """Decides which requests are allowed; generates a token unless one is given.

    With `actions`, a POST to an action is allowed from the page itself.
    """

    def __init__(self, token: str | None = None, *, actions: bool = False) -> None:
        self.has_actions = actions
        self.token = secrets.token_urlsafe(32) if token is None else token
        # Of the token, so that an open page reconnects after a restart; it does not reveal the token.
        known = hashlib.sha256(self.token.encode()).hexdigest()
        # Cookies ignore ports: without a name for each dashboard, two of them would log each other out.
        self.cookie_name = f"levelset-{known[:12]}"
        self.root = f"/d-{known[12:44]}/"
        """The path of everything. A server at another port does not know it, so a browser sends it no such cookie."""

    @property
    def cookie(self) -> str:
        """The cookie that replaces the token.

        Valid for a day, not readable by scripts, not sent by other sites, nor to other paths of this or another port.
        """
        return (
            f"{self.cookie_name}={self.token}; Path={self.root}; Max-Age={_COOKIE_SECONDS}; HttpOnly; SameSite=Strict"
        )

    def below_root(self, request: Request) -> Request | None:
        """The request with its path below `root`; None if it is outside."""
        start, rest = request.path[: len(self.root)], request.path[len(self.root) :]
        if not hmac.compare_digest(start.encode(errors="replace"), self.root.encode()):
            return None
        return msgspec.structs.replace(request, path=f"/{rest}")

    def refuses(self, request: Request) -> tuple[int, str] | None:
        """The status and message of a rejected request; None if it is allowed."""
        if not is_loopback(request.headers.get("host")):
            return 403, "The dashboard is served to 127.0.0.1 and localhost only: open the URL that was printed."
        below = self.below_root(request)
        if below is None:
            return self._refuses_outside(request)
        request = below
        if request.method == "POST" and self.has_actions and request.segments[:2] == ("api", "actions"):
            return self._refuses_action(request)
        if request.method != "GET":
            return _READ_ONLY
        if request.segments and _is_cross_site(request.headers):
            return 403, "Cross-site requests are not allowed."
        if not (self.has_token(request) or self._has_cookie(request.headers)):
            return _NOT_AUTHENTICATED
        return None

    def _refuses_outside(self, request: Request) -> tuple[int, str] | None:
        """Outside of `root` there is only the printed URL, which leads to it."""
        if request.method != "GET":
            return _READ_ONLY
        return None if self.has_token(request) else _NOT_AUTHENTICATED

    def _refuses_action(self, request: Request) -> tuple[int, str] | None:
        """An action needs the cookie, and all the signs that the page itself has sent it."""
        headers = request.headers
        is_own_origin = headers.get("origin") == f"http://{headers.get('host')}"
        if not is_own_origin or headers.get("sec-fetch-site") not in {None, "same-origin"}:
            return 403, "Actions are accepted from the page of the dashboard only."
        if headers.get(ACTION_HEADER) != "1" or headers.get("content-type") != "application/json":
            return 403, f"Actions are JSON, with the header {ACTION_HEADER}: 1."
        return None if self._has_cookie(headers) else _NOT_AUTHENTICATED

    def has_token(self, request: Request) -> bool:
        """Whether the URL has the token, which is accepted for the page itself only."""
        return not request.segments and self._is_token(request.parameter("token"))

    def _has_cookie(self, headers: Headers) -> bool:
        # Another server may have set a cookie of the same name for another path: any of them may be ours.
        pairs = [pair for one in headers.get_all("cookie") for pair in _cookies(one)]
        return any(name == self.cookie_name and self._is_token(value) for name, value in pairs)

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


def _cookies(text: str) -> list[tuple[str, str]]:
    """Parses a Cookie header leniently: cookies of other local programs may have any form."""
    pairs = [one.partition("=") for one in text.split(";")]
    return [(name.strip(), value.strip()) for name, _, value in pairs]
