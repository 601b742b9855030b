"""Writes the protobuf messages of an OpenAPI v2 document as data, taken from their definition in gnostic-models.

    python scripts/generate_openapi_messages.py FOLDER [TARGET]

FOLDER holds `github.com/google/gnostic-models` as a vendor folder does. A message is a text of fields, separated by
commas; a field is its number, its name in JSON, and its type: `s` text, `l` whole number, `t` boolean, `d` number, or a
message; a `+` before it stands for a list. The same source always gives the same bytes.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

TARGET: Final = Path(__file__).parent.parent / "src" / "levelset" / "apiserver" / "data" / "openapi_v2.json"
ABOUT: Final = "From the protobuf definition of OpenAPI v2 in gnostic-models; Apache License 2.0; Copyright Google LLC."
SOURCE: Final = "github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto"
SCALARS: Final = {"string": "s", "int64": "l", "int32": "l", "bool": "t", "double": "d"}

_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^ +(repeated )?(\w+) (\w+) = (\d+);", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Reads the folder that is named, writes the file, and says how large it is."""
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else TARGET
    text = render((Path(arguments[0]) / SOURCE).read_text(encoding="utf-8"))
    target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {len(text)} characters")
    return 0


def render(source: str) -> str:
    """The file's text: the messages that a document is made of, one per line."""
    bodies = {match[1]: match[2] for match in _MESSAGE.finditer(source)}
    found: dict[str, str] = {}
    pending = ["Document"]
    while pending:
        name = pending.pop()
        if name in found or name not in bodies:
            continue
        fields = [match.groups() for match in _FIELD.finditer(bodies[name])]
        # Fields of other types, such as an encoded value within `Any`, are never written.
        known = [one for one in fields if one[1] in SCALARS or one[1] in bodies]
        found[name] = ",".join(write_field(*one) for one in known)
        pending += [one[1] for one in known if one[1] in bodies]
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(fields)}" for name, fields in sorted(found.items()))
    return f'{{"about":{json.dumps(ABOUT)},\n"messages":{{\n{lines}\n}}}}\n'


def write_field(repeated: str | None, kind: str, name: str, number: str) -> str:
    """A field as the table has it."""
    return f"{number} {json_name(name)} {'+' if repeated else ''}{SCALARS.get(kind, kind)}"


def json_name(name: str) -> str:
    """The name of a field in JSON: `$ref` and `multipleOf`."""
    if name.startswith("_"):
        return f"${name[1:]}"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
