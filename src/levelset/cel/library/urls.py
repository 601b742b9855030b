"""The URL library: URLs parsed as Go does, and their components."""

from collections.abc import Mapping
from urllib.parse import quote, unquote, unquote_plus

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.objects.lazy_pattern import Pattern

__all__ = ["OVERLOADS", "Url", "parse_url"]

_SCHEME = Pattern(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = Pattern(r":[0-9]*")
_ESCAPE = Pattern(r"%(?![0-9A-Fa-f]{2})")
_HOST = Pattern(r"[A-Za-z0-9!$&'()*+,;=:\[\]<>\"._~%\x80-\U0010ffff-]*")
_CONTROL = Pattern(r"[\x00-\x1f\x7f]")
_PATH_SAFE = "/:@!$&'()*+,;=~"


class Url:
    """A URL and its components."""

    __slots__ = ("_values", "host", "path", "query", "scheme", "text")

    cel_type = "kubernetes.URL"

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text, self.scheme, self.host, self.path, self.query = text, scheme, host, path, query
        self._values: dict[str, list[str]] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def hostname(self) -> str:
        """The host without its port and brackets."""
        if self.host.startswith("["):
            return self.host[1 : self.host.index("]")]
        return self.host.rpartition(":")[0] if ":" in self.host else self.host

    @property
    def port(self) -> str:
        """The port, if there is one."""
        rest = self.host.rpartition("]")[2]
        return rest.rpartition(":")[2] if ":" in rest else ""

    def values(self) -> Mapping[str, list[str]]:
        """The query parameters by key."""
        if self._values is not None:
            return self._values
        found: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            key, _, value = pair.partition("=")
            if pair and ";" not in pair and not _ESCAPE.search(pair):
                found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        self._values = found
        return found


def parse_url(text: str) -> Url:
    """Parses a URL, which must be absolute or an absolute path; raises EvaluationError."""
    body, _, query = text.partition("#")[0].partition("?")
    match = _SCHEME.match(body)
    scheme = match[1].lower() if match else ""
    rest = body[match.end() :] if match else body
    if _CONTROL.search(text) or not text or not (match or body.startswith("/")):
        raise _invalid(text)
    host = ""
    if rest.startswith("//") and (match or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host = _checked_host(text, authority.rpartition("@")[2])
        rest = slash + path
    if _ESCAPE.search(rest):
        raise _invalid(text)
    return Url(text, scheme, host, rest if host or rest.startswith("/") else "", query)


def _checked_host(text: str, host: str) -> str:
    if host.startswith("["):
        _, closed, port = host.partition("]")
        if not closed or (port and not _PORT.fullmatch(port)):
            raise _invalid(text)
        return host
    _, colon, port = host.partition(":")
    if (colon and not _PORT.fullmatch(colon + port)) or not _HOST.fullmatch(host) or _ESCAPE.search(host):
        raise _invalid(text)
    return host


def _invalid(text: str) -> EvaluationError:
    return EvaluationError(
        f"URL parse error during conversion from string: parse {text[:80]!r}: invalid URI for request"
    )


def _is_url(text: str) -> bool:
    try:
        parse_url(text)
    except EvaluationError:
        return False
    return True


def _escaped_path(url: Url) -> str:
    return quote(unquote(url.path), safe=_PATH_SAFE) if "%" not in url.path else url.path


OVERLOADS = [
    *declare([("url: (string) URL", parse_url), ("isURL: (string) bool", _is_url)], charge="traverse"),
    *declare(
        [
            ("getScheme: URL.() string", lambda url: url.scheme),
            ("getHost: URL.() string", lambda url: url.host),
            ("getHostname: URL.() string", lambda url: url.hostname),
            ("getPort: URL.() string", lambda url: url.port),
            ("getEscapedPath: URL.() string", _escaped_path),
            ("getQuery: URL.() map(string, list(string))", Url.values),
        ]
    ),
]
