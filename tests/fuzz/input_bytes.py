"""Trees and patches made from any bytes: a fuzzer that changes a byte changes one choice."""

from typing import Any

__all__ = ["InputBytes"]

_NAMES = ["a", "b", "name", "spec", "containers", "metadata", "finalizers", "$patch", "~1", "", "f:a", "k:{}", "."]
_TEXTS = ["", "x", "delete", "replace", "merge", "-", "0", "é"]
_OPERATIONS = ["add", "remove", "replace", "move", "copy", "test", "other"]


class InputBytes:
    """The bytes of one input, consumed choice by choice; when they are used up, every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def choice(self, count: int) -> int:
        """One of so many choices."""
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1] % count

    def tree(self, depth: int = 0) -> Any:
        """A JSON tree."""
        match self.choice(9 if depth < 5 else 6):
            case 0:
                return None
            case 1:
                return bool(self.choice(2))
            case 2:
                return self.choice(4) - 1
            case 3:
                return self.choice(3) / 2
            case 4 | 5:
                return _TEXTS[self.choice(len(_TEXTS))]
            case 6:
                return [self.tree(depth + 1) for _ in range(self.choice(5))]
            case _:
                return {_NAMES[self.choice(len(_NAMES))]: self.tree(depth + 1) for _ in range(self.choice(6))}

    def pointer(self) -> str:
        """A JSON pointer."""
        return "".join(f"/{[*_NAMES, '0', '1', '-', '~'][self.choice(len(_NAMES) + 4)]}" for _ in range(self.choice(4)))

    def operations(self) -> list[Any]:
        """A JSON patch."""
        return [
            {
                "op": _OPERATIONS[self.choice(len(_OPERATIONS))],
                "path": self.pointer(),
                "from": self.pointer(),
                "value": self.tree(2),
            }
            for _ in range(self.choice(5))
        ]
