"""Objects of built-in kinds as requests, and the answers of kube-apiserver to them: cases, normal form, comparison.

`cases/AREA.yaml` has the requests, `answers/AREA.json` what kube-apiserver 1.36.4 answered (`make record-builtin`). A
file of cases maps names to bases:

    deployment:
      path: /apis/apps/v1/namespaces/builtin/deployments
      object: {metadata: {name: web}, spec: {...}}
      sweep: true          # each value of the object once absent, empty, too long, wrong
      unswept: [spec.x]    # but not these
      resweep: true        # the same as updates of the created object, absent and wrong only
      create:              # the object with these changes, created
      - {spec.replicas: -1}
      update:              # the created object with these changes, replaced
      - {spec.selector.matchLabels.app: other}
      status: [...]        # the same for the status endpoint; scale, approval, finalize, resize ... likewise
      binding: [...]       # bodies that are sent to this endpoint of the created object; eviction, token likewise
      before: {...}        # changes of the status, made before updates
    deployment paused:
      like: deployment     # another base with changes
      with: {spec.paused: true}
    anything:
      requests: [GET /api/v1/pods?fieldSelector=spec.nodeName=a]

A PATCH of the last kind is a merge patch. Changes map paths to values; null removes, a number is an index, and a name
in brackets may have dots. `${x*300}` in a value is 300 times x, `["${*300}", item]` a list of 300 items, in which
`${i}` is the index, and `{"${*300}a": x}` a map with the keys a0 to a299. All requests but those that make the object
of an update are dry runs, so they neither depend on each other nor leave anything behind.

An answer is its status code, and for an error its causes (field, reason, message), otherwise the values that differ
from the answer to the base. Values that differ between two runs (uids, times, revisions, allocated addresses and
ports) are replaced by placeholders, and values of objects and Go's diffs in messages by `<value>`.
"""

import copy
import itertools
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

__all__ = [
    "AREAS",
    "FOLDER",
    "NAMESPACE",
    "Base",
    "Case",
    "Reply",
    "answers",
    "cases_of",
    "changed",
    "load",
    "media",
    "normal_answer",
    "normal_message",
    "run",
    "steps_of",
]

FOLDER = Path(__file__).parent
NAMESPACE = "builtin"
Reply = tuple[int, Any]
Exchange = Generator[tuple[str, str, Any], Reply, Any]
# Subresources whose objects are replaced, and those that are sent bodies of their own.
ENDPOINTS = ("status", "scale", "approval", "finalize", "resize", "ephemeralcontainers")
ACTIONS = ("binding", "eviction", "token")
AREAS = tuple(sorted(one.stem for one in (FOLDER / "cases").glob("*.yaml")))


@dataclass(frozen=True)
class Case:
    """One request: the name is unique within its base."""

    name: str
    verb: str
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Base:
    """An object and the cases that are made from it."""

    name: str
    path: str
    tree: Any
    before: dict[str, Any]
    cases: tuple[Case, ...]


