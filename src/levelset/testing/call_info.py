"""The verb, kind, object and subresource of a client call, parsed from its path and its description."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from levelset.client.transport.interface import Call

__all__ = ["BOOKKEEPING_KINDS", "CallInfo", "call_info", "is_write"]

BOOKKEEPING_KINDS: Final = frozenset({("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease")})
"""Events and Leases, which a manager writes for itself, by group and kind."""
_WRITES: Final = frozenset({"DELETE", "PATCH", "POST", "PUT"})
_VERBS_OF_SEVERAL_WORDS: Final = ("delete all ", "read logs of ")


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The target of a call; `kind` is empty for calls without objects, such as discovery.

    `verb` is the Kubernetes verb, except that an apply patch is `apply`.
    """

    verb: str
    kind: str
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    group: str = ""

    @property
    def is_bookkeeping(self) -> bool:
        """Whether the object is an Event or a Lease of the built-in groups, which a manager writes for itself."""
        return (self.group, self.kind) in BOOKKEEPING_KINDS

    def __str__(self) -> str:
        parts = (self.kind, self.namespace, self.name, self.subresource)
        return f"{self.verb} {'/'.join(part for part in parts if part)}"


def is_write(call: Call) -> bool:
    """Whether a call is a write."""
    return call.method in _WRITES


@lru_cache(maxsize=64)  # by identity: several hooks in a row need that of the same call
def call_info(call: Call) -> CallInfo:
    """Returns the target of a call."""
    return _about(call.path, call.verb, call.words)


@lru_cache(maxsize=4096)
def _about(path: str, verb: str, words: str) -> CallInfo:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    # /api/v1/... and /apis/group/v1/...
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if not rest:
        return CallInfo(verb, "")
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else None
    part = "/".join(rest[2:]) or None
    named = "apply" if words.startswith("apply ") else verb
    return CallInfo(named, _kind(words, rest[0]), namespace, name, part, "" if parts[0] == "api" else parts[1])


def _kind(words: str, resource: str) -> str:
    """The kind named in the description of the call; its resource if there is no description."""
    for verb in _VERBS_OF_SEVERAL_WORDS:
        words = words.replace(verb, "verb ", 1)
    parts = words.split(" ", 2)
    if len(parts) < 2:
        return resource
    return parts[1].split("/", 1)[0]
