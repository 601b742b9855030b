"""Plays the corpus on a server, and what is recorded of the answers: facts, and nothing of the files of others.

A definition is created as a dry run as it is, and then for good without its conversion webhook, which is not served. A
sample is created as a dry run twice: as JSON, and as the Table that kubectl prints.
"""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple

from tests.corpus.collection import NAMESPACE, Corpus, Sample
from tests.differential.normal_form import Answer, Known, decoded, normal_form
from tests.differential.servers import Server

__all__ = ["Fact", "Played", "fact_of", "play", "prepare"]

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PATIENCE: Final = 60.0
_LONGEST: Final = 200
_LAST_PORT: Final = 32767
_AGE: Final = re.compile(r"[0-9]+(s|ms|m[0-9]*s?)")

Fact = list[Any]
"""`[201, hash of the body, hash of the table, warnings ...]` or `[code, hash, reason, causes ...]`."""


class Played(NamedTuple):
    """The answers to one definition or sample, by the name of its fact; `body` is what was answered to JSON."""

    source: str
    key: str
    fact: Fact
    forms: list[Any]
    sample: Sample | None = None
    body: Any = None


async def prepare(server: Server) -> None:
    """Creates the namespace of the samples."""
    await _send(server, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})


async def play(server: Server, corpus: Corpus) -> AsyncGenerator[Played]:
    """Creates all definitions, then all samples; yields the answers to each."""
    installed: list[dict[str, Any]] = []
    for name, (source, body) in corpus.definitions.items():
        form, _ = await _try(server, _DEFINITIONS, body)
        yield Played(source, f"definition {name}", fact_of([form]), [form])
        plain = {**body, "spec": {key: value for key, value in body["spec"].items() if key != "conversion"}}
        if (await _send(server, _DEFINITIONS, plain)).status == 201:
            installed.append(plain)
    for one in installed:
        await _wait_served(server, one)
    for sample in corpus.samples:
        form, answer = await _try(server, sample.resource.path, sample.body)
        forms = [form]
        if answer.status == 201:
            forms.append((await _try(server, sample.resource.path, sample.body, _TABLE))[0])
        yield Played(sample.source, sample.where, fact_of(forms), forms, sample, decoded(answer))


async def _try(server: Server, path: str, body: Any, accept: str = "application/json") -> tuple[Any, Answer]:
    answer = await _send(server, f"{path}?dryRun=All", body, accept)
    known, tree = Known("no-id-of-a-run"), decoded(answer)
    rows: list[Any] = (tree.get("rows") or []) if isinstance(tree, dict) else []
    for one in (tree, *(row.get("object") for row in rows)):
        known.learn(0, one)
    form = normal_form(answer, _without_allocated(tree), known)
    if path == _DEFINITIONS and "warning" in form:
        form["warning"].sort()  # one for each member of a schema, and members have no order in Go
    return form, answer


def _without_allocated(tree: Any) -> Any:
    """The answer without ages in columns of any name, and without ports that a dry run gives out above the range."""
    if isinstance(tree, dict) and tree.get("kind") == "Table":
        dates = {at for at, one in enumerate(tree["columnDefinitions"]) if one["type"] == "date"}
        for row in tree.get("rows") or ():
            row["cells"] = [
                "<age>" if at in dates and _AGE.fullmatch(str(one)) else one for at, one in enumerate(row["cells"])
            ]
    if isinstance(tree, dict) and tree.get("kind") == "Service":
        spec = tree.get("spec") or {}
        for place in (spec, *(spec.get("ports") or ())):
            for name in ("nodePort", "healthCheckNodePort"):
                if place.get(name, 0) > _LAST_PORT:
                    place[name] = _LAST_PORT
    return tree


async def _send(server: Server, path: str, body: Any, accept: str = "application/json") -> Answer:
    headers = {"user-agent": "corpus", "content-type": "application/json", "accept": accept}
    return await server.send("POST", path, headers, json.dumps(body).encode())


async def _wait_served(server: Server, definition: dict[str, Any]) -> None:
    """Waits until the versions of a definition are served; one whose names are taken never is."""
    spec = definition["spec"]
    deadline = time.monotonic() + _PATIENCE
    for version in spec["versions"]:
        path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}?limit=1"
        while version.get("served") and (await server.send("GET", path, {}, b"")).status != 200:
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0.1)


def fact_of(forms: list[Any]) -> Fact:
    """What is recorded of the normal forms of one object's answers."""
    first = forms[0]
    body = first.get("body")
    warnings = first.get("warning", [])
    if first["status"] < 300:
        return [first["status"], *map(_digest, forms), *(one[:_LONGEST] for one in warnings)]
    status = body if isinstance(body, dict) else {}
    causes = (status.get("details") or {}).get("causes") or []
    shown = [f"{one.get('field')}: {one.get('message')}"[:_LONGEST] for one in causes]
    return [
        first["status"],
        _digest(first),
        status.get("reason", ""),
        *(shown or [str(status.get("message"))[:_LONGEST]]),
    ]


def _digest(form: Any) -> str:
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()[:12]
