"""What a call is about: its verb, kind, object and part, read from the path and the words of the call."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from levelset.client.transport.interface import Call

__all__ = ["OWN_KINDS", "About", "about", "is_write"]

OWN_KINDS: Final = frozenset({("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease")})
"""What a manager writes for itself, by group and kind."""
_WRITES: Final = frozenset({"DELETE", "PATCH", "POST", "PUT"})
_VERBS_OF_SEVERAL_WORDS: Final = ("delete all ", "read logs of ")


@dataclass(frozen=True, slots=True)
class About:
    """What a call is about; `kind` is the empty text for calls that are about no objects, such as discovery.

    `verb` is the Kubernetes verb, but `apply` for a patch that is an apply.
    """

    verb: str
    kind: str
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    group: str = ""

    @property
    def is_own(self) -> bool:
        """Whether it is about an Event or a Lease, which a manager writes for itself; not any kind of that name."""
        return (self.group, self.kind) in OWN_KINDS

    def __str__(self) -> str:
        parts = (self.kind, self.namespace, self.name, self.subresource)
        return f"{self.verb} {'/'.join(part for part in parts if part)}"


def is_write(call: Call) -> bool:
    """Whether a call may change something."""
    return call.method in _WRITES


def about(call: Call) -> About:
    """What a call is about."""
    return _about(call.path, call.verb, call.words)


@lru_cache(maxsize=4096)
def _about(path: str, verb: str, words: str) -> About:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    # /api/v1/... and /apis/group/v1/...
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if not rest:
        return About(verb, "")
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else None
    part = "/".join(rest[2:]) or None
    said = "apply" if words.startswith("apply ") else verb
    return About(said, _kind(words, rest[0]), namespace, name, part, "" if parts[0] == "api" else parts[1])


def _kind(words: str, resource: str) -> str:
    """The kind as the words of the call name it; that of a call without words is its resource."""
    for several in _VERBS_OF_SEVERAL_WORDS:
        words = words.replace(several, "several ", 1)
    said = words.split(" ", 2)
    if len(said) < 2:
        return resource
    return said[1].split("/", 1)[0]
