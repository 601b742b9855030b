"""Pretends to be the command line tool `docker` or `podman`: keeps its state in a folder, and runs programs for real.

`FakeBench` makes such a program for a test. Files in its folder tell it to misbehave: `down` (no engine behind it),
`hang` and `flood` (with the word that it hangs or prints too much at), and `drop`, at which a stream of events ends.
"""
# ruff: noqa: PTH103, PTH108

from __future__ import annotations

import os
import signal
import sys
import time

from systems.dcp.tests import engine_fakeshapes as shapes
from systems.dcp.tests.engine_fakestate import Refused, State

__all__ = ["main"]


def main(dialect: str, folder: str, words: list[str]) -> int:
    state = State(folder, dialect)
    state.note(words)
    if words[:1] == ["supervise"]:
        from systems.dcp.tests.engine_fakerun import supervise  # noqa: PLC0415  (slow, for every other run)

        return supervise(state, words[1])
    _misbehave(state, words)
    if words == ["--version"]:
        print("Docker version 28.2.2, build e6534b4" if dialect == "docker" else "podman version 4.3.1")
        return 0
    try:
        if state.has("down"):
            raise Refused(shapes.say(dialect, "down", ""))
        return _dispatch(state, words)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return refused.code


def _misbehave(state: State, words: list[str]) -> None:
    if state.told("hang") in words:
        time.sleep(60)
    if state.told("flood") in words:
        while True:
            sys.stdout.write("x" * 1_000_000)


def _dispatch(state: State, words: list[str]) -> int:
    two = "_".join(words[:2])
    if two in COMMANDS:
        return COMMANDS[two](state, words[2:]) or 0
    return COMMANDS[words[0]](state, words[1:]) or 0


def split(words: list[str], flags: str = "") -> tuple[dict[str, list[str]], list[str]]:
    """The options with their values, and what follows them; `flags` have no value."""
    options: dict[str, list[str]] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        key, has_value, value = rest.pop(0).partition("=")
        if not has_value and key not in flags.split():
            value = rest.pop(0)
        options.setdefault(key, []).append(value)
    return options, rest


def pairs(values: list[str]) -> dict[str, str]:
    """Variables; a name alone takes its value from the environment, as the real tools do."""
    return {one.partition("=")[0]: one.partition("=")[2] if "=" in one else os.environ[one] for one in values}


def create(state: State, words: list[str]) -> None:
    options, rest = split(words, "--tty --interactive")
    name = options.get("--name", [""])[0]
    image = rest[0]
    with state.locked():
        if name and state.find("containers", name):
            raise Refused(shapes.say(state.dialect, "taken", name), 125)
        if image not in state.table("images"):
            raise Refused(shapes.say(state.dialect, "no image", image), 125)
        network = state.get("networks", options.get("--network", [shapes.DEFAULT[state.dialect]])[0])
        key = state.new_id()
        made = {
            "id": key,
            "name": name or f"made-up-{time.monotonic_ns()}",
            "image": image,
            "status": "created",
            "created": shapes.now(),
            "args": [*options.get("--entrypoint", []), *rest[1:]],
            "env": pairs(options.get("--env", [])),
            "labels": pairs(options.get("--label", [])),
            "mounts": [dict(part.partition("=")[::2] for part in one.split(",")) for one in options.get("--mount", [])],
            "publish": options.get("--publish", []),
            "networks": {network["name"]: {"id": network["id"], "aliases": options.get("--network-alias", [])}},
        }
        state.put("containers", key, made)
    state.tell(shapes.container_event(state.dialect, made, "create"))
    print(key)


def start(state: State, words: list[str]) -> None:
    with state.locked():
        held = state.get("containers", words[0])
        if held["status"] != "running":
            held["ports"] = state.bind(held)
            state.update("containers", held["id"], status="running", started=shapes.now(), ports=held["ports"])
            state.spawn(held["id"])
    state.tell(shapes.container_event(state.dialect, held, "start"))
    state.wait_for(held["id"], lambda one: "pid" in one or one["status"] != "running")
    print(words[0])


def stop(state: State, words: list[str]) -> None:
    options, rest = split(words)
    held = state.get("containers", rest[0])
    if held["status"] == "running":
        os.kill(held["pid"], signal.SIGTERM)
        if not state.wait_for(held["id"], lambda one: one["status"] != "running", float(options["--time"][0])):
            os.kill(held["pid"], signal.SIGKILL)
            state.wait_for(held["id"], lambda one: one["status"] != "running", 5)
    print(rest[0])


def remove(state: State, words: list[str]) -> None:
    options, rest = split(words, "--volumes --force")
    held = state.find("containers", rest[0])
    if held is None and "--force" in options and state.dialect == "docker":
        print(shapes.say("docker", "containers", rest[0]), file=sys.stderr)  # and all is well
        return
    held = state.get("containers", rest[0])
    if held["status"] == "running":
        if "--force" not in options:
            raise Refused(shapes.say(state.dialect, "running", held["id"]), 2)
        os.kill(held["pid"], signal.SIGKILL)
        state.wait_for(held["id"], lambda one: one["status"] != "running", 5)
    with state.locked():
        state.drop("containers", held["id"])
    state.tell(shapes.container_event(state.dialect, held, "destroy"))
    print(rest[0])


