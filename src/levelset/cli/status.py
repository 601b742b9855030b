"""`levelset status`, `why KIND/NAME` and `trigger KIND/NAME`: clients of the admin API of running managers."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import click

from levelset.cli.live_view import Frame, every_option, show_live
from levelset.cli.output import (
    CommandFailed,
    UsageError,
    ago,
    mark,
    output_option,
    progress,
    reporting_errors,
    show_json,
    table_lines,
)
from levelset.cli.server_names import complete_namespaces, object_argument
from levelset.errors import Unreachable
from levelset.runtime.controller.reconcile_history import collapse_repeats
from levelset.runtime.manager.process_records import ProcessRecord, call_admin, find_records
from levelset.runtime.recording import read_recording, reconciles_in, status_of

__all__ = ["call_managers", "error_line", "status", "trigger", "why"]

F = TypeVar("F", bound=Callable[..., Any])

_GOOD: Final = frozenset({"done", "requeued", "gone"})
_FAILED: Final = frozenset({"failed", "timed_out", "gave_up"})
_LONG_TIME: Final = re.compile(r"\b([0-9]{3,}(?:\.[0-9]+)?) s$")
_COLUMNS: Final = {
    "CONTROLLER": "name",
    "KIND": "kind",
    "READY": "is_ready",
    "RUNNING": "running",
    "QUEUED": "ready",
    "DELAYED": "delayed",
    "RECONCILES": "reconciles",
    "FAILING": "failing",
}
"""The columns of the controllers, and where the admin API has them."""
_CUT_OFF_LAST: Final = ("CONTROLLER", "READY", "FAILING", "QUEUED", "RUNNING", "DELAYED", "RECONCILES", "KIND")
_WATCHED_COLUMNS: Final = {one: _COLUMNS[one] for one in _CUT_OFF_LAST}
"""On a screen, which may be narrow, what fails comes before what can be cut off."""


def _pid_option(function: F) -> F:
    return click.option("--pid", type=int, help="The process id of the manager, if several are running.")(function)


def _namespace_option(function: F) -> F:
    text = "The namespace of the object; by default all."
    return click.option("-n", "--namespace", shell_complete=complete_namespaces, help=text)(function)


def _from_option(function: F) -> F:
    return click.option("--from", "recording", metavar="FILE", help="Reads this recording, not running managers.")(
        function
    )


@click.command()
@_pid_option
@_from_option
@click.option("-w", "--watch", is_flag=True, help="Shows it again and again, what fails first, until q or Ctrl-C.")
@every_option
@output_option
def status(*, pid: int | None, recording: str | None, watch: bool, every: float, output: str) -> None:
    """Shows the controllers, queues, watches and last errors of the managers on this machine.

    OBJECTS are those in the cache now, EVENTS the changes of objects since the start with the listed ones, and LAST
    EVENT is when the API server last sent anything, which may be a bookmark. With --watch and --output json it prints a
    line of JSON each time.

    Example: levelset status --watch
    """
    if watch and recording is not None:
        raise UsageError("a recording does not change: leave out --watch, or --from")
    if watch:
        show_live(lambda: _status_now(pid, output), every=every, output=output)
        return
    if recording is None:
        found = call_managers(pid, "GET", "/status", output)
    else:
        with reporting_errors(), progress(f"reading {recording}", output=output):
            found = [status_of(read_recording(recording))]
    if output == "json":
        show_json(found)
        return
    for line in _lines_of_all(found):
        click.echo(line)


def _status_now(pid: int | None, output: str) -> Frame:
    found = call_managers(pid, "GET", "/status", output)
    return Frame(found, _lines_of_all(found, is_watched=True))


def _lines_of_all(found: Sequence[Mapping[str, Any]], *, is_watched: bool = False) -> list[str]:
    if is_watched:
        found = sorted(found, key=lambda one: not any(each["failing"] for each in one["controllers"]))
    blocks = [_status_lines(one, is_watched=is_watched) for one in found]
    return [line for number, block in enumerate(blocks) for line in ([""] if number else []) + block]


@click.command()
@object_argument()
@_namespace_option
@_pid_option
@_from_option
@output_option
def why(thing: str, namespace: str | None, pid: int | None, recording: str | None, output: str) -> None:
    """Shows the last reconciles of an object, with their times, reasons and results.

    Neighbouring reconciles that only polled, or failed with the same error, are one entry; --output json has each of
    them. Of several managers it asks those that reconcile the kind.

    Example: levelset why website/blog -n default
    """
    query = _query(thing, namespace)
    if recording is not None:
        _show_recorded(recording, thing, namespace, output)
        return
    answers = call_managers(pid, "GET", f"/why?{query}", output, is_one_enough=True)
    reconciles = [{**one, "pid": found["pid"]} for found in answers for one in found["reconciles"]]
    reconciles.sort(key=lambda one: (one["object"], one["at"]))
    if output == "json":
        show_json(reconciles)
        return
    if not reconciles and all(found.get("missing") for found in answers):
        raise CommandFailed("\n".join(_nearest(found["missing"] for found in answers)))
    if not reconciles:
        where = f" -n {namespace}" if namespace else ""
        raise CommandFailed(f"{thing} has not been reconciled; trigger it: levelset trigger {thing}{where}")
    is_shared = len({one["pid"] for one in reconciles}) > 1
    for one in collapse_repeats(reconciles):
        _show_reconcile(one, process=f" in process {one['pid']}" if is_shared else "")


def _show_recorded(recording: str, thing: str, namespace: str | None, output: str) -> None:
    kind, _, name = thing.partition("/")
    with reporting_errors(), progress(f"reading {recording}", output=output):
        found = reconciles_in(read_recording(recording), kind, name, namespace)
    if output == "json":
        show_json(found)
        return
    if not found:
        raise CommandFailed(
            f"{thing} was not reconciled in {recording}; levelset status --from {recording} shows what was"
        )
    for one in collapse_repeats(dict(one) for one in found):
        click.echo(f"at {one['at']:.3f} s, reconcile {one['number']}:")
        since = f"{one['first']:.3f} s" if one["times"] > 1 else ""
        _show_reconcile({**one, "at": one["time"], "first": since})


@click.command()
@object_argument()
@_namespace_option
@_pid_option
@output_option
def trigger(thing: str, namespace: str | None, pid: int | None, output: str) -> None:
    """Triggers a reconcile of an object in a running manager.

    Where replicas share the objects, only the one that owns it can. If its owner is not among the managers on this
    machine, the command fails and names it. Of several managers those get the request that reconcile the kind.

    Example: levelset trigger website/blog -n default
    """
    query = _query(thing, namespace)
    found = call_managers(pid, "POST", f"/trigger?{query}", output, is_one_enough=True)
    triggered = [name for one in found for name in one["triggered"]]
    elsewhere = [one for response in found for one in response["elsewhere"] if one["controller"] not in triggered]
    where = f" -n {namespace}" if namespace else ""
    if output == "json":
        show_json({"triggered": triggered, "elsewhere": elsewhere})
    elif triggered:
        click.echo(f"triggered {', '.join(triggered)}; see the result: levelset why {thing}{where}")
    if elsewhere:
        raise CommandFailed(_elsewhere(elsewhere[0], f"levelset trigger {thing}{where}"))


def _elsewhere(owner: Mapping[str, str], command: str) -> str:
    """Which member owns an object, and how to reach it: an identity that was not given begins with the host's name."""
    host = owner["identity"].partition("_")[0]
    return (
        f"{owner['controller']} reconciles it in another replica: member {owner['member']}, identity "
        f"{owner['identity']}. Run `{command}` on the machine of {host}; in a cluster: kubectl exec {host} -- {command}"
    )


