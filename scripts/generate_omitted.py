"""Writes which members of the built-in types Go leaves out when they are empty, and which it always writes.

    python scripts/generate_omitted.py MODULES [TARGET]

MODULES holds the Go modules k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator, as the module cache
has them (`.../pkg/mod/k8s.io`). OpenAPI documents do not tell a pointer, whose zero is written, from a plain value. The
same modules always give the same bytes.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

TARGET = Path(__file__).parent.parent / "src" / "levelset" / "apiserver" / "data" / "omitted.json"
_PACKAGES: Final = {
    "api": "io.k8s.api",
    "apimachinery": "io.k8s.apimachinery",
    "apiextensions-apiserver": "io.k8s.apiextensions-apiserver",
    "kube-aggregator": "io.k8s.kube-aggregator",
}
_VERSION: Final = "v0.36.4"
_TYPE = re.compile(r"^type (\w+) (.*?)( \{)?$")
_MEMBER = re.compile(r"^\t(?:(\w+)\s+)?([^\s/].*?)\s+`.*json:\"([^\"]*)\"")
_STRUCTS: Final = frozenset(
    {
        "metav1.Time",
        "metav1.MicroTime",
        "metav1.Duration",
        "intstr.IntOrString",
        "resource.Quantity",
        "runtime.RawExtension",
    }
)


class Member(NamedTuple):
    """A member of a struct: the name in JSON (empty: the members of an embedded type), its Go type and its flags."""

    name: str
    type: str
    flags: str


class Module(NamedTuple):
    """The types of a package: the members of structs, and what other types are."""

    structs: dict[str, list[Member]]
    others: dict[str, str]


def main(arguments: list[str]) -> int:
    """Reads the modules, and writes the file."""
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    packages: dict[str, Module] = {}
    for module, prefix in _PACKAGES.items():
        root = Path(arguments[0]) / f"{module}@{_VERSION}"
        for folder in sorted({path.parent for path in root.rglob("types*.go")}):
            package = folder.relative_to(root).as_posix().replace("/", ".")
            text = "\n".join(one.read_text() for one in sorted(folder.glob("*types*.go")))
            packages[f"{prefix}.{package}"] = _parse(text)
    everywhere = {name for one in packages.values() for name in one.structs}
    found = {
        f"{package}.{name}": rows
        for package, parsed in packages.items()
        for name in parsed.structs
        if any(rows := _rows(name, parsed, everywhere))
    }
    target = Path(arguments[1]) if len(arguments) == 2 else TARGET
    known = _known()
    lines = [
        f"{json.dumps(name)}:{json.dumps(found[name], separators=(',', ':'))}"
        for name in sorted(found)
        if name in known
    ]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} types")
    return 0


def _known() -> set[str]:
    """The types that the data files have."""
    found: set[str] = set()
    for path in TARGET.parent.glob("*.json"):
        content: dict[str, dict[str, object]] = json.loads(path.read_text())
        found |= set(content.get("definitions", {}))
    return found


def _parse(text: str) -> Module:
    structs: dict[str, list[Member]] = {}
    others: dict[str, str] = {}
    current: list[Member] | None = None
    for line in text.splitlines():
        if match := _TYPE.match(line):
            if match[2] == "struct":
                current = structs.setdefault(match[1], [])
            else:
                others[match[1]] = match[2]
        elif line == "}":
            current = None
        elif current is not None and (member := _MEMBER.match(line)):
            name, _, flags = member[3].partition(",")
            current.append(Member(name, member[2], flags))
    return Module(structs, others)


def _rows(name: str, module: Module, everywhere: set[str]) -> list[list[str]]:
    """The members that are left out when they are empty, and those that are always there."""
    omitted: list[str] = []
    present: list[str] = []
    for member in module.structs[name]:
        plain = member.type.split(".")[-1]
        if not member.name and "inline" in member.flags:
            if plain in module.structs:
                below = _rows(plain, module, everywhere)
                omitted += below[0]
                present += below[1]
            continue
        if member.name in ("", "-"):
            continue
        is_pointer = member.type.startswith("*")
        is_plain = not member.type.startswith(("[", "map", "*"))
        known = everywhere if "." in member.type else module.structs
        is_struct = is_plain and (member.type in _STRUCTS or plain in known)
        if "omit" not in member.flags or (is_struct and "omitzero" not in member.flags):
            present.append(member.name)
        elif not is_pointer and not is_struct:
            omitted.append(member.name)
    return [sorted(set(omitted)), sorted(set(present))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
