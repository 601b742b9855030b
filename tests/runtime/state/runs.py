"""The states that the tests of this package use: runs of programs, and refs to them."""

from dataclasses import dataclass

from levelset.objects import GroupVersionKind, Ref

__all__ = ["PROGRAM", "Run", "ref"]

PROGRAM = GroupVersionKind("dcp.example.dev", "v1", "Executable")


@dataclass(frozen=True)
class Run:
    phase: str = "New"
    pid: int | None = None
    notes: tuple[str, ...] = ()


def ref(name: str = "web") -> Ref[object]:
    return Ref(PROGRAM, name, "default")
