"""Answers without what differs between two runs or two servers for good reasons, and what two of them differ in."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import yaml

from tests.conformance.builtin.recorded_objects import normal_message

__all__ = ["Answer", "Difference", "Known", "differences", "normal_form", "signature"]

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"(20[0-9]{2}-[0-9]{2}-[0-9]{2})T[0-9:]+(\.[0-9]+)?Z")
_ADDRESS = re.compile(r"\b10\.96\.[0-9]+\.[0-9]+\b")
_SELF = re.compile(r"\bselfType[0-9]+")  # of a type in a message about an expression
_VOLUME = re.compile(r"(?<=spec\.template\.spec\.)volumes\[[0-9]+\]")
_NODE_PORT = re.compile(r":3[0-2][0-9]{3}/")  # of a cell of a table
_VERSIONS = re.compile(
    r"(in record|in the precondition|object meta:|resource version:|(?:UID|Version) in precondition:)\s*\(?[0-9]+\)?"
)
HEADERS = ("content-type", "warning", "retry-after")


class _Loader(yaml.CSafeLoader):
    """YAML as JSON: times are texts."""


_Loader.yaml_implicit_resolvers = {
    letter: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
    for letter, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class Answer(NamedTuple):
    """What a server sent: the values of repeated headers in order; `events` are those of a watch."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    events: tuple[Any, ...] | None = None


@dataclass
class Known:
    """What is known of one server in one run: names of the run, and what its answers gave."""

    id: str
    values: dict[str, str] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)
    last_revision: str = "1"

    def fill(self, value: Any) -> Any:
        """Replaces the placeholders of a step."""
        if isinstance(value, str) and "${" in value:
            return re.sub(r"\$\{(ns|id|rv[0-9]+|uid[0-9]+|continue[0-9]+)\}", lambda one: self._value(one[1]), value)
        if isinstance(value, dict):
            return {self.fill(name): self.fill(one) for name, one in value.items()}
        return [self.fill(one) for one in value] if isinstance(value, list) else value

    def _value(self, name: str) -> str:
        if name in ("ns", "id"):
            return f"ns-{self.id}" if name == "ns" else self.id
        return self.values.get(name, "1")

    def learn(self, number: int, body: Any) -> None:
        """Remembers what later steps refer to."""
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(metadata, dict):
            return
        for word, member in (("rv", "resourceVersion"), ("uid", "uid"), ("continue", "continue")):
            if metadata.get(member):
                self.values[f"{word}{number}"] = str(metadata[member])
        # That of a list depends on what other sequences write meanwhile.
        if "items" in body or "rows" in body:
            self.values[f"rv{number}"] = self.last_revision
        self.last_revision = self.values.get(f"rv{number}", self.last_revision)
        prefix, name = metadata.get("generateName"), metadata.get("name")
        if prefix and name and str(name).startswith(prefix) and len(name) > len(prefix):
            self.generated[name] = f"{prefix}<generated>"

    def learn_refused(self, sent: Any, body: Any) -> None:
        """Remembers the name that was generated for an object that was refused."""
        prefix, name = _member(sent, "metadata", "generateName"), _member(body, "details", "name")
        is_name = isinstance(prefix, str) and prefix and isinstance(name, str) and name.startswith(prefix)
        if is_name and len(name) == len(prefix) + 5:
            self.generated[name] = f"{prefix}<generated>"


def _member(tree: Any, *names: str) -> Any:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def decoded(answer: Answer) -> Any:
    """The body as data; text that is neither JSON nor YAML stays text."""
    if answer.events is not None:
        return {"events": list(answer.events)}
    text = answer.body.decode(errors="replace")
    kind = dict(answer.headers).get("content-type", "")
    try:
        return yaml.load(text, Loader=_Loader) if "yaml" in kind else json.loads(text)
    except (ValueError, yaml.YAMLError):
        return text.strip()


def normal_form(answer: Answer, body: Any, known: Known, *, has_body: bool = True) -> Any:
    """The answer without ids, times, revisions and allocated values; `has_body` is about the request."""
    headers = {name: [value for one, value in answer.headers if one == name] for name in HEADERS}
    found: dict[str, Any] = {"status": answer.status}
    for name, values in headers.items():
        if values:
            found[name] = _sorted_formats([_text(one, known) for one in values])
    if answer.status < 300 and b"\n  " in answer.body and answer.body.startswith(b"{"):
        found["pretty"] = True
    if body != "":
        found["body"] = _normal_body(body, known, has_body)
    return found


def _sorted_formats(values: list[str]) -> list[str]:
    """Warnings with those about formats sorted: upstream has one for each member of a schema, in no order."""
    formats = iter(sorted(one for one in values if "unrecognized format" in one))
    return [next(formats) if "unrecognized format" in one else one for one in values]


