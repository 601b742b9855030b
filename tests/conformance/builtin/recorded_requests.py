"""Single requests and what kube-apiserver answers to them: how formats are negotiated, and how selectors are read.

`requests/TOPIC.yaml` has the requests, `answers/requests/TOPIC.json` what kube-apiserver 1.36.4 answered
(`make record-builtin`). A file has the objects that are created first, and groups of requests:

    setup: [[/api/v1/namespaces/default/configmaps, {metadata: {name: a}}]]
    requests:
      label selectors:
        lines: [GET /api/v1/pods?labelSelector=VALUE, 'POST /api/v1/... {"spec":{}}']
        values: ["a b", "a in ("]
        accepts: ["", application/yaml]

Each line is sent once for each value, which replaces VALUE in the encoding of a URL, and for each Accept header (the
empty one is not sent; without `accepts` it is application/json). LIST stands for the lists of all built-in kinds.

An answer has the code, the type and form of the body, all of a Status, and the kind of anything else. The file of
answers has each of them once, with the requests that got it.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from tests.conformance.builtin import recorded_resources

__all__ = ["TOPICS", "Reply", "Request", "answer", "answers", "answers_file", "load", "setup"]

FOLDER = Path(__file__).parent
TOPICS = tuple(sorted(one.stem for one in (FOLDER / "requests").glob("*.yaml")))


class Request(NamedTuple):
    """A request as it is sent; None for the Accept header means that there is none."""

    method: str
    path: str
    body: Any
    accept: str | None

    @property
    def key(self) -> str:
        """What the file of answers names it by."""
        body = "" if self.body is None else f" {json.dumps(self.body, separators=(',', ':'))}"
        return f"{self.method} {self.path}{body}" + ("" if self.accept == "application/json" else f" | {self.accept}")

    @property
    def media(self) -> str:
        """The media type of the body."""
        return "application/merge-patch+json" if self.method == "PATCH" else "application/json"

    @property
    def is_watch(self) -> bool:
        """Whether a successful answer has no end."""
        return "watch=" in self.path or "/watch/" in self.path


class Reply(NamedTuple):
    """What a server sent; the body of a watch that began is left out."""

    code: int
    media: str | None
    body: bytes


@cache
def _file(topic: str) -> Any:
    return yaml.safe_load((FOLDER / "requests" / f"{topic}.yaml").read_text())


def setup(topic: str) -> list[tuple[str, Any]]:
    """The objects that are created before the requests: the paths of their lists, and the objects."""
    return [(path, tree) for path, tree in _file(topic)["setup"]]


@cache
def load(topic: str) -> tuple[Request, ...]:
    """The requests of a topic, each once."""
    return tuple({one.key: one for group in _file(topic)["requests"].values() for one in _requests(group)}.values())


@cache
def answers(topic: str) -> dict[str, Any]:
    """The recorded answers of a topic, by the keys of the requests."""
    return {key: found for found, keys in json.loads(answers_file(topic).read_text()) for key in keys}


def answers_file(topic: str) -> Path:
    """The file of a topic's answers."""
    return FOLDER / "answers" / "requests" / f"{topic}.json"


def answer(request: Request, reply: Reply) -> Any:
    """What is compared of a reply."""
    found: dict[str, Any] = {"code": reply.code, "type": reply.media}
    if request.is_watch and reply.code == 200:
        return found
    text = reply.body.decode(errors="replace")
    if "yaml" in (reply.media or ""):
        tree = yaml.safe_load(text)
    else:
        try:
            tree = json.loads(text)
        except ValueError:
            return found if reply.code < 300 else found | {"text": text}
        found["form"] = "indented" if text.startswith("{\n  ") else "compact"
        found["form"] += " line" if text.endswith("\n") else ""
    if isinstance(tree, dict) and tree.get("kind") == "Status" and reply.code >= 400:
        return found | {"status": {name: value for name, value in tree.items() if name not in ("kind", "apiVersion")}}
    return found | {"kind": tree.get("kind")} if isinstance(tree, dict) else found


def _requests(group: Any) -> Iterator[Request]:
    for line in group["lines"]:
        for path in _list_paths() if " LIST" in line else [""]:
            method, url, *rest = line.replace("LIST", path).split(" ", 2)
            body = json.loads(rest[0]) if rest else None
            for value in group.get("values", [""]):
                for accept in group.get("accepts", ["application/json"]):
                    yield Request(method, url.replace("VALUE", quote(value, safe="")), body, accept or None)


def _list_paths() -> list[str]:
    return [
        f"{group}/{name}"
        for group, resources in recorded_resources.recorded().items()
        for name, one in resources.items()
        if "list" in one["verbs"]
    ]
