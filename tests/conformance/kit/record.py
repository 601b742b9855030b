"""Record the answers of a reference server: the scenarios that `--only` names, or all of them."""

from __future__ import annotations

import json
import sys
from typing import Any

from runner import Scenario, StepResult, argument_parser, load_golden, options_from, run_all

WIDTH = 118


def layout(value: Any, indent: int = 0) -> str:
    """JSON in which a value that is longer than `WIDTH` has a line for each member."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or indent + len(flat) <= WIDTH:
        return flat
    space = " " * (indent + 1)
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {layout(item, indent + 1)}" for key, item in value.items()]
    else:
        rows = [layout(item, indent + 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(space + row for row in rows)
    return f"{opening}\n{body}\n{' ' * indent}{closing}"


def main() -> int:
    options = options_from(argument_parser(__doc__).parse_args())
    recorded: dict[str, dict[str, Any]] = {}
    failed = 0

    def conclude(scenario: Scenario, results: list[StepResult], error: str | None) -> None:
        nonlocal failed
        problems = [problem for result in results for problem in result.problems] + ([error] if error else [])
        print(f"{'not recorded' if problems else 'recorded':14}{scenario.area}: {scenario.name}", *problems, sep="\n    ")
        failed += bool(problems)
        if not problems:
            golden = recorded.setdefault(scenario.area, load_golden(options.folder, scenario.area))
            golden[scenario.name] = [
                {"step": one.label, "status": one.status, "values": one.values} for one in results
            ]

    run_all(options, conclude)
    for area, golden in recorded.items():
        (options.folder / "golden" / f"{area}.json").write_text(layout(golden) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