def call_managers(
    pid: int | None, method: str, path: str, output: str, *, is_one_enough: bool = False
) -> Sequence[Any]:
    """The responses of the selected managers; on a terminal it shows which one it waits for.

    With `is_one_enough`, managers that do not know the object are left out, unless none does; of those that do not
    respond there is a line on stderr.
    """
    responses: list[Any] = []
    failures: list[CommandFailed] = []
    for record in _selected_managers(pid):
        try:
            with progress(f"waiting for the manager of process {record.pid}", output=output):
                responses.append(_call_manager(record, method, path))
        except CommandFailed as error:
            if not is_one_enough:
                raise
            failures.append(error)
    if not responses:
        raise CommandFailed("\n".join(_nearest(str(one) for one in failures)))
    for one in failures:
        if not isinstance(one, _NotKnown):
            click.echo(str(one), err=True)
    return responses


def _nearest(messages: Iterable[str]) -> list[str]:
    """Of what several managers say those that suggest another word, each suggestion once; or else all."""
    found = list(messages)
    questions = {one.rpartition(". ")[2]: one for one in found if one.endswith("?")}
    return list(questions.values()) or found


class _NotKnown(CommandFailed):
    """No controller of this manager reconciles the kind."""


def _selected_managers(pid: int | None) -> Sequence[ProcessRecord]:
    """The running managers of this user, or the one with this pid."""
    found = find_records()
    chosen = [one for one in found if pid in {None, one.pid}]
    if not found:
        raise CommandFailed("no manager is running on this machine; start one: levelset run module:controllers --local")
    if not chosen:
        raise UsageError(f"process {pid} is not a running manager; running: {', '.join(str(one.pid) for one in found)}")
    return chosen


