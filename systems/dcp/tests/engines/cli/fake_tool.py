"""A fake of the command line tools `docker` and `podman`: stores its state in a directory, and runs real programs.

`FakeBench` installs it for a test. Files in its directory inject faults: `down` (no engine), `hang` and `flood` (with
the argument that makes it hang or print too much), `refuse-start` (with the message), and `drop`, which ends a stream
of events.
"""
# ruff: noqa: PTH103, PTH108

from __future__ import annotations

import os
import signal
import sys
import time

from systems.dcp.tests.engines.cli import fake_output as output
from systems.dcp.tests.engines.cli.fake_state import State, ToolError

__all__ = ["main"]


def main(dialect: str, folder: str, args: list[str]) -> int:
    state = State(folder, dialect)
    state.record_call(args)
    if args[:1] == ["supervise"]:
        from systems.dcp.tests.engines.cli.fake_supervisor import supervise  # noqa: PLC0415  (slow to import)

        return supervise(state, args[1])
    _misbehave(state, args)
    if args == ["--version"]:
        print("Docker version 28.2.2, build e6534b4" if dialect == "docker" else "podman version 4.3.1")
        return 0
    try:
        if state.has("down"):
            raise ToolError(output.error_message(dialect, "down", ""))
        return _dispatch(state, args)
    except ToolError as refused:
        print(refused, file=sys.stderr)
        return refused.code


def _misbehave(state: State, args: list[str]) -> None:
    if state.fault("hang") in args:
        time.sleep(60)
    if state.fault("flood") in args:
        while True:
            sys.stdout.write("x" * 1_000_000)


def _dispatch(state: State, args: list[str]) -> int:
    two = "_".join(args[:2])
    if two in COMMANDS:
        return COMMANDS[two](state, args[2:]) or 0
    return COMMANDS[args[0]](state, args[1:]) or 0


def split(args: list[str], flags: str = "") -> tuple[dict[str, list[str]], list[str]]:
    """The options with their values, and the remaining arguments; `flags` have no value."""
    options: dict[str, list[str]] = {}
    rest = list(args)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        key, has_value, value = rest.pop(0).partition("=")
        if not has_value and key not in flags.split():
            value = rest.pop(0)
        options.setdefault(key, []).append(value)
    return options, rest


def pairs(values: list[str]) -> dict[str, str]:
    """Variables; a name alone takes its value from the environment, as the real tools do."""
    return {one.partition("=")[0]: one.partition("=")[2] if "=" in one else os.environ[one] for one in values}


def create(state: State, args: list[str]) -> None:
    options, rest = split(args, "--tty --interactive")
    name = options.get("--name", [""])[0]
    image = rest[0]
    with state.locked():
        if name and state.find("containers", name):
            raise ToolError(output.error_message(state.dialect, "taken", name), 125)
        if image not in state.table("images"):
            raise ToolError(output.error_message(state.dialect, "no image", image), 125)
        network = state.get("networks", options.get("--network", [output.DEFAULT[state.dialect]])[0])
        key = state.new_id()
        made = {
            "id": key,
            "name": name or f"made-up-{time.monotonic_ns()}",
            "image": image,
            "status": "created",
            "created": output.now(),
            "args": [*options.get("--entrypoint", []), *rest[1:]],
            "env": pairs(options.get("--env", [])),
            "labels": pairs(options.get("--label", [])),
            "mounts": [dict(part.partition("=")[::2] for part in one.split(",")) for one in options.get("--mount", [])],
            "publish": options.get("--publish", []),
            "networks": {network["name"]: {"id": network["id"], "aliases": options.get("--network-alias", [])}},
        }
        state.put("containers", key, made)
    state.emit(output.container_event(state.dialect, made, "create"))
    print(key)


def start_shown(state: State, args: list[str]) -> int:
    """Starts a container, and shows its output until it has exited; input is not read."""
    _, (container,) = split(args, "--attach --interactive")
    begin(state, container)
    logs(state, ["--follow", container])
    return int(state.get("containers", container)["code"])


def start(state: State, args: list[str]) -> None:
    begin(state, args[0])
    print(args[0])