@cache
def load(area: str) -> tuple[Base, ...]:
    """The bases of an area with their cases."""
    raw = yaml.load(
        (FOLDER / "cases" / f"{area}.yaml").read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return tuple(_base(name, raw) for name in raw)


def _base(name: str, raw: Any) -> Base:
    given = raw[name]
    origin = raw[given["like"]] if "like" in given else given
    tree = changed(origin.get("object", {}), given.get("with", {}))
    if "like" in given and tree.get("metadata", {}).get("name") == origin["object"]["metadata"].get("name"):
        tree["metadata"]["name"] = re.sub(r"[^a-z0-9]+", "-", name.lower())
    cases: dict[str, Case] = {}
    for verb in ("create", "update", *ENDPOINTS, *ACTIONS):
        for changes in given.get(verb) or ():
            case = Case(f"{verb} {json.dumps(changes)}", verb, _expanded(changes))
            cases[case.name] = case
    if given.get("sweep"):
        for case in _sweep(tree):
            if case.changes.keys().isdisjoint(given.get("unswept") or ()):
                cases.setdefault(case.name, case)
    if given.get("resweep"):
        for case in _sweep(tree):
            changes = {path: value for path, value in case.changes.items() if value not in ("", -1)}
            if len(str(changes)) < 200 and changes.keys() - set(given.get("unswept") or ()):
                title = f"update {json.dumps(changes)}"
                cases.setdefault(title, Case(title, "update", changes))
    for request in given.get("requests") or ():
        cases[request] = Case(request, "request")
    path = given.get("path") or origin.get("path", "")
    return Base(name, path, _expanded(tree), given.get("before") or {}, tuple(cases.values()))


def _sweep(tree: Any) -> Iterator[Case]:
    """Each value once absent, empty, too long and wrong."""
    for path, value in _leaves(tree):
        if path in ("apiVersion", "kind", "metadata.name"):
            continue
        wrong: list[Any] = [None]
        if isinstance(value, bool):
            wrong.append(not value)
        elif isinstance(value, int):
            wrong += [0, -1, 70000]
        elif isinstance(value, str):
            wrong += ["", "Not_Valid!", "${a*260}"]
        for one in wrong:
            if one != value:
                yield Case(f"create {json.dumps({path: one})}", "create", _expanded({path: one}))


def _leaves(tree: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            plain = f"[{name}]" if re.search(r"[.\[\]]", name) else f".{name}" if at else name
            if at:
                yield from ((at + plain, value),) if isinstance(value, dict | list) and value else ()
            yield from _leaves(value, at + plain)
    elif isinstance(tree, list) and tree:
        for index, value in enumerate(tree):
            yield from _leaves(value, f"{at}.{index}")
    else:
        yield at, tree


_TIMES = re.compile(r"\$\{\*(\d+)\}(.*)")


def _expanded(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"\$\{(.+?)\*(\d+)\}", lambda found: found[1] * int(found[2]), value)
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, one in value.items():
            times = _TIMES.fullmatch(name)
            found |= (
                {f"{times[2]}{i}": one for i in range(int(times[1]))} if times else {_expanded(name): _expanded(one)}
            )
        return found
    if not isinstance(value, list):
        return value
    times = _TIMES.fullmatch(str(value[0])) if len(value) == 2 else None
    return [_numbered(value[1], i) for i in range(int(times[1]))] if times else [_expanded(one) for one in value]


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return number if value == "${i}" else value.replace("${i}", str(number))
    if isinstance(value, dict):
        return {name: _numbered(one, number) for name, one in value.items()}
    return [_numbered(one, number) for one in value] if isinstance(value, list) else value


def changed(tree: Any, changes: dict[str, Any]) -> Any:
    tree = copy.deepcopy(tree)
    for path, value in changes.items():
        _set(tree, steps_of(path), copy.deepcopy(value))
    return tree


def steps_of(path: str) -> list[Any]:
    found = re.findall(r"\[([^\]]*)\]|([^.\[\]]+)", path)
    return [key or (int(name) if name.isdigit() else name) for key, name in found]


def _set(tree: Any, steps: list[Any], value: Any) -> None:
    for here, following in itertools.pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(tree, list):
            if here == len(tree):
                tree.append(empty)
            tree = tree[here]
        else:
            if tree.get(here) is None:
                tree[here] = empty
            tree = tree[here]
    last = steps[-1]
    if value is None and isinstance(tree, dict):
        tree.pop(last, None)
    elif value is None:
        del tree[last : last + 1]
    elif isinstance(tree, list) and last == len(tree):
        tree.append(value)
    else:
        tree[last] = value


def media(method: str) -> str:
    """The media type of the body of a request."""
    return "application/merge-patch+json" if method == "PATCH" else "application/json"


def run(base: Base) -> Exchange:
    """Yields the requests of a base, is sent the replies, and returns the normal answers by case."""
    found: dict[str, Any] = {}
    reference: Any = None
    if base.path:
        reference = found[""] = normal_answer((yield "POST", f"{base.path}?dryRun=All", base.tree))
    stored: Any = None
    for case in base.cases:
        if case.verb == "request":
            method, path, *body = case.name.split(" ", 2)
            found[case.name] = normal_answer((yield method, path, json.loads(body[0]) if body else None))
            continue
        if case.verb == "create":
            reply = yield "POST", f"{base.path}?dryRun=All", changed(base.tree, case.changes)
        else:
            if stored is None:
                stored = yield from _stored(base)
            reply = yield from _update(base, case, stored)
        found[case.name] = _difference(normal_answer(reply), reference)
    return found


def _stored(base: Base) -> Exchange:
    code, tree = yield "POST", base.path, base.tree
    assert code in (201, 409), f"{base.name}: {tree}"
    location = f"{base.path}/{base.tree['metadata']['name']}"
    code, tree = yield "GET", location, None
    if base.before:
        code, tree = yield "PUT", f"{location}/status", changed(tree, base.before)
        assert code == 200, f"{base.name}: {tree}"
    return tree


def _update(base: Base, case: Case, stored: Any) -> Exchange:
    location = f"{base.path}/{base.tree['metadata']['name']}"
    if case.verb == "scale":
        stored = (yield "GET", f"{location}/scale", None)[1]
    endpoint = location if case.verb == "update" else f"{location}/{case.verb}"
    if case.verb in ACTIONS:
        return (yield "POST", f"{endpoint}?dryRun=All", case.changes)
    return (yield "PUT", f"{endpoint}?dryRun=All", changed(stored, case.changes))


_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")


def normal_answer(reply: Reply) -> Any:
    """The answer without what differs between two runs."""
    code, body = reply
    if code < 300:
        return {"code": code, "body": _normal_body(body)}
    if not isinstance(body, dict):
        return {"code": code, "message": body.strip()}
    causes = (body.get("details") or {}).get("causes") or []
    answer: dict[str, Any] = {"code": code, "reason": body.get("reason")}
    if causes:
        answer["causes"] = [[one.get("field", ""), one["reason"], normal_message(one["message"])] for one in causes]
        # Maps have no order in Go.
        answer["causes"].sort(key=lambda one: one[0] if "[" in one[0] else "")
    elif code != 400:  # how a body could not be decoded differs
        answer["message"] = normal_message(body.get("message", ""))
    return answer


def normal_message(text: str) -> str:
    text = _UID.sub("<uid>", text.partition("\n")[0])
    text = re.sub(r'"10\.96\.\d+\.\d+": expected', '"<ip>": expected', text)  # allocated
    head, colon, rest = text.partition("value: ")
    if (colon and rest.startswith(("{", "[", "&", "map["))) or re.match(r"[a-z0-9]*\.[A-Z]", rest):
        rest = f"<value>{_after_value(rest)}"
    elif colon and len(rest) > 300:
        rest = f"{rest[:100]}...{rest.rpartition(': ')[2]}"
    return head + colon + rest


def _after_value(text: str) -> str:
    """What follows a value; one that is not JSON is Go's, and has no colon and blank."""
    try:
        return text[json.JSONDecoder().raw_decode(text)[1] :]
    except ValueError:
        detail = re.split(r"}: |[.][.][.]: ", text)[1:]  # none if the value was shortened, and nothing follows it
        return f": {detail[-1]}" if detail else ""


def _normal_body(body: Any) -> Any:
    if not isinstance(body, dict) or "metadata" not in body:
        return body
    body = copy.deepcopy(body)
    for one in (body, *body.get("items", ())):
        for name in ("managedFields", "resourceVersion", "selfLink"):
            one["metadata"].pop(name, None)
    spec = body.get("spec")
    if body.get("kind") == "Service" and isinstance(spec, dict):
        _hide_allocations(spec)
    if body.get("kind") == "CertificateSigningRequest" and isinstance(spec, dict):
        for name in ("username", "uid", "groups"):  # of the user who records
            if spec.pop(name, None):
                spec["username"] = "<user>"
    return _placeholders(body)


def _hide_allocations(spec: Any) -> None:
    if spec.get("clusterIP", "").startswith("10.96."):
        spec["clusterIP"] = "<ip>"
        spec["clusterIPs"] = ["<ip>"]
    for port in spec.get("ports", ()):
        if port.get("nodePort", 0) not in (0, 30080):
            port["nodePort"] = "<port>"
    if spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = "<port>"


def _placeholders(value: Any) -> Any:
    if isinstance(value, str):
        return _TIME.sub("<time>", _UID.sub("<uid>", value))
    if isinstance(value, dict):
        return {name: _placeholders(one) for name, one in sorted(value.items())}
    return [_placeholders(one) for one in value] if isinstance(value, list) else value


def _difference(answer: Any, reference: Any) -> Any:
    if "body" not in answer or "body" not in reference:
        return answer
    changes: dict[str, Any] = {}
    _compare(answer["body"], reference["body"], "", changes)
    return {"code": answer["code"], "differs": changes}


def _compare(one: Any, other: Any, at: str, changes: dict[str, Any]) -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            path = f"{at}.{name}" if at else name
            if name not in one:
                changes[path] = None
            elif name not in other:
                changes[path] = one[name]
            else:
                _compare(one[name], other[name], path, changes)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            _compare(left, right, f"{at}[{index}]", changes)
    elif one != other:
        changes[at] = one


@cache
def answers(area: str) -> dict[str, dict[str, Any]]:
    """The recorded answers of an area, by base and case."""
    path = FOLDER / "answers" / f"{area}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def cases_of(area: str) -> int:
    """How many answers of an area are recorded."""
    return sum(len(one) for one in answers(area).values())
