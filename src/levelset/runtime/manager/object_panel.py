"""What a system shows on the dashboard's page of its objects: sections of text, and a conversation with the object.

```python
async def describe(client: Client, ref: Ref[Any]) -> Panel:
    robot = await client.get(ref)
    return Panel((PanelSection("Robot", rows=(("Battery", f"{robot.status.battery} %"),)),), chat="Talk to it")


System(name="robots", panels={Robot: ObjectPanel(describe, answer=talk)})
```

The dashboard knows no kinds of systems: it shows what they declare here, as text.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from levelset.client.client import Client
from levelset.objects.ref import Ref

__all__ = ["ObjectPanel", "Panel", "PanelSection"]


class PanelSection(msgspec.Struct, frozen=True):
    """A heading with rows of labels and values, a longer text, or both."""

    title: str
    rows: tuple[tuple[str, str], ...] = ()
    text: str = ""


class Panel(msgspec.Struct, frozen=True):
    """The panel of one object."""

    sections: tuple[PanelSection, ...] = ()
    chat: str = ""
    """The heading of the conversation; empty while the object cannot answer."""


class ObjectPanel(msgspec.Struct, frozen=True):
    """How the panel of a kind's objects is made, and who answers in its conversation."""

    describe: Callable[[Client, Ref[Any]], Awaitable[Panel]]
    answer: Callable[[Client, Ref[Any], str, str], Awaitable[str]] | None = None
    """The answer of an object to a message in a session; a LevelsetError is shown."""
