"""What `run` prints at the start: addresses, watched kinds, disabled features, and what to type next.

```text
dashboard   http://127.0.0.1:38423/?token=...
kubeconfig  levelset.kubeconfig
API server  https://127.0.0.1:43183
watches     24 kinds: Website, Deployment, Secret, ReplicaSet, ...
disabled    containers: start Docker or Podman, then restart
ready in 845 ms. Type next, in another terminal:
  kubectl --kubeconfig levelset.kubeconfig apply -f examples/omnia/
  .venv/bin/levelset status
```
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

__all__ = ["DISABLED", "Facts", "fact_lines", "ready_lines"]

Facts = Mapping[str, str | Sequence[str] | Mapping[str, str]]
"""What is printed, by the key that it has in JSON."""

DISABLED: Final = "disabled"
_FIRST: Final = ("dashboard", "kubeconfig", "url")
_LABELS: Final = {"url": "API server", "conversions": "converts"}
"""The words for people, where the key in JSON does not say what it is."""
_KINDS: Final = ("watches", "serves", "conversions")
_MAX_LISTED: Final = 5
_MAX_HINTS: Final = 3


def fact_lines(facts: Facts) -> Iterator[str]:
    """The lines of all facts: addresses first, the disabled features last; empty facts are left out."""
    first = [name for name in _FIRST if name in facts]
    for name in (*first, *sorted(facts.keys() - set(first), key=lambda one: _rank(one, facts[one]))):
        if value := facts[name]:
            yield f"{_LABELS.get(name, name):<11} {_text(name, value)}"


def _rank(name: str, value: object) -> tuple[bool, bool, str]:
    return name == DISABLED, not isinstance(value, str), name


def _text(name: str, value: str | Sequence[str] | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "; ".join(f"{one}: {how}" for one, how in value.items())
    if len(value) <= _MAX_LISTED:
        return ", ".join(value)
    if name not in _KINDS:
        return str(len(value))
    # `Website (example.dev/v1)` and `websites.example.dev` by the name alone.
    names = list(dict.fromkeys(one.split(" ")[0].split(".")[0] for one in value))
    return f"{len(value)} kinds: {', '.join(names[: _MAX_LISTED - 1])}, ..."


def ready_lines(milliseconds: float, hints: Sequence[str]) -> Iterator[str]:
    """The line that says it is ready, and at most three commands to type next."""
    yield f"ready in {milliseconds:.0f} ms{'. Type next, in another terminal:' if hints else ''}"
    for hint in hints[:_MAX_HINTS]:
        yield f"  {hint}"
