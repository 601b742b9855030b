"""The IDE execution protocol: its endpoint, the request for a run session, and notifications; pure.

The facts are those of the public document "IDE execution" of .NET Aspire.
"""

import base64
import binascii
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from levelset.errors import ConfigError, LevelsetError

__all__ = [
    "LAUNCH_CONFIGURATIONS",
    "Answer",
    "IdeEndpoint",
    "IdeError",
    "IdeInfo",
    "LogLine",
    "Notification",
    "ProcessRestarted",
    "SessionMessage",
    "SessionTerminated",
    "error_text",
    "parse_info",
    "parse_notification",
    "run_session_body",
    "session_id_of",
]

LAUNCH_CONFIGURATIONS: Final = "executable.usvc-dev.developer.microsoft.com/launch-configurations"
"""The annotation with the launch configurations of an Executable, as JSON; the IDE gets them as they are."""
_VERSIONS: Final = ("2025-10-01", "2024-04-23", "2024-03-03")
"""The versions of the protocol that are spoken, the newest first."""
_WITH_PONGS: Final = "2024-04-23"
_DEFAULT_TYPES: Final = ("project",)
_INT32: Final = 1 << 31
_UINT32: Final = 1 << 32


class IdeError(LevelsetError):
    """The IDE cannot be used as is needed; the message says why."""