def begin(state: State, container: str) -> None:
    if state.has("refuse-start"):
        raise ToolError(state.fault("refuse-start"), 125)
    with state.locked():
        held = state.get("containers", container)
        if held["status"] != "running":
            held["ports"] = state.bind(held)
            state.update("containers", held["id"], status="running", started=output.now(), ports=held["ports"])
            state.spawn(held["id"])
    state.emit(output.container_event(state.dialect, held, "start"))
    state.wait_for(held["id"], lambda one: "pid" in one or one["status"] != "running")


def stop(state: State, args: list[str]) -> None:
    options, rest = split(args)
    held = state.get("containers", rest[0])
    if held["status"] == "running":
        os.kill(held["pid"], signal.SIGTERM)
        if not state.wait_for(held["id"], lambda one: one["status"] != "running", float(options["--time"][0])):
            os.kill(held["pid"], signal.SIGKILL)
            state.wait_for(held["id"], lambda one: one["status"] != "running", 60)
    print(rest[0])


def remove(state: State, args: list[str]) -> None:
    options, rest = split(args, "--volumes --force")
    held = state.find("containers", rest[0])
    if held is None and "--force" in options and state.dialect == "docker":
        print(output.error_message("docker", "containers", rest[0]), file=sys.stderr)  # with exit code 0
        return
    held = state.get("containers", rest[0])
    if held["status"] == "running":
        if "--force" not in options:
            raise ToolError(output.error_message(state.dialect, "running", held["id"]), 2)
        os.kill(held["pid"], signal.SIGKILL)
        state.wait_for(held["id"], lambda one: one["status"] != "running", 60)
    with state.locked():
        state.drop("containers", held["id"])
    state.emit(output.container_event(state.dialect, held, "destroy"))
    print(rest[0])


def inspect(kind: str):
    def run(state: State, args: list[str]) -> int:
        _, names = split(args)
        found = [state.find(kind, one) for one in names]
        texts = [getattr(output, kind)(state.dialect, one) for one in found if one]
        print("\n".join(output.as_json(one) for one in texts) if state.dialect == "docker" else output.as_json(texts))
        for name, one in zip(names, found, strict=True):
            if one is None:
                print(output.error_message(state.dialect, kind, name), file=sys.stderr)
        return 0 if all(found) else 125

    return run


def listed(kind: str):
    def run(state: State, args: list[str]) -> None:
        options, _ = split(args, "--all --no-trunc")
        wanted = [one.removeprefix("label=").partition("=")[::2] for one in options.get("--filter", [])]
        for one in state.table(kind).values():
            if all(one["labels"].get(key) == value for key, value in wanted):
                networks = ",".join(one["networks"]) if "Networks" in options["--format"][0] else ""
                print(one["id"], networks)

    return run


def execute(state: State, args: list[str]) -> int:
    options, rest = split(args)
    held = state.get("containers", rest[0])
    if held["status"] != "running":
        raise ToolError(output.error_message(state.dialect, "not running", held["id"]), 255)
    command = [
        state.path(held["id"] + one) if state.has(held["id"] + one) and one[:1] == "/" else one for one in rest[1:]
    ]
    try:
        os.execvpe(command[0], command, {**os.environ, **pairs(options.get("--env", []))})
    except FileNotFoundError:
        print(f'exec: "{command[0]}": executable file not found in $PATH', file=sys.stderr)
        return 127


def logs(state: State, args: list[str]) -> None:
    options, rest = split(args, "--follow --timestamps")
    held = state.get("containers", rest[0])
    tail, count = options.get("--tail"), 0
    while True:
        status = (state.find("containers", held["id"]) or {"status": "gone"})["status"]
        lines = state.log(held["id"])
        if tail and not count:
            count = max(0, len(lines) - int(tail[0]))
        for line in lines[count:]:
            origin, at, text = line.split(" ", 2)
            shown = f"{at} {text}" if "--timestamps" in options else text
            print(shown, file=sys.stdout if origin == "stdout" else sys.stderr, flush=True)
        count = len(lines)
        if "--follow" not in options or status != "running":
            return
        time.sleep(0.02)


def events(state: State, args: list[str]) -> int:
    options, _ = split(args)
    since, count = options["--since"][0], 0
    while not state.has("drop"):
        lines = state.events()
        for line in lines[count:]:
            at, _, text = line.partition(" ")
            if at >= since:
                print(text, flush=True)
        count = len(lines)
        time.sleep(0.02)
    os.unlink(state.path("drop"))
    return 1


