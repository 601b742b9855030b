"""Requests that depend on each other, and the answers of kube-apiserver to them, one after the other.

`sequences/TOPIC.yaml` has the requests, `answers/sequences/TOPIC.json` what kube-apiserver 1.36.4 answered
(`make record-builtin`). A file maps names to sequences:

    deleted:
      objects: {pod: [/api/v1/namespaces/sequences/pods, {metadata: {name: a}, spec: {...}}]}
      requests:
      - DELETE OBJECT {"gracePeriodSeconds":10}
      - PATCH+merge OBJECT/status {"status":{"phase":"Failed"}}
      - GET+table OBJECT

A file for another cluster has its ranges of ClusterIPs, and the sequences below a name:

    service ranges: 10.96.0.0/16,fd00:10:96::/112
    sequences: {created: ...}

A sequence runs once for each of its objects, which is created first; OBJECT is its path. VERSION in a body is the
resourceVersion, and UID the uid, of the last answer that was no error. The methods PATCH+json, +merge, +strategic and
+apply name the format of the patch; GET+table asks for a Table.

An answer has all that a Status says (but for what `_status` leaves out), the definitions and cells of a Table, and
of an object its metadata and what the topics are about. The time of a deletion is noted as seconds after the creation,
to the nearest five, and an address that the server has allocated as its family.
"""

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

__all__ = [
    "DEFAULT_RANGES",
    "NAMESPACE",
    "TOPICS",
    "Request",
    "Sequence",
    "answers",
    "answers_file",
    "load",
    "run",
    "service_ranges",
]

FOLDER = Path(__file__).parent
NAMESPACE = "sequences"
DEFAULT_RANGES = "10.96.0.0/16"
TOPICS = tuple(sorted(one.stem for one in (FOLDER / "sequences").glob("*.yaml")))
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_FORMATS = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_ADDRESS = re.compile(r"\b10\.96\.[0-9]+\.[0-9]+\b|\bfd00:10:96::[0-9a-f:]*[0-9a-f]\b")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Request(NamedTuple):
    """A request as it is sent."""

    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    accept: str = "application/json"


@dataclass(frozen=True)
class Sequence:
    """An object, and the requests that follow its creation."""

    name: str
    path: str
    tree: Any
    lines: tuple[str, ...]


@cache
def _file(topic: str) -> Any:
    return yaml.safe_load((FOLDER / "sequences" / f"{topic}.yaml").read_text())


def service_ranges(topic: str) -> str:
    """The ranges of ClusterIPs of the server."""
    ranges: str = _file(topic).get("service ranges", DEFAULT_RANGES)
    return ranges


@cache
def load(topic: str) -> tuple[Sequence, ...]:
    """The sequences of a topic, those of several objects one after the other."""
    raw = _file(topic)
    raw = raw.get("sequences", raw)
    return tuple(
        Sequence(f"{name}: {title}", path, tree, tuple(given["requests"]))
        for name, given in raw.items()
        for title, (path, tree) in given["objects"].items()
    )


@cache
def answers(topic: str) -> dict[str, dict[str, Any]]:
    """The recorded answers of a topic, by sequence and request."""
    found: dict[str, dict[str, Any]] = json.loads(answers_file(topic).read_text())
    return found


def answers_file(topic: str) -> Path:
    """The file of a topic's answers."""
    return FOLDER / "answers" / "sequences" / f"{topic}.json"


def run(sequence: Sequence) -> Generator[Request, tuple[int, Any], dict[str, Any]]:
    """Yields the requests of a sequence, is sent code and body of the replies, and returns the answers."""
    known: dict[str, str] = {}
    found: dict[str, Any] = {}
    given = json.dumps([sequence.tree, *sequence.lines])
    location = f"{sequence.path}/{sequence.tree['metadata']['name']}"
    for number, line in enumerate((f"POST {sequence.path} {json.dumps(sequence.tree)}", *sequence.lines)):
        code, body = yield _request(line.replace("OBJECT", location), known)
        if code < 300 and body.get("metadata", {}).get("uid"):
            known = {"VERSION": body["metadata"]["resourceVersion"], "UID": body["metadata"]["uid"]}
        found[f"{number} {line}" if number else "created"] = _without_allocated(_answer(code, body), given)
    return found


def _without_allocated(answer: Any, given: str) -> Any:
    """The answer with a word in place of each address that is not in the requests."""

    def word(match: re.Match[str]) -> str:
        address = match[0]
        return address if address in given else "<IPv6>" if ":" in address else "<IPv4>"

    return json.loads(_ADDRESS.sub(word, json.dumps(answer)))


def _request(line: str, known: dict[str, str]) -> Request:
    verb, path, *rest = line.split(" ", 2)
    method, _, form = verb.partition("+")
    text = rest[0] if rest else ""
    for word, value in known.items():
        text = text.replace(word, value)
    body = json.loads(text) if text else None
    accept = _TABLE if form == "table" else "application/json"
    return Request(method, path, body, _FORMATS.get(form, "application/json"), accept)


def _answer(code: int, body: Any) -> Any:
    if not isinstance(body, dict):
        return {"code": code, "text": body}
    if body.get("kind") == "Status":
        found = _status(code, body)
    elif body.get("kind") == "Table":
        found = _table(body)
    else:
        found = {name: body[name] for name in ("apiVersion", "kind") if name in body}
        found |= {"metadata": _metadata(body["metadata"])} | _parts(body)
    text = _UID.sub("<uid>", json.dumps({"code": code, **found}))
    return json.loads(re.sub(r"(in record|object meta:) \(?[0-9]+\)?", r"\1 <version>", text))


def _status(code: int, body: Any) -> Any:
    """What a Status says, but for details without content and for messages that show how a server is made."""
    found = {name: body[name] for name in ("status", "message", "reason", "details") if body.get(name)}
    if code == 400 and not found["message"].startswith("the name"):
        del found["message"]  # how a body could not be decoded
    text = re.sub(r"(due to an error in our request|patch: Invalid value): .*", r"\1", found.get("message", ""))
    if text:
        found["message"] = re.sub(r"Key: [^,]*", "Key: <key>", text)
    for cause in found.get("details", {}).get("causes", ()):
        if cause.get("field") == "patch":
            cause["message"] = "Invalid value"
    return found


def _table(body: Any) -> Any:
    names = ("name", "type", "format", "priority")
    columns = [[one[name] for name in names] for one in body["columnDefinitions"]]
    ages = {number for number, one in enumerate(columns) if one[0] in ("Age", "Created At")}
    rows = [["<age>" if at in ages else cell for at, cell in enumerate(row["cells"])] for row in body["rows"]]
    return {"columns": columns, "rows": rows}


def _metadata(metadata: Any) -> Any:
    hidden = ("managedFields", "resourceVersion", "creationTimestamp", "deletionTimestamp")
    found = {name: value for name, value in sorted(metadata.items()) if name not in hidden}
    if "deletionTimestamp" in metadata:
        made, ends = (datetime.fromisoformat(metadata[one]) for one in ("creationTimestamp", "deletionTimestamp"))
        found["deletionTimestamp"] = f"<{round((ends - made).total_seconds() / 5) * 5} s>"
    return found


def _parts(body: Any) -> Any:
    if body["kind"] == "Scale":
        return {name: body[name] for name in ("spec", "status") if name in body}
    if body["kind"] == "Service":
        names = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        return {"spec": {name: body["spec"][name] for name in names if name in body["spec"]}}
    found = {"phase": (body.get("status") or {}).get("phase"), "replicas": (body.get("spec") or {}).get("replicas")}
    return {name: value for name, value in found.items() if value is not None}
