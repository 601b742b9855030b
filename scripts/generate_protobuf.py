"""Writes the protobuf messages of the built-in kinds as data, taken from the sources of Kubernetes' Go modules.

    python scripts/generate_protobuf.py FOLDER [TARGET]

FOLDER holds the modules as a vendor folder does: `k8s.io/api`, `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver`
and `k8s.io/kube-aggregator`. Numbers and types of fields are read from their `generated.proto` files; the JSON name
of a field, whether it is inlined, and whether it is omitted when zero, from the tags of the Go structs. The same
sources always give the same bytes.

A message is a text of fields, separated by commas; a field is its number, its JSON name (`-` if it is inlined) and its
type: `s` text, `b` bytes, `i` number of 32 or `l` of 64 bits, `t` boolean, `d` number, or a message; the type is
prefixed by `+` for a list, `%` for a map by text, and `?` if zero means absent. A message that is a list in JSON has
one field, called `[]`.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levelset.apiserver.registry.builtin.kind_table import BUILTIN_KINDS

TARGET: Final = Path(__file__).parent.parent / "src" / "levelset" / "apiserver" / "data" / "protobuf.json"
ABOUT: Final = "From the protobuf definitions of Kubernetes; Apache License 2.0; Copyright The Kubernetes Authors."
HOMES: Final = {
    "apiextensions": "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions",
    "apiregistration": "k8s.io/kube-aggregator/pkg/apis/apiregistration",
}
META: Final = "k8s.io/apimachinery/pkg/apis/meta/v1"
MORE: Final = {
    "autoscaling/v1": ("Scale",),
    "policy/v1": ("Eviction",),
    "authentication.k8s.io/v1": ("TokenRequest",),
    "/v1": ("Binding",),
}
SCALARS: Final = {"string": "s", "bytes": "b", "int32": "i", "int64": "l", "bool": "t", "double": "d"}

_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(
    r"^  (optional|repeated|required|map<string, ([\w.]+)>) ?([\w.]*) ?(\w+) = (\d+);", re.MULTILINE
)
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_SLICE: Final = re.compile(r"^type (\w+) \[\]", re.MULTILINE)
_MEMBER: Final = re.compile(r"^\t(?!//)(?:(\w+)[ \t]+)?(\S[^`\n]*?)[ \t]+`([^`]*)`", re.MULTILINE)
_NUMBER: Final = re.compile(r'protobuf:"\w+,(\d+)')
_JSON: Final = re.compile(r'json:"([^"]*)"')


@dataclass(frozen=True)
class Member:
    """What the Go struct says about a field."""

    name: str
    is_inline: bool
    drops_zero: bool


@dataclass(frozen=True)
class Package:
    """A folder of Go sources: its messages as protobuf texts, and what its structs say, by message and number."""

    path: str
    messages: dict[str, str]
    members: dict[str, dict[int, Member]]
    slices: frozenset[str]


class Reader:
    """Follows the messages from the kinds down, reading each package once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packages: dict[str, Package] = {}
        self.found: dict[str, str] = {}

    def add(self, path: str, name: str) -> str:
        """Takes in a message and all that it is made of; gives the name that it has in the table."""
        short = f"{'.'.join(path.split('/')[-2:])}.{name}"
        if short not in self.found:
            self.found[short] = ""  # messages may be recursive
            package = self._package(path)
            fields = [self._field(package, name, match) for match in _FIELD.finditer(package.messages[name])]
            self.found[short] = ",".join(fields)
        return short

    def _field(self, package: Package, message: str, match: re.Match[str]) -> str:
        label, valued, kind, name, number = match.groups()
        type_ = SCALARS.get(valued or kind) or self._reference(package, valued or kind)
        if message in package.slices:
            return f"{number} [] +{type_}"
        member = package.members[message].get(int(number)) or Member(name, is_inline=False, drops_zero=False)
        if valued:
            return f"{number} {member.name} %{type_}"
        if label == "repeated":
            return f"{number} {member.name} +{type_}"
        zero = "?" if member.drops_zero and (valued or kind) in SCALARS else ""
        return f"{number} {'-' if member.is_inline else member.name} {zero}{type_}"

    def _reference(self, package: Package, kind: str) -> str:
        if not kind.startswith("."):
            return self.add(package.path, kind)
        parts = kind[1:].split(".")
        return self.add(
            "/".join(["k8s.io", *parts[2:-1]]).replace("apiextensions_apiserver", "apiextensions-apiserver"), parts[-1]
        )

    def _package(self, path: str) -> Package:
        if path not in self._packages:
            self._packages[path] = read_package(self._folder, path)
        return self._packages[path]


def main(arguments: list[str]) -> int:
    """Reads the folder that is named, writes the file, and says how large it is."""
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else TARGET
    text = render(Path(arguments[0]))
    target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {len(text)} characters")
    return 0


def render(folder: Path) -> str:
    """The file's text: the kinds, then one message per line."""
    reader = Reader(folder)
    kinds = {"DeleteOptions": reader.add(META, "DeleteOptions")}
    for place, rows in BUILTIN_KINDS.items():
        for kind in (*(row.kind for row in rows), *MORE.get(place, ())):
            kinds[f"{place.removeprefix('/')} {kind}"] = reader.add(home(place), kind)
    names = [f"{json.dumps(kind)}:{json.dumps(name)}" for kind, name in sorted(kinds.items())]
    lines = [f"{json.dumps(name)}:{json.dumps(fields)}" for name, fields in sorted(reader.found.items())]
    whole = (",\n".join(names), ",\n".join(lines))
    return f'{{"about":{json.dumps(ABOUT)},\n"kinds":{{\n{whole[0]}\n}},\n"messages":{{\n{whole[1]}\n}}}}\n'


def home(place: str) -> str:
    """The folder of a group and version."""
    group, _, version = place.partition("/")
    word = group.partition(".")[0] or "core"
    return f"{HOMES.get(word, f'k8s.io/api/{word}')}/{version}"


def read_package(folder: Path, path: str) -> Package:
    """The messages of a folder of Go sources, and what its structs say about them."""
    text = (folder / path / "generated.proto").read_text(encoding="utf-8")
    messages = {match[1]: match[2] for match in _MESSAGE.finditer(text)}
    members: dict[str, dict[int, Member]] = {name: {} for name in messages}
    slices: set[str] = set()
    for file in sorted((folder / path).glob("*.go")):
        if file.name.endswith(("_test.go", ".pb.go")):
            continue
        source = file.read_text(encoding="utf-8")
        slices.update(match[1] for match in _SLICE.finditer(source))
        for struct in _STRUCT.finditer(source):
            members.setdefault(struct[1], {}).update(read_members(struct[2]))
    return Package(path, messages, members, frozenset(slices & messages.keys()))


def read_members(body: str) -> dict[int, Member]:
    """What the tags of a struct say, by the numbers of the fields."""
    found: dict[int, Member] = {}
    for match in _MEMBER.finditer(body):
        number, tag = _NUMBER.search(match[3]), _JSON.search(match[3])
        if number is None or tag is None or tag[1] == "-":
            continue
        name, *words = tag[1].split(",")
        drops = not match[2].startswith("*") and ("omitempty" in words or "omitzero" in words)
        found[int(number[1])] = Member(name or match[1] or "", not name and "inline" in words, drops)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