def _call_manager(record: ProcessRecord, method: str, path: str) -> Any:
    try:
        status_code, body = call_admin(record, method, path)
    except Unreachable as error:
        raise CommandFailed(str(error)) from error
    if status_code != 200:
        message = str(body.get("error", body))
        raise _NotKnown(message) if status_code == 404 else CommandFailed(message)
    return body


def _query(thing: str, namespace: str | None) -> str:
    kind, slash, name = thing.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise UsageError(f"{thing!r} is not KIND/NAME; write for example website/blog")
    wanted = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
    return urlencode(wanted)


def _status_lines(found: Mapping[str, Any], *, is_watched: bool = False) -> list[str]:
    """The state of a manager; on a screen that is watched what fails comes first, and watches that are well are one."""
    members: Sequence[Mapping[str, Any]] = found.get("members") or ()
    role = ("member" if members else "leader") if found["is_leader"] else ("joining" if members else "standby")
    columns = _WATCHED_COLUMNS if is_watched else _COLUMNS
    controllers: Sequence[Mapping[str, Any]] = found["controllers"]
    if is_watched:
        controllers = sorted(controllers, key=lambda one: (not one["failing"], one["is_ready"], not one["reconciles"]))
    rows = [[one[column] for column in columns.values()] for one in controllers]
    errors = [error_line(error) for one in found["controllers"] for error in one["errors"]]
    first = [*errors, ""] if is_watched and errors else []
    lines = [f"process {found['pid']}, {role}", *first, *table_lines(tuple(columns), rows)]
    watches = [
        (one["name"], one["is_ready"], one["objects"], one["events"], _age(one["lag"]), one["error"])
        for one in found["watches"]
        if not is_watched or one["error"] or not one["is_ready"]
    ]
    if is_watched and (well := len(found["watches"]) - len(watches)):
        lines += ["", f"{well} {'watch is' if well == 1 else 'watches are'} synced"]
    if watches:
        lines += ["", *table_lines(("WATCH", "SYNCED", "OBJECTS", "EVENTS", "LAST EVENT", "ERROR"), watches)]
    if members:
        rows = [[one["name"], one["identity"], one["keys"], _member_state(one)] for one in members]
        shared = [[name, one["owned"], one["gained"], one["lost"]] for name, one in found["shards"].items()]
        lines += ["", *table_lines(("MEMBER", "IDENTITY", "OBJECTS", "STATE"), rows)]
        lines += ["", *table_lines(("SHARED", "OWNED", "GAINED", "LOST"), shared)]
    return lines if is_watched else lines + errors


def error_line(error: Mapping[str, Any]) -> str:
    """An error of a controller as a line, with the number of times that it was seen."""
    times = f"{error['count']} times; " if error.get("count", 1) > 1 else ""
    return f"{mark('fail')} {error['at']} {error['object']}: {error['error']} ({times}{_next(error)})"


def _next(reconcile: Mapping[str, Any]) -> str:
    """What happens after it, with a long time in the units that a person reads."""
    return _LONG_TIME.sub(lambda found: ago(float(found[1])), reconcile["next"])


def _member_state(member: Mapping[str, Any]) -> str:
    if member["is_me"]:
        return "this process"
    return "acknowledged" if member["is_acknowledged"] else "takes over"


def _show_reconcile(reconcile: Mapping[str, Any], *, process: str = "") -> None:
    result = reconcile["result"]
    word = mark("ok" if result in _GOOD else "fail" if result in _FAILED else "warn")
    repeats = "polls" if reconcile["is_poll"] and not reconcile["error"] else "times"
    times = f"{reconcile['times']} {repeats} since {reconcile['first']}, the last " if reconcile["times"] > 1 else ""
    click.echo(
        f"{word} {reconcile['at']} {reconcile['object']} by {reconcile['controller']}{process}: {times}"
        f"{result} in {reconcile['seconds'] * 1000:.1f} ms"
    )
    for reason in reconcile["reasons"]:
        click.echo(f"       because {reason}")
    if reconcile["error"]:
        click.echo(f"       {reconcile['error']}")
    click.echo(f"       then: {_next(reconcile)}")


def _age(seconds: float | None) -> str:
    return "never" if seconds is None else f"{ago(seconds)} ago"