def _normal_body(body: Any, known: Known, has_body: bool) -> Any:
    if isinstance(body, dict) and body.get("kind") == "Status":
        body = _normal_status(body, has_body)
    elif isinstance(body, dict) and body.get("kind") == "Table":
        body = _normal_table(body)
    elif isinstance(body, dict) and "events" in body:
        body = {"events": [_normal_event(one) for one in body["events"]]}
    elif isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
        body = {name: value for name, value in body.items() if name != "status"}  # ours are established at once
    elif isinstance(body, dict) and body.get("kind") == "SelfSubjectRulesReview" and "status" in body:
        # In any order, and how often a rule is granted depends on the bindings.
        body = {**body, "status": {name: bool(value) for name, value in body["status"].items()}}
    return _normal(body, "", known)


def _normal_status(body: Any, has_body: bool) -> Any:
    found = {name: value for name, value in body.items() if name not in ("metadata", "details") or value}
    message = str(found.get("message"))
    if found.get("code") in (400, 415) and (has_body or "continue" in message):
        found.pop("message", None)  # how a body or a token cannot be read is said in the words of each server
    if (found.get("details") or {}).get("kind") == "CustomResourceDefinition":
        found["details"] = {**found["details"], "causes": _definition_causes(found["details"].get("causes") or [])}
    if "message" in found:
        words = "the server rejected our request due to an error in our request"
        if found.get("reason") != "Invalid":
            found["message"] = words if found["message"].startswith(words) else _shortened(found["message"])
        elif not found.get("details"):
            del found["message"]  # what is wrong with a JSON patch
    causes = (found.get("details") or {}).get("causes")
    if causes and found["details"].get("kind") == "StatefulSet":  # its claims become volumes in no order
        causes = [{**one, "field": _VOLUME.sub("volumes[]", one.get("field") or "")} for one in causes]
    if causes:
        # Members of maps have no order in Go, so causes below one are sorted.
        found["details"] = found["details"] | {
            "causes": sorted(
                ({**one, "message": _cause_message(one)} for one in causes),
                key=lambda one: json.dumps(one, sort_keys=True),
            )
        }
        if found.get("reason") == "Invalid":
            found["message"] = str(found["message"]).partition(" is invalid: ")[0]
    return found


def _definition_causes(causes: list[Any]) -> list[Any]:
    """What all versions of a definition have is of the first one, as in the conformance kit."""
    renamed = {"spec.validation.": "spec.versions[0].schema."}
    for name in ("subresources", "additionalPrinterColumns", "selectableFields"):
        renamed[f"spec.{name}"] = f"spec.versions[0].{name}"
    found: list[Any] = []
    for one in causes:
        field = one.get("field") or ""
        old = next((name for name in renamed if field.startswith(name)), None)
        new = field if old is None else renamed[old] + field.removeprefix(old)
        message = one.get("message", "").replace(field, new) if field else ""
        if old == "spec.validation.":
            message = message.replace(old, renamed[old])
        found.append({**one, "field": new, "message": message})
    return found


def _shortened(message: str) -> str:
    """A message without what Go shows of its values, without keys of a storage, and without one of many causes."""
    if re.match(r"failed to (create typed patch object|convert new object)", message):
        return "failed to create typed patch object"
    if message.startswith("unknown patch type") or "declared merge key" in message or "merge key" in message:
        return "unknown patch type"
    if "$patch" in message or message.startswith("list element types are not identical"):
        return "unknown patch type"
    message = re.sub(r"(duplicate nodePort: \{\w+) 3[0-2][0-9]{3}\}", r"\1 <port>}", message)
    return re.sub(r"Key: [^,]*", "Key: <key>", message)


def _cause_message(cause: Any) -> str:
    if cause.get("field") == "patch":
        return "Invalid value"  # how the result of a patch cannot be decoded
    message = _SELF.sub("selfType", normal_message(cause.get("message", "")))
    return re.sub(r"\b3[0-2][0-9]{3}\b", "<port>", message) if "nodePort" in cause.get("field", "") else message


def _normal_event(event: Any) -> Any:
    is_table = isinstance(event.get("object"), dict) and event["object"].get("kind") == "Table"
    return {**event, "object": _normal_table(event["object"])} if is_table else event


def _normal_table(body: Any) -> Any:
    columns = body.get("columnDefinitions") or []
    ages = {
        number for number, one in enumerate(columns) if one["name"] in ("Age", "Created At", "Last Seen", "First Seen")
    }
    rows = [
        {**row, "cells": ["<age>" if at in ages else cell for at, cell in enumerate(row["cells"])]}
        for row in body.get("rows") or ()
    ]
    return {**body, "columnDefinitions": [{**one, "description": ""} for one in columns], "rows": rows}


