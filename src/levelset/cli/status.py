"""The commands that ask a running manager: `status`, `why KIND/NAME` and `trigger KIND/NAME`."""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import click

from levelset.cli.output import Failed, Refused, ago, mark, output_option, show_json, show_table, working
from levelset.runtime.manager.process_records import Record, find_records

__all__ = ["status", "trigger", "why"]

F = TypeVar("F", bound=Callable[..., Any])

_PATIENCE: Final = 10.0
_GOOD: Final = frozenset({"done", "requeued", "gone"})


def _pid_option(function: F) -> F:
    return click.option("--pid", type=int, help="The process to ask, if several run.")(function)


def _namespace_option(function: F) -> F:
    return click.option("-n", "--namespace", help="Its namespace; any, if none is named.")(function)


@click.command()
@_pid_option
@output_option
def status(pid: int | None, output: str) -> None:
    """Shows the controllers, queues, watches and last errors of what runs here.

    Example: levelset status
    """
    found = _ask_all(pid, "GET", "/status", output)
    if output == "json":
        show_json(found)
        return
    for number, one in enumerate(found):
        if number:
            click.echo()
        _show_status(one)


@click.command()
@click.argument("thing", metavar="KIND/NAME")
@_namespace_option
@_pid_option
@output_option
def why(thing: str, namespace: str | None, pid: int | None, output: str) -> None:
    """Shows the last looks at an object: why it was looked at, and what came of it.

    Example: levelset why website/blog -n default
    """
    query = _query(thing, namespace)
    looks = [look for one in _ask_all(pid, "GET", f"/why?{query}", output) for look in one["looks"]]
    if output == "json":
        show_json(looks)
        return
    if not looks:
        where = f" -n {namespace}" if namespace else ""
        raise Failed(f"{thing} has not been looked at; `levelset trigger {thing}{where}` asks for it")
    for look in looks:
        _show_look(look)


@click.command()
@click.argument("thing", metavar="KIND/NAME")
@_namespace_option
@_pid_option
@output_option
def trigger(thing: str, namespace: str | None, pid: int | None, output: str) -> None:
    """Has a running controller look at an object now.

    Example: levelset trigger website/blog -n default
    """
    query = _query(thing, namespace or "default")
    asked = [name for one in _ask_all(pid, "POST", f"/trigger?{query}", output) for name in one["asked"]]
    if output == "json":
        show_json({"asked": asked})
    else:
        where = f" -n {namespace}" if namespace else ""
        click.echo(f"asked {', '.join(asked)}; see what came of it: levelset why {thing}{where}")


def _ask_all(pid: int | None, method: str, path: str, output: str) -> Sequence[Any]:
    """What the managers answer; on a terminal it says whom it waits for."""
    answers: list[Any] = []
    for one in _chosen(pid):
        with working(f"waits for the manager of process {one.pid}", output=output):
            answers.append(_ask(one, method, path))
    return answers


def _chosen(pid: int | None) -> Sequence[Record]:
    """The managers to ask: all that run, or the one that was named."""
    found = find_records()
    chosen = [one for one in found if pid in {None, one.pid}]
    if not found:
        raise Failed("no manager of yours runs on this machine; start one: levelset run module:controllers --local")
    if not chosen:
        raise Refused(f"process {pid} is no manager of yours; there is {', '.join(str(one.pid) for one in found)}")
    return chosen


def _ask(record: Record, method: str, path: str) -> Any:
    parts = urlsplit(record.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {record.token}"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Failed(f"the manager of process {record.pid} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Failed(str(body.get("error", body)))
    return body


def _query(thing: str, namespace: str | None) -> str:
    kind, slash, name = thing.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise Refused(f"{thing!r} is no KIND/NAME; write for example website/blog")
    wanted = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
    return urlencode(wanted)


def _show_status(found: Mapping[str, Any]) -> None:
    click.echo(f"process {found['pid']}, {'leads' if found['leads'] else 'waits to lead'}")
    columns = ("name", "kind", "is_ready", "running", "ready", "delayed", "looks", "failing")
    rows = [[one[column] for column in columns] for one in found["controllers"]]
    show_table(("CONTROLLER", "KIND", "READY", "RUNNING", "DUE", "LATER", "LOOKS", "FAILING"), rows)
    watches = [
        (one["name"], one["is_ready"], one["objects"], one["events"], _age(one["lag"]), one["trouble"])
        for one in found["watches"]
    ]
    if watches:
        click.echo()
        show_table(("WATCH", "SYNCED", "OBJECTS", "EVENTS", "HEARD OF", "TROUBLE"), watches)
    errors = [error for one in found["controllers"] for error in one["errors"]]
    for error in errors:
        click.echo(f"{mark('fail')} {error['object']}: {error['error']} ({error['next']})")


def _show_look(look: Mapping[str, Any]) -> None:
    word = mark("ok" if look["result"] in _GOOD else "fail" if look["error"] else "warn")
    click.echo(f"{word} {look['object']} by {look['controller']}: {look['result']} in {look['seconds'] * 1000:.1f} ms")
    for reason in look["reasons"]:
        click.echo(f"       because {reason}")
    if look["error"]:
        click.echo(f"       {look['error']}")
    click.echo(f"       then: {look['next']}")


def _age(seconds: float | None) -> str:
    return "never" if seconds is None else f"{ago(seconds)} ago"