def copy(state: State, args: list[str]) -> None:
    import tarfile  # noqa: PLC0415  (slow to import)

    name, _, folder = args[2].partition(":")
    held = state.get("containers", name)
    where = state.path(f"{held['id']}/{folder.strip('/')}")
    os.makedirs(where, exist_ok=True)
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
        tar.extractall(where, filter="data")


def create_network(state: State, args: list[str]) -> None:
    options, rest = split(args, "--ipv6")
    with state.locked():
        if state.find("networks", rest[0]):
            raise ToolError(output.error_message(state.dialect, "network taken", rest[0]), 125)
        state.add_network(rest[0], pairs(options.get("--label", [])), ipv6="--ipv6" in options)
    print(rest[0])


def remove_network(state: State, args: list[str]) -> None:
    with state.locked():
        held = state.get("networks", args[0])
        if any(held["name"] in one["networks"] for one in state.table("containers").values()):
            raise ToolError(output.error_message(state.dialect, "network used", held["name"]), 2)
        state.drop("networks", held["id"])
    print(args[0])


def connect(state: State, args: list[str]) -> None:
    options, (network, container) = split(args)
    with state.locked():
        net, held = state.get("networks", network), state.get("containers", container)
        if net["name"] in held["networks"]:
            raise ToolError(output.error_message(state.dialect, "connected", container), 125)
        there = {"id": net["id"], "aliases": options.get("--alias", [])}
        state.update("containers", held["id"], networks={**held["networks"], net["name"]: there})
    state.emit(output.network_event(state.dialect, net, held, "connect"))


def disconnect(state: State, args: list[str]) -> None:
    _, (network, container) = split(args, "--force")
    with state.locked():
        net, held = state.get("networks", network), state.get("containers", container)
        if held["networks"].pop(net["name"], None) is None:
            raise ToolError(output.error_message(state.dialect, "not connected", container), 125)
        state.update("containers", held["id"], networks=held["networks"])
    state.emit(output.network_event(state.dialect, net, held, "disconnect"))


def create_volume(state: State, args: list[str]) -> None:
    options, rest = split(args)
    with state.locked():
        if not state.find("volumes", rest[0]):
            made = {"id": rest[0], "name": rest[0], "labels": pairs(options.get("--label", []))}
            state.put("volumes", rest[0], made)
        elif state.dialect == "podman":
            raise ToolError(f"Error: volume with name {rest[0]} already exists: volume already exists", 125)
    print(rest[0])


def remove_volume(state: State, args: list[str]) -> None:
    with state.locked():
        held = state.get("volumes", args[0])
        for one in state.table("containers").values():
            if any(mount["source"] == held["name"] for mount in one["mounts"]):
                raise ToolError(output.error_message(state.dialect, "volume used", held["name"]), 2)
        state.drop("volumes", held["id"])
    print(args[0])


def build(state: State, args: list[str]) -> None:
    options, _ = split(args, "--pull")
    print("STEP 1/1: FROM scratch", file=sys.stderr)
    with state.locked():
        for tag in options["--tag"]:
            made = {"id": state.new_id(), "name": tag, "labels": pairs(options.get("--label", []))}
            state.put("images", tag, {**made, "args": pairs(options.get("--build-arg", []))})


def pull(state: State, args: list[str]) -> None:
    print(f"Pulling from {args[0]}")
    if "no-such" in args[0]:
        raise ToolError(output.error_message(state.dialect, "no image", args[0]), 125)
    with state.locked():
        state.put("images", args[0], {"id": state.new_id(), "name": args[0], "labels": {}})


COMMANDS = {
    "create": create,
    "container_start": start,
    "start": start_shown,
    "container_stop": stop,
    "container_rm": remove,
    "container_inspect": inspect("containers"),
    "ps": listed("containers"),
    "exec": execute,
    "logs": logs,
    "events": events,
    "cp": copy,
    "network_create": create_network,
    "network_rm": remove_network,
    "network_inspect": inspect("networks"),
    "network_ls": listed("networks"),
    "network_connect": connect,
    "network_disconnect": disconnect,
    "volume_create": create_volume,
    "volume_rm": remove_volume,
    "volume_inspect": inspect("volumes"),
    "volume_ls": listed("volumes"),
    "image_inspect": inspect("images"),
    "build": build,
    "pull": pull,
}
