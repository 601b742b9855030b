"""SECURITY.md: every promise names a test that exists, and its bounds are those of the code."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from levelset.apiserver import app, audit_log, routes, server
from levelset.apiserver.authz import access_reviews, escalation
from levelset.apiserver.expressions import match_conditions
from levelset.apiserver.registry import storage_codec
from levelset.apiserver.request_limits import UserLimits
from levelset.apiserver.schema import structural_schema
from levelset.apiserver.verbs import commit, patch
from levelset.apiserver.wire import large_bodies, status_errors, step_limits
from levelset.cel.program import CALL_LIMIT, OBJECT_LIMIT
from levelset.http import websocket
from levelset.http.limits import Limits
from levelset.objects import yaml_codec
from levelset.patch import json_patch
from tests.project.files import ROOT

PROMISES = re.compile(r"## (What counts|What .* guarantees?)$")
REFERENCE = re.compile(r"`((?:tests|systems)/[\w/]+\.py|test_\w+)`")
NOT_PROMISED = ("Anyone with the address", "**What is not promised.**", "levelset has no TLS", "A program that imports")


@cache
def text() -> str:
    return (ROOT / "SECURITY.md").read_text(encoding="utf-8")


@cache
def names_of_tests() -> frozenset[str]:
    files = [*Path(ROOT, "tests").rglob("test_*.py"), *Path(ROOT, "systems").rglob("tests/**/test_*.py")]
    return frozenset(name for one in files for name in re.findall(r"def (test_\w+)", one.read_text(encoding="utf-8")))


def promises() -> Iterator[str]:
    """The paragraphs, list items and rows of tables in the sections of promises."""
    is_promise = False
    for block in re.split(r"\n\n+", text()):
        if block.startswith("## "):
            is_promise = PROMISES.match(block) is not None
        elif is_promise and not block.startswith(NOT_PROMISED):
            parts = re.split(r"\n(?=- )", block)
            yield from (block.splitlines()[2:] if block.startswith("|") else parts)


def test_every_promise_names_a_test() -> None:
    found = list(promises())
    assert len(found) > 35
    assert [one for one in found if REFERENCE.search(one) is None] == []


def test_all_sections_of_promises_are_read() -> None:
    sections = re.findall(r"^## .*", text(), re.MULTILINE)
    others = {"## Reporting", "## Supported versions"}
    assert {one for one in sections if PROMISES.match(one) is None} == others


def test_every_test_that_is_named_exists() -> None:
    named = REFERENCE.findall(text())
    assert [one for one in named if one not in names_of_tests() and not is_file_of_tests(ROOT / one)] == []


def is_file_of_tests(path: Path) -> bool:
    return (
        path.is_file() and re.search(r"^(async )?def test_", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    )


def test_the_bounds_in_the_table_are_those_of_the_code() -> None:
    table = text().partition("| What | Bound |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = {cells[1].strip(): cells[2].strip() for cells in (one.split("|") for one in table)}
    assert rows == {**bounds_of_requests(), **bounds_of_objects()}


def bounds_of_requests() -> dict[str, str]:
    http, users = Limits(), UserLimits()
    assert http.body_bytes == app.MAX_BODY_BYTES
    return {
        "target, headers, their number": f"{kib(http.target_bytes)}, {kib(http.head_bytes)}, {http.header_count}",
        "body": mib(http.body_bytes),
        "bodies in flight of all clients, of one user or address": f"{mib(http.bodies_bytes)}, "
        f"{mib(http.client_bodies_bytes)}",
        "body of a review or a token request, which any user may send": kib(access_reviews.MAX_REVIEW_BYTES),
        "headers or body that do not arrive": f"{http.head_within:.0f} s, {http.body_within:.0f} s",
        "connections": number(http.connections),
        "requests of all users, of one, open watches of one (with `rbac`)": f"{users.in_flight}, {users.per_user}, "
        f"{users.watches_per_user}",
        "a response of which a client reads nothing": f"{http.stall_within:.0f} to {2 * http.stall_within:.0f} s",
        "requests of the owner that wait (without `rbac`)": f"{server._IN_FLIGHT}",
        "annotations of one request in the audit log, each": f"{audit_log._MAX_ANNOTATIONS}, "
        f"{kib(audit_log._MAX_ANNOTATION_LENGTH)}",
        "operations of a JSON patch, what it may copy": f"{number(patch.MAX_OPERATIONS)}, "
        f"{mib(json_patch.COPY_SIZE_LIMIT)}",
        "rules in a role that is not written by a member of `system:masters`": f"{escalation.MAX_PERMISSIONS} "
        "combinations",
    }


def bounds_of_objects() -> dict[str, str]:
    steps = f"{step_limits.REQUEST_STEPS // 10**6} million"
    values = f"{number(large_bodies.MAX_YAML_NODES)}, {number(yaml_codec._MAX_REPEATED)}"
    costs = [f"{one / 10**6:g}" for one in (CALL_LIMIT, OBJECT_LIMIT, match_conditions.COST_LIMIT)]
    return {
        "steps of compiling, patterns and rules of one write": f"{steps}, about 2 s, in a thread",
        "estimated steps of a pattern in a definition": f"{steps} for a value of "
        f"{kib(structural_schema.MAX_ESTIMATED_LENGTH)} or `maxLength`",
        "an object in the store": mib(commit.MAX_OBJECT_BYTES),
        "message, control frame of a WebSocket": f"{kib(websocket._MAX_MESSAGE)}, {websocket._MAX_CONTROL} bytes",
        "nesting of objects": f"{storage_codec._MAX_DEPTH} levels",
        "values in a body of YAML, and in what its aliases stand for": values,
        "values in a body of JSON or protobuf": number(large_bodies.MAX_JSON_VALUES),
        f"values in a Service of more than {kib(step_limits.LARGE_OBJECT)}": number(large_bodies.MAX_LOOP_VALUES),
        "warnings of one response, each": f"{routes._MAX_WARNINGS}, {routes._MAX_WARNING} characters",
        "errors of one object that are listed one by one": f"{status_errors.MAX_CAUSES}",
        "steps of one expression, of a policy for one write, of all its conditions": f"{costs[0]}, {costs[1]} "
        f"and {costs[2]} million",
    }


def kib(size: int) -> str:
    return f"{size // 1024} KiB"


def mib(size: int) -> str:
    return f"{size // 1024**2} MiB"


def number(count: int) -> str:
    return f"{count:,}".replace(",", " ")