class IdeEndpoint(Struct, frozen=True):
    """Where an IDE serves run sessions on this machine, and the token that it wants."""

    port: int
    token: str
    certificate: bytes | None = None
    """The certificate of the server (DER); without one it is plain HTTP."""

    @classmethod
    def of_environment(cls, env: Mapping[str, str]) -> "IdeEndpoint | None":
        """The endpoint of DEBUG_SESSION_PORT, _TOKEN and _SERVER_CERTIFICATE; None without a port or a token.

        Raises ConfigError for a value that cannot be used: there is no fallback to an insecure connection.
        """
        port, token = env.get("DEBUG_SESSION_PORT", "").strip(), env.get("DEBUG_SESSION_TOKEN", "").strip()
        if not port or not token:
            return None
        number = port.removeprefix("localhost:")
        if not (number.isascii() and number.isdigit() and 0 < int(number) < 65536):
            raise ConfigError(f"DEBUG_SESSION_PORT: {port!r} is no port")
        if not token.isprintable() or not token.isascii():
            raise ConfigError("DEBUG_SESSION_TOKEN: only printable ASCII can be sent")
        encoded = env.get("DEBUG_SESSION_SERVER_CERTIFICATE")
        if encoded is None:
            return cls(int(number), token)
        try:
            return cls(int(number), token, base64.b64decode(encoded.strip(), validate=True))
        except binascii.Error as error:
            raise ConfigError(f"DEBUG_SESSION_SERVER_CERTIFICATE is not base64: {error}") from error

    def context(self) -> ssl.SSLContext | None:
        """The TLS context that trusts only that certificate; None for plain HTTP. Raises ConfigError."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is trusted, and no issuer
        try:
            context.load_verify_locations(cadata=self.certificate)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"DEBUG_SESSION_SERVER_CERTIFICATE is no certificate: {error}") from error
        return context

    def __repr__(self) -> str:
        # The generated repr would put the token into logs.
        return f"IdeEndpoint({self.port})"


class Answer(Struct, frozen=True):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes


class IdeInfo(Struct, frozen=True):
    """What the IDE supports."""

    version: str
    """The newest version of the protocol that both sides speak."""
    types: tuple[str, ...] = _DEFAULT_TYPES
    """The types of launch configurations that it can run."""

    @property
    def sends_pongs(self) -> bool:
        """Whether it responds to pings, so that silence means a lost connection."""
        return self.version >= _WITH_PONGS


class _Info(Struct):
    protocols_supported: list[str] = msgspec.field(default_factory=list[str])
    supported_launch_configurations: list[str] = msgspec.field(default_factory=list[str])


def parse_info(answer: Answer) -> IdeInfo:
    """What the response to `GET /info` says; raises IdeError if there is no common version."""
    try:
        found = msgspec.json.decode(answer.body, type=_Info) if answer.status == 200 else _Info()
    except msgspec.DecodeError:
        found = _Info()
    version = next((one for one in _VERSIONS if one in found.protocols_supported), None)
    if version is None:
        offered = ", ".join(found.protocols_supported) or f"{answer.status} {error_text(answer.body)}".strip()
        raise IdeError(f"the IDE speaks no version of the protocol that we do ({', '.join(_VERSIONS)}): {offered}")
    return IdeInfo(version, tuple(found.supported_launch_configurations) or _DEFAULT_TYPES)


def run_session_body(
    configurations: str | None, env: Mapping[str, str], args: Sequence[str], types: Sequence[str]
) -> bytes:
    """The request for a run session; raises IdeError if the launch configurations cannot be used.

    Without arguments the field is left out: the IDE then uses those of the launch profile.
    """
    if not configurations:
        raise IdeError(f"the annotation {LAUNCH_CONFIGURATIONS} is missing")
    try:
        tree = msgspec.json.decode(configurations, type=list[dict[str, Any]])
    except msgspec.ValidationError as error:
        raise IdeError(f"the annotation {LAUNCH_CONFIGURATIONS} is no list of objects: {error}") from error
    except msgspec.DecodeError as error:
        raise IdeError(f"the annotation {LAUNCH_CONFIGURATIONS} is not JSON: {error}") from error
    wanted = [str(one.get("type", "")) for one in tree]
    if not set(wanted) & set(types):
        raise IdeError(f"the IDE runs launch configurations of type {', '.join(types)}, not {', '.join(wanted) or '-'}")
    body: dict[str, Any] = {"launch_configurations": tree}
    if env:
        body["env"] = [{"name": name, "value": value} for name, value in sorted(env.items())]
    if args:
        body["args"] = list(args)
    return json.dumps(body).encode()


def session_id_of(answer: Answer) -> str:
    """The ID of the run session that was created; raises IdeError if it was not."""
    if answer.status not in (200, 201):
        raise IdeError(f"the IDE did not start it ({answer.status}): {error_text(answer.body)}".rstrip(": "))
    found = urlsplit(answer.headers.get("location", "")).path.rpartition("/")[2]
    if not found:
        raise IdeError("the IDE did not say which run session it has started: the header Location is missing")
    return found


def error_text(body: bytes) -> str:
    """The text of an error response: code and message of its JSON, with details, or the first part of the body."""
    try:
        tree: Any = json.loads(body)
        return "; ".join(_details(tree["error"])) or body.decode(errors="replace")[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        return body.decode(errors="replace").strip()[:500]


def _details(error: Any) -> list[str]:
    own = ": ".join(str(error[name]) for name in ("code", "message") if error.get(name))
    more = [line for one in error.get("details") or () for line in _details(one)]
    return [own, *more] if own else more


class ProcessRestarted(Struct, frozen=True, tag="processRestarted", tag_field="notification_type"):
    """The IDE has started the program, or has started it again."""

    session_id: str
    pid: int | None = None


class SessionTerminated(Struct, frozen=True, tag="sessionTerminated", tag_field="notification_type"):
    """The program has ended."""

    session_id: str
    pid: int | None = None
    exit_code: int | None = None

    @property
    def code(self) -> int | None:
        """The exit code as an int32, as the status has it; None if it is unknown or cannot be one."""
        code = self.exit_code
        if code is None or not -_INT32 <= code < _UINT32:
            return None
        return code - _UINT32 if code >= _INT32 else code


class LogLine(Struct, frozen=True, tag="serviceLogs", tag_field="notification_type"):
    """Output of the program."""

    session_id: str
    log_message: str = ""
    is_std_err: bool = False


class SessionMessage(Struct, frozen=True, tag="sessionMessage", tag_field="notification_type"):
    """A message of the IDE about a session."""

    session_id: str
    message: str = ""
    level: str = "info"
    code: str = ""
    details: list[Any] = msgspec.field(default_factory=list[Any])

    @property
    def text(self) -> str:
        """The message with its code and details."""
        return "; ".join(_details({"code": self.code, "message": self.message.strip(), "details": self.details}))


Notification = ProcessRestarted | SessionTerminated | LogLine | SessionMessage
_DECODER: Final = msgspec.json.Decoder(Notification)


def parse_notification(data: bytes) -> Notification | None:
    """The notification of a message; None for a type that we do not know. Raises IdeError if it is damaged."""
    try:
        found: Notification = _DECODER.decode(data)
    except msgspec.ValidationError as error:
        if "tag" in str(error) or "notification_type" in str(error):
            return None
        raise IdeError(f"the IDE sent a damaged notification: {error}") from error
    except msgspec.DecodeError as error:
        raise IdeError(f"the IDE sent a damaged notification: {error}") from error
    if not found.session_id:
        raise IdeError("the IDE sent a notification without a session")
    return found
