"""Records the enums that kube-apiserver publishes in the OpenAPI v3 documents of built-in kinds.

    .venv/bin/python -m scripts.record_enums

Writes src/levelset/apiserver/data/enums.json: the values by schema and by path in it. The documents in Kubernetes'
repository, from which the other data files are made, have no enums.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from scripts.kube_server import Server, serve

__all__ = ["main", "record"]

DATA: Final = Path(__file__).parent.parent / "src/levelset/apiserver/data/enums.json"


def record(server: Server) -> dict[str, dict[str, list[str]]]:
    """The enums of all schemas: values by path, such as `type` or `accessModes.items`."""
    found: dict[str, dict[str, list[str]]] = {}
    index = server.request("GET", "/openapi/v3").body["paths"]
    for path in sorted(one for one in index if one.startswith("api")):
        document = server.request("GET", f"/openapi/v3/{path}").body
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            enums = dict(_enums(schema, ()))
            if enums and name.startswith("io.k8s."):
                found[name] = enums
    return dict(sorted(found.items()))


def _enums(schema: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    if "enum" in schema:
        yield ".".join(path), schema["enum"]
    for name, member in schema.get("properties", {}).items():
        yield from _enums(member, (*path, name))
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _enums(schema[word], (*path, word))


def main() -> int:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    if given.server:
        found = record(Server(given.server, given.token))
    else:
        with serve() as server:
            found = record(server)
    rows = [f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}" for name, one in found.items()]
    DATA.write_text("{" + ",\n".join(rows) + "}\n")
    print(f"{sum(map(len, found.values()))} enums in {len(found)} schemas")
    return 0


if __name__ == "__main__":
    sys.exit(main())
