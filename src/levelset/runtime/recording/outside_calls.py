"""`recorded`: a client of the outside world whose calls are part of a recording, and of its replay.

```python
dns = recorded(DnsClient())  # its async methods
token = recorded(new_token)  # a function
```

In a reconcile that is recorded, arguments and result of each call are written to the recording; a replay returns the
results from there, and calls nothing. Everywhere else calls go straight through.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from levelset.runtime.controller.traced_tasks import current_task, recorded_value

__all__ = ["recorded"]

T = TypeVar("T")


def recorded(client: T, /, *, name: str | None = None) -> T:
    """The same client, or function, with calls that recordings have.

    Results must be what JSON can express, or msgspec can convert: a replay returns them as plain values, or as the
    class that the function is annotated with. `name` is shown in reports.
    """
    if inspect.isroutine(client) or inspect.isclass(client):
        function: Any = client
        return cast("T", _recorded_call(function, name or str(getattr(function, "__qualname__", function))))
    return cast("T", _RecordedClient(client, name or type(client).__name__))


class _RecordedClient:
    """Stands for a client; its methods are recorded, its other attributes are those of the client."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return _recorded_call(found, f"{self._name}.{name}") if inspect.isroutine(found) else found

    def __repr__(self) -> str:
        return f"recorded({self._client!r})"


def _recorded_call(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    returns = inspect.get_annotations(function, eval_str=False).get("return", Any)

    async def call_async(*args: Any, **options: Any) -> Any:
        task = current_task()
        if task is None:
            return await function(*args, **options)
        result = await task.tracer.call(task, name, _arguments(args, options), lambda: function(*args, **options))
        return _converted(result, returns)

    def call(*args: Any, **options: Any) -> Any:
        return _converted(recorded_value(name, lambda: function(*args, **options)), returns)

    return call_async if inspect.iscoroutinefunction(function) else call


def _arguments(args: tuple[Any, ...], options: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"args": args, "options": options}, enc_hook=repr)


def _converted(result: Any, to: Any) -> Any:
    """A result in the class of the annotation, where it can be converted to it; otherwise as it is."""
    if isinstance(to, str) or to in {Any, None, inspect.Signature.empty}:
        return result
    try:
        return msgspec.convert(result, to)
    except (msgspec.ValidationError, TypeError):
        return result
