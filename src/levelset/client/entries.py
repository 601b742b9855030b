"""One entry of a kubeconfig: its fields, each checked when it is asked for.

What is wrong is a ConfigError that names file, entry and field, and shows no secret.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelset.errors import ConfigError
from levelset.objects.names import quote
from levelset.objects.trees import is_list, is_map

__all__ = ["Entry", "type_words"]


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One cluster, user or context: what it says, and the file in which it says it."""

    kind: str
    name: str
    file: Path
    tree: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {quote(self.name)} in {self.file}"

    def __repr__(self) -> str:
        # Not what is in it: that may be secret.
        return f"Entry({self})"

    def wrong(self, field: str, problem: str) -> ConfigError:
        """The error to raise about a field."""
        return ConfigError(f"{field} of {self} {problem}")

    def text(self, field: str) -> str | None:
        """A field that is a text; None if it is not there or empty."""
        value = self.tree.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.wrong(field, f"must be a text, not {type_words(value)}: put it in quotes.")
        return value

    def flag(self, field: str) -> bool:
        """A field that is true or false."""
        value = self.tree.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(field, f"must be true or false, not {type_words(value)}.")
        return bool(value)

    def texts(self, field: str) -> tuple[str, ...]:
        """A field that is a list of texts."""
        value: Any = self.tree.get(field)
        if value is None:
            return ()
        if not is_list(value) or not all(isinstance(one, str) for one in value):
            raise self.wrong(field, "must be a list of texts: write each in quotes, on a line with a dash.")
        return tuple(value)

    def map(self, field: str) -> dict[str, Any] | None:
        """A field that has fields of its own."""
        value = self.tree.get(field)
        if value is not None and not is_map(value):
            raise self.wrong(field, f"must have fields, not be {type_words(value)}.")
        return value

    def maps(self, field: str) -> list[dict[str, Any]]:
        """A field that is a list of such."""
        value: Any = self.tree.get(field)
        if value is None:
            return []
        if not is_list(value) or not all(is_map(one) for one in value):
            raise self.wrong(field, "must be a list of entries with fields.")
        return list(value)

    def part(self, field: str) -> "Entry | None":
        """A field that has fields of its own, to be asked like the entry itself."""
        tree = self.map(field)
        return None if tree is None else Entry(f"{field} of {self.kind}", self.name, self.file, tree)

    def path(self, field: str) -> Path | None:
        """A field that is a path, relative to the file; it must be there and readable."""
        text = self.text(field)
        if text is None:
            return None
        path = self.file.parent / text
        try:
            with path.open("rb"):
                return path
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or error
            raise self.wrong(field, f"is {quote(text)}, which cannot be read: {reason}. Correct the path.") from error

    def data(self, field: str) -> bytes | None:
        """A field that is base64."""
        text = self.text(field)
        if text is None:
            return None
        try:
            # As Go reads it: newlines are no part of it, other strange characters are an error.
            return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            # Without the cause: it could show a part of a key.
            raise self.wrong(field, "is no base64: encode the file again, with `base64 -w0 FILE`.") from None

    def pem(self, field: str) -> bytes | Path | None:
        """PEM in the field whose name ends in `-data`, or else the path of a file with it."""
        data = self.data(f"{field}-data")
        if data is None:
            return self.path(field)
        if b"-----BEGIN " not in data:
            raise self.wrong(f"{field}-data", "is base64, but not of a PEM file: encode one that has -----BEGIN in it.")
        return data


def type_words(value: Any) -> str:
    """What a value is, in words and without the value, which may be secret."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if is_list(value) else "a mapping" if is_map(value) else "nothing"