def inspect(kind: str):
    def run(state: State, words: list[str]) -> int:
        _, names = split(words)
        found = [state.find(kind, one) for one in names]
        texts = [getattr(shapes, kind)(state.dialect, one) for one in found if one]
        print("\n".join(shapes.as_json(one) for one in texts) if state.dialect == "docker" else shapes.as_json(texts))
        for name, one in zip(names, found, strict=True):
            if one is None:
                print(shapes.say(state.dialect, kind, name), file=sys.stderr)
        return 0 if all(found) else 125

    return run


def listed(kind: str):
    def run(state: State, words: list[str]) -> None:
        options, _ = split(words, "--all --no-trunc")
        wanted = [one.removeprefix("label=").partition("=")[::2] for one in options.get("--filter", [])]
        for one in state.table(kind).values():
            if all(one["labels"].get(key) == value for key, value in wanted):
                networks = ",".join(one["networks"]) if "Networks" in options["--format"][0] else ""
                print(one["id"], networks)

    return run


def execute(state: State, words: list[str]) -> int:
    options, rest = split(words)
    held = state.get("containers", rest[0])
    if held["status"] != "running":
        raise Refused(shapes.say(state.dialect, "not running", held["id"]), 255)
    command = [
        state.path(held["id"] + one) if state.has(held["id"] + one) and one[:1] == "/" else one for one in rest[1:]
    ]
    try:
        os.execvpe(command[0], command, {**os.environ, **pairs(options.get("--env", []))})
    except FileNotFoundError:
        print(f'exec: "{command[0]}": executable file not found in $PATH', file=sys.stderr)
        return 127


def logs(state: State, words: list[str]) -> None:
    options, rest = split(words, "--follow --timestamps")
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


def events(state: State, words: list[str]) -> int:
    options, _ = split(words)
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


def copy(state: State, words: list[str]) -> None:
    import tarfile  # noqa: PLC0415  (slow to import, for every other run)

    name, _, folder = words[2].partition(":")
    held = state.get("containers", name)
    where = state.path(f"{held['id']}/{folder.strip('/')}")
    os.makedirs(where, exist_ok=True)
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
        tar.extractall(where, filter="data")


def create_network(state: State, words: list[str]) -> None:
    options, rest = split(words, "--ipv6")
    with state.locked():
        if state.find("networks", rest[0]):
            raise Refused(shapes.say(state.dialect, "network taken", rest[0]), 125)
        state.add_network(rest[0], pairs(options.get("--label", [])), ipv6="--ipv6" in options)
    print(rest[0])


def remove_network(state: State, words: list[str]) -> None:
    with state.locked():
        held = state.get("networks", words[0])
        if any(held["name"] in one["networks"] for one in state.table("containers").values()):
            raise Refused(shapes.say(state.dialect, "network used", held["name"]), 2)
        state.drop("networks", held["id"])
    print(words[0])


def connect(state: State, words: list[str]) -> None:
    options, (network, container) = split(words)
    with state.locked():
        net, held = state.get("networks", network), state.get("containers", container)
        if net["name"] in held["networks"]:
            raise Refused(shapes.say(state.dialect, "connected", container), 125)
        there = {"id": net["id"], "aliases": options.get("--alias", [])}
        state.update("containers", held["id"], networks={**held["networks"], net["name"]: there})
    state.tell(shapes.network_event(state.dialect, net, held, "connect"))


def disconnect(state: State, words: list[str]) -> None:
    _, (network, container) = split(words, "--force")
    with state.locked():
        net, held = state.get("networks", network), state.get("containers", container)
        if held["networks"].pop(net["name"], None) is None:
            raise Refused(shapes.say(state.dialect, "not connected", container), 125)
        state.update("containers", held["id"], networks=held["networks"])
    state.tell(shapes.network_event(state.dialect, net, held, "disconnect"))


def create_volume(state: State, words: list[str]) -> None:
    options, rest = split(words)
    with state.locked():
        if not state.find("volumes", rest[0]):
            made = {"id": rest[0], "name": rest[0], "labels": pairs(options.get("--label", []))}
            state.put("volumes", rest[0], made)
        elif state.dialect == "podman":
            raise Refused(f"Error: volume with name {rest[0]} already exists: volume already exists", 125)
    print(rest[0])


def remove_volume(state: State, words: list[str]) -> None:
    with state.locked():
        held = state.get("volumes", words[0])
        for one in state.table("containers").values():
            if any(mount["source"] == held["name"] for mount in one["mounts"]):
                raise Refused(shapes.say(state.dialect, "volume used", held["name"]), 2)
        state.drop("volumes", held["id"])
    print(words[0])


def build(state: State, words: list[str]) -> None:
    options, _ = split(words, "--pull")
    print("STEP 1/1: FROM scratch", file=sys.stderr)
    with state.locked():
        for tag in options["--tag"]:
            made = {"id": state.new_id(), "name": tag, "labels": pairs(options.get("--label", []))}
            state.put("images", tag, {**made, "args": pairs(options.get("--build-arg", []))})


def pull(state: State, words: list[str]) -> None:
    print(f"Pulling from {words[0]}")
    if "no-such" in words[0]:
        raise Refused(shapes.say(state.dialect, "no image", words[0]), 125)
    with state.locked():
        state.put("images", words[0], {"id": state.new_id(), "name": words[0], "labels": {}})


COMMANDS = {
    "create": create,
    "container_start": start,
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
    "image_inspect": inspect("images"),
    "build": build,
    "pull": pull,
}
