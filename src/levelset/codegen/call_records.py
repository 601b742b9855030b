"""Records the calls of a client, and compares them with the permissions of a program.

```python
calls = CallRecords()
client = await Client.connect(hooks=[calls.hook])
...  # the test
check_rules(calls, infer_permissions([websites]))
```
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from levelset.client.transport.interface import Call, Response, Send
from levelset.codegen.rbac import Permission
from levelset.errors import ConfigError

__all__ = ["CallRecords", "RecordedCall", "check_rules", "compare_rules", "read_call"]

_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_VERBS_BY_METHOD = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


@dataclass(frozen=True, slots=True, order=True)
class RecordedCall:
    """One call as an authorizer sees it; `resource` includes the subresource (`websites/status`)."""

    verb: str
    group: str
    resource: str
    namespace: str | None = None
    name: str = ""

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{group}{name}{f' in {self.namespace}' if self.namespace else ''}"


class CallRecords:
    """The calls of all clients with this `hook`, without duplicates."""

    def __init__(self) -> None:
        self._found: dict[RecordedCall, None] = {}

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(tuple(self._found))

    def __len__(self) -> int:
        return len(self._found)

    async def hook(self, call: Call, send: Send) -> Response:
        """A hook for a client (`Client.connect(hooks=[calls.hook])`) that records the call, whatever its outcome."""
        one = read_call(call)
        if one is not None:
            self._found[one] = None
        response = await send(call)
        if one is not None and one.verb == "patch" and response.status == 201:  # an apply that created the object
            self._found[RecordedCall("create", one.group, one.resource, one.namespace, one.name)] = None
        return response


def read_call(call: Call) -> RecordedCall | None:
    """The request attributes of a call; None for calls without a resource, such as discovery and health."""
    parts = [unquote(part) for part in call.path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = None
    # /namespaces/shop/pods addresses pods; /namespaces/shop and its subresources address the namespace.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, *part = (*rest, "") if len(rest) == 1 else rest
    verb = call.verb or _VERBS_BY_METHOD.get(call.method, call.method.lower())
    return RecordedCall(verb, group, "/".join((resource, *part)), namespace, name)


def compare_rules(recorded: Iterable[RecordedCall], permissions: Iterable[Permission]) -> Sequence[str]:
    """A sentence for each call that no permission allows, and for each permitted verb that no call used."""
    calls = sorted(set(recorded), key=lambda one: (one.group, one.resource, one.verb, one.namespace or "", one.name))
    rules = tuple(permissions)
    missing = [one for one in calls if one.group not in _REVIEWS and not _is_allowed(one, rules)]
    problems = dict.fromkeys(_missing(one) for one in missing)
    for rule in rules:
        for verb in rule.verbs:
            if not rule.rarely and not any(_uses(one, rule, verb) for one in calls) and not _is_rare(rule, verb, rules):
                problems[_unused(rule, verb)] = None
    return tuple(problems)


def check_rules(recorded: Iterable[RecordedCall], permissions: Iterable[Permission]) -> None:
    """Raises ConfigError with all that `compare_rules` finds, one sentence a line."""
    problems = compare_rules(recorded, permissions)
    if problems:
        raise ConfigError("\n".join(problems))


def _is_allowed(one: RecordedCall, rules: Sequence[Permission]) -> bool:
    return any(rule.allows(one.verb, one.group, one.resource, one.name, one.namespace) for rule in rules)


def _uses(one: RecordedCall, rule: Permission, verb: str) -> bool:
    return verb in (one.verb, "*") and rule.allows(one.verb, one.group, one.resource, one.name, one.namespace)


def _is_rare(rule: Permission, verb: str, rules: Sequence[Permission]) -> bool:
    """Whether another permission that is rarely used grants the same verb."""
    return any(
        other.rarely and verb in other.verbs and (other.group, other.resource) == (rule.group, rule.resource)
        for other in rules
    )


def _missing(one: RecordedCall) -> str:
    group = f" of {one.group}" if one.group else ""
    where = f" in {one.namespace}" if one.namespace else " in all namespaces"
    declared = f'Permission("{one.group}", "{one.resource}", ["{one.verb}"])'
    return f"{one.verb} {one.resource}{group}{where} is used, but no rule allows it: declare {declared}"


def _unused(rule: Permission, verb: str) -> str:
    group = f" of {rule.group}" if rule.group else ""
    why = f" ({rule.why})" if rule.why else ""
    return f"{verb} {rule.resource}{group} is allowed{why}, but no call used it: test what needs it, or remove it"
