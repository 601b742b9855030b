"""The estimated costs of all rules in the definitions of the corpus, ours and those of kube-apiserver's own compiler.

`tests/corpus/costs.json` has the recorded ones: for each schema a list, in the order of the paths of its rules.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts.kube_binaries import KUBERNETES_VERSION, Missing, run_go

from levelset.cel.validation_rules import estimated_costs
from tests.corpus.collection import Contents

__all__ = ["COSTS", "Costs", "compare_costs", "our_costs", "read_costs", "record_costs"]

COSTS: Final = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "costs.json"
_PROGRAM: Final = Path(__file__).with_name("rule_costs.go")

Costs = dict[str, list[int]]


def read_costs(path: Path = COSTS) -> Costs:
    """The recorded costs, by source, definition and version."""
    found: Costs = json.loads(path.read_text("utf-8"))
    return found


def our_costs(contents: Sequence[tuple[str, Contents]]) -> Costs:
    """The costs that our compiler estimates."""
    return {key: _in_order(estimated_costs(schema)) for key, schema in _schemas(contents)}


def compare_costs(recorded: Costs, ours: Costs, *, is_whole: bool = False) -> list[str]:
    """The schemas whose costs differ, each with its first difference; of the whole corpus also those that are gone."""
    found: list[str] = []
    for key in {**ours, **recorded} if is_whole else ours:
        costs, theirs = ours.get(key, []), recorded.get(key, [])
        if costs != theirs:
            pairs = [pair for pair in zip(theirs, costs, strict=False) if pair[0] != pair[1]]
            found.append(f"costs {key}: {len(theirs)} and {len(costs)} rules, {pairs[:1]}")
    return found


def record_costs(contents: Sequence[tuple[str, Contents]], path: Path = COSTS) -> None:
    """Records the costs that kube-apiserver's compiler estimates, with Go; raises `Missing`."""
    given = "\n".join(json.dumps({"Key": key, "Schema": schema}) for key, schema in _schemas(contents))
    with TemporaryDirectory() as place:
        work = Path(place)
        (work / "main.go").write_text(_PROGRAM.read_text("utf-8"), "utf-8")
        (work / "go.mod").write_text("module costs\n\ngo 1.26\n", "utf-8")
        version = KUBERNETES_VERSION.partition(".")[2]
        run_go(["go", "mod", "edit", f"-require=k8s.io/apiextensions-apiserver@v0.{version}"], work)
        run_go(["go", "build", "-o", "program", "."], work)
        done = subprocess.run([str(work / "program")], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"the costs of rules could not be recorded: {done.stderr[-500:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    lines = [f"{json.dumps(row['Key'])}: {json.dumps(_in_order(row['Costs']))}" for row in rows]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def _schemas(contents: Sequence[tuple[str, Contents]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas with rules, by source, definition and version."""
    for source, one in contents:
        for name, body in one.definitions.items():
            for version in body["spec"].get("versions") or ():
                schema: Any = (version.get("schema") or {"openAPIV3Schema": None}).get("openAPIV3Schema")
                if schema and "x-kubernetes-validations" in json.dumps(schema):
                    yield f"{source} {name} {version['name']}", schema


def _in_order(costs: dict[str, int]) -> list[int]:
    return [cost for _, cost in sorted(costs.items())]
