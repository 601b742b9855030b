"""Writes etcd's messages and services as data, taken from the service definition in etcd's Go module.

    python scripts/generate_etcd_messages.py FOLDER [TARGET]

FOLDER is the module `go.etcd.io/etcd/api/v3`, as `go mod download` unpacks it. It needs `grpcio-tools`, whose protoc
reads the definition. Only the calls in `CALLS` are written, with the messages that they need, without comments and
options. The same sources always give the same bytes.

The result is a `FileDescriptorSet` as JSON and not a generated Python module: such a module refuses versions of the
protobuf library that are older, or much newer, than the compiler that wrote it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

TARGET: Final = Path(__file__).parent.parent / "src" / "levelset" / "storage" / "data" / "etcd_messages.json"
ABOUT: Final = "From the service definition of etcd; Apache License 2.0; Copyright The etcd Authors."
CALLS: Final = {
    "KV": ("Range", "Txn", "Compact"),
    "Watch": ("Watch",),
    "Maintenance": ("Status",),
    "Auth": ("Authenticate",),
}
PARTS: Final = ("mvccpb/kv.proto", "authpb/auth.proto", "versionpb/version.proto", "etcdserverpb/rpc.proto")


def main(arguments: list[str]) -> int:
    """Writes the file; returns the exit code."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: scripts/generate_etcd_messages.py FOLDER [TARGET]\n")
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else TARGET
    files = _reduced(_compiled(Path(arguments[0])))
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"about": ABOUT, "file": files}, indent=1) + "\n", "utf-8")
    return 0


def _compiled(folder: Path) -> list[dict[str, Any]]:
    """The definition as file descriptors, in the JSON form of protobuf."""
    # Only this script needs them, and they have no types.
    descriptor_pb2: Any = import_module("google.protobuf.descriptor_pb2")
    json_format: Any = import_module("google.protobuf.json_format")

    with TemporaryDirectory() as work:
        for part in PARTS:
            place = Path(work, "etcd/api", part)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_without_gateway((folder / part).read_text("utf-8")), "utf-8")
        names = [f"etcd/api/{part}" for part in PARTS]
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{work}", f"-o{work}/out", *names]
        subprocess.run(command, check=True)
        found = descriptor_pb2.FileDescriptorSet.FromString(Path(work, "out").read_bytes())
    return list(json_format.MessageToDict(found)["file"])


def _without_gateway(text: str) -> str:
    """Drops the options of the HTTP gateway, whose definitions are not part of the module."""
    text = re.sub(r'^import "(?!etcd/|google/protobuf/).*$', "", text, flags=re.MULTILINE)
    while match := re.search(r"option \((?:google\.api|grpc\.gateway)[^)]*\) = \{", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: match.start()] + text[end:].removeprefix(";")
    return text


def _reduced(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files with the services in `CALLS` and the messages that these need."""
    messages = {
        f".{file['package']}.{message['name']}": message for file in files for message in file.get("messageType", ())
    }
    calls = [
        method
        for file in files
        for service in file.get("service", ())
        for method in service["method"]
        if method["name"] in CALLS.get(service["name"], ())
    ]
    needed: set[str] = set()
    waiting = [method[end] for method in calls for end in ("inputType", "outputType")]
    while waiting:
        name = waiting.pop()
        if name in needed or name not in messages:
            continue
        needed.add(name)
        waiting += _types(messages[name])
    reduced = [_file(file, needed) for file in files]
    return [file for file in reduced if file.get("messageType")]


def _types(message: dict[str, Any]) -> Iterator[str]:
    """The types of the fields of a message; a nested type brings the message that it is in."""
    for field in message.get("field", ()):
        if name := field.get("typeName"):
            yield name
            yield name.rpartition(".")[0]


def _file(file: dict[str, Any], needed: set[str]) -> dict[str, Any]:
    messages = [
        _plain(message) for message in file.get("messageType", ()) if f".{file['package']}.{message['name']}" in needed
    ]
    services = [
        {**service, "method": [_plain(one) for one in service["method"] if one["name"] in CALLS[service["name"]]]}
        for service in file.get("service", ())
        if service["name"] in CALLS
    ]
    return {
        "name": file["name"],
        "package": file["package"],
        "dependency": [name for name in file.get("dependency", ()) if name.endswith("kv.proto")],
        "messageType": messages,
        "service": services,
        "syntax": file["syntax"],
    }


def _plain(descriptor: dict[str, Any]) -> Any:
    """The descriptor without options and derived names, at all levels."""

    def plain(members: dict[str, Any]) -> dict[str, Any]:
        return {key: one for key, one in members.items() if key not in ("options", "jsonName")}

    return json.loads(json.dumps(descriptor), object_hook=plain)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
