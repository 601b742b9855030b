"""What the controllers of a test did, in words: shown beside the failure of a test."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from levelset.testing.stage import Stage

__all__ = ["describe_looks"]

_MOST: Final = 50


def describe_looks(stage: "Stage") -> str:
    """The last looks of all controllers, the oldest first, and what was under way at the end."""
    looks = list(stage.timelines.looks)
    lines = [f"{one.at:10.3f} s  {one.outcome.ref}: {one}" for one in looks[-_MOST:]]
    if len(looks) > _MOST:
        lines.insert(0, f"... {len(looks) - _MOST} more before")
    lines += [
        f"{since:10.3f} s  {ref}: {name} has looked since then"
        for (name, ref), since in stage.timelines.running.items()
    ]
    return "\n".join(lines)