def _normal(value: Any, name: str, known: Known) -> Any:
    if isinstance(value, dict):
        items = [(key, one) for key, one in value.items() if (key, one) != ("uid", "admin")]
        return {_text(key, known): _normal(one, key, known) for key, one in items}
    if isinstance(value, list):
        found = [_normal(one, name, known) for one in value]
        return sorted(found, key=lambda one: json.dumps(one, sort_keys=True)) if name == "managedFields" else found
    if name == "resourceVersion" and value:
        return "<rv>" if str(value).isdigit() else value
    if name == "serverAddress":
        return "<address>"
    if name in ("continue", "token") and value:
        return f"<{name}>"
    # The ports of a dry run are those after the last one that may be allocated.
    if name in ("nodePort", "healthCheckNodePort") and isinstance(value, int) and 30000 <= value <= 32867:
        return "<port>"
    return _text(value, known) if isinstance(value, str) else value


def _text(text: str, known: Known) -> str:
    for name, shown in known.generated.items():
        text = text.replace(name, shown)
    for name, found in known.values.items():
        if name.startswith("uid") and len(found) > 8:
            text = text.replace(found, "<uid>")
    text = _UID.sub("<uid>", text.replace(known.id, "<id>"))
    text = _NODE_PORT.sub(":<port>/", _ADDRESS.sub("<ip>", _TIME.sub(_time, text)))
    return _VERSIONS.sub(r"\1 <version>", text)


def _time(found: re.Match[str]) -> str:
    now = datetime.now(UTC)
    near = {str((now + timedelta(days=days)).date()) for days in (-1, 0, 1)}
    return ("<micro time>" if found[2] else "<time>") if found[1] in near else found[0]


class Difference(NamedTuple):
    """A place at which two answers differ; a value that is not there is `<absent>`."""

    path: str
    theirs: Any
    ours: Any


def differences(theirs: Any, ours: Any, at: str = "") -> Iterator[Difference]:
    """What two normal forms differ in."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            path = f"{at}.{name}" if at else name
            yield from differences(theirs.get(name, "<absent>"), ours.get(name, "<absent>"), path)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{at}[{index}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield Difference(at, theirs, ours)


def signature(step: Any, theirs: Any, ours: Any) -> str:
    """What is the same for two differences of one root cause: the place and the two values, without their details."""
    words = (step.get("do") or f"WATCH {step['watch']}").split()
    verb = words[0] + (f"+{step['type']}" if words[0] == "PATCH" else "")
    if theirs.get("status") != ours.get("status"):
        return f"{_resource(words[1])} {verb} {theirs['status']} {_why(theirs)} / {ours['status']} {_why(ours)}"
    first = next(differences(theirs, ours))
    where = re.sub(r"\[[0-9]+\]", "[]", first.path)
    if ".causes" in first.path or theirs["status"] == 422:
        return f"{_resource(words[1])} {verb} 422 {_lost(theirs, ours)} / {_lost(ours, theirs)}"
    return f"{_resource(words[1])} {verb} {theirs['status']} {where} {_short(first.theirs)} / {_short(first.ours)}"


def _resource(path: str) -> str:
    parts = [one for one in path.partition("?")[0].split("/") if one]
    rest = parts[4:] if "namespaces" in parts and len(parts) > 4 else parts[2:]
    if parts[:1] == ["apis"]:
        rest = parts[5:] if len(parts) > 5 and parts[3] == "namespaces" else parts[3:]
    return "/".join([*rest[:1], *rest[2:]]) or path


def _why(answer: Any) -> str:
    body = answer.get("body")
    if not isinstance(body, dict):
        return _short(body)
    causes = (body.get("details") or {}).get("causes")
    if causes:
        return _cause(causes[0])
    return _generic(str(body.get("message", body.get("kind", ""))))


def _lost(one: Any, other: Any) -> str:
    """The first cause that one answer has and the other has not."""
    mine, others = (((each.get("body") or {}).get("details") or {}).get("causes") or [] for each in (one, other))
    found = next((cause for cause in mine if cause not in others), None)
    return "-" if found is None else _cause(found)


def _cause(cause: Any) -> str:
    where = re.sub(r"\[[^]]*\]", "[]", cause.get("field", ""))
    return f"{where}: {_generic(cause.get('message', ''))}"


def _generic(text: str) -> str:
    return re.sub(r'"(\\.|[^"\\])*"|[0-9]+', "_", text)[:160]


def _short(value: Any) -> str:
    return _generic(json.dumps(value))[:100]
