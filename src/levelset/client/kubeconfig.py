"""Kubeconfig files: read one, merge several, and find what a context means.

Files are merged as kubectl merges them: the first that names a cluster, user or context says all about it, and the
first that has a `current-context` says which one is meant. Paths in a file are relative to the file. Keys that nobody
here knows are passed over; what is known and wrong is a ConfigError that names file, entry and field, and no secret.
"""

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from levelset.client.entries import Entry, type_words
from levelset.errors import BadObject, ConfigError
from levelset.objects.names import quote
from levelset.objects.trees import is_list, is_map

__all__ = ["Kubeconfig", "merge_kubeconfigs", "parse_kubeconfig", "read_kubeconfig"]

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SECTIONS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """What one file says, or several together."""

    files: tuple[Path, ...]
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]
    contexts: Mapping[str, Entry]
    current: str | None = None

    def context(self, name: str | None = None) -> Entry:
        """The context of this name, or the current one."""
        where = self.where
        chosen = name or self.current
        if chosen is None:
            raise ConfigError(f"{where} has no current-context: name one of its contexts, {_names(self.contexts)}.")
        return _pick(self.contexts, chosen, f"{where} has no context", "Name one of")

    def cluster(self, context: Entry) -> Entry:
        """The cluster of a context."""
        name = context.text("cluster")
        if name is None:
            raise context.wrong("cluster", f"is missing: name one of {_names(self.clusters)}.")
        return _pick(self.clusters, name, f"The {context} names a cluster that is not there,", "There is")

    def user(self, context: Entry) -> Entry | None:
        """The user of a context; None if it names none, and then requests are anonymous."""
        name = context.text("user")
        if name is None:
            return None
        return _pick(self.users, name, f"The {context} names a user that is not there,", "There is")

    @property
    def where(self) -> str:
        """The files, for a message."""
        return ", ".join(str(file) for file in self.files) or "The kubeconfig"


def read_kubeconfig(file: Path) -> Kubeconfig:
    """Reads one file; FileNotFoundError if there is none, ConfigError if it is none. It blocks."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"The kubeconfig {file} cannot be read: {reason}. Correct the path, or its rights."
        ) from error
    return parse_kubeconfig(content, file)


def parse_kubeconfig(text: bytes, file: Path) -> Kubeconfig:
    """What the bytes of a file say; several YAML documents in it are merged like several files."""
    # yaml takes a while to load, and who runs inside of a cluster or of a test needs none.
    from levelset.objects.yamltext import read_yaml  # noqa: PLC0415

    decoded = _decode(text, file)
    try:
        documents = read_yaml(decoded)
    except BadObject as error:
        line = decoded.count("\n", 0, error.position or 0) + 1
        # Without the cause: it could show a password that was not put in quotes.
        raise ConfigError(
            f"{file} is no YAML from line {line} on, so no kubeconfig. Look there for a key that is given twice, a tab,"
            " a wrong indent, or a text that needs quotes."
        ) from None
    found = [_document(tree, file) for tree in documents if tree is not None]
    return merge_kubeconfigs(found) if found else Kubeconfig((file,), {}, {}, {})


def merge_kubeconfigs(parts: Iterable[Kubeconfig]) -> Kubeconfig:
    """All of them together; the first that names something says all about it."""
    first_to_last = list(parts)
    last_to_first = first_to_last[::-1]
    return Kubeconfig(
        files=tuple(dict.fromkeys(file for part in first_to_last for file in part.files)),
        clusters={name: entry for part in last_to_first for name, entry in part.clusters.items()},
        users={name: entry for part in last_to_first for name, entry in part.users.items()},
        contexts={name: entry for part in last_to_first for name, entry in part.contexts.items()},
        current=next((part.current for part in first_to_last if part.current), None),
    )


def _decode(text: bytes, file: Path) -> str:
    """The text of a file, which some editors begin with a byte order mark or write as UTF-16."""
    try:
        return text.decode("utf-16" if text.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is no text, so no kubeconfig: save it as UTF-8.") from None


def _document(tree: Any, file: Path) -> Kubeconfig:
    if not is_map(tree):
        raise ConfigError(f"{file} is no kubeconfig: it is {type_words(tree)}, and has neither clusters nor contexts.")
    for field, wanted in (("kind", "Config"), ("apiVersion", "v1")):
        said = tree.get(field)
        if said is not None and said not in ("", wanted):
            raise ConfigError(f"{file} is no kubeconfig: its {field} is {quote(said)} and should be {wanted}.")
    current = tree.get("current-context")
    if current is not None and not isinstance(current, str):
        raise ConfigError(f"current-context in {file} must be a text, not {type_words(current)}: put it in quotes.")
    sections = {section: _entries(tree.get(section), section, file) for section in _SECTIONS}
    return Kubeconfig((file,), sections["clusters"], sections["users"], sections["contexts"], current or None)


def _entries(items: Any, section: str, file: Path) -> dict[str, Entry]:
    kind = _SECTIONS[section]
    if items is None:
        return {}
    if not is_list(items):
        raise ConfigError(f"{section} in {file} must be a list, not {type_words(items)}.")
    found: dict[str, Entry] = {}
    for number, item in enumerate(items):
        name = item.get("name") if is_map(item) else None
        if not is_map(item) or not isinstance(name, str) or not name:
            raise ConfigError(f"{section}[{number}] in {file} has no name that is a text: give it one.")
        if name in found:
            raise ConfigError(f"{file} has two entries {quote(name)} in {section}: remove or rename one.")
        tree = item.get(kind)
        if tree is not None and not is_map(tree):
            raise ConfigError(f"{kind} of {section}[{number}] ({quote(name)}) in {file} must have fields.")
        found[name] = Entry(kind, name, file, tree or {})
    return found


def _pick(entries: Mapping[str, Entry], name: str, problem: str, advice: str) -> Entry:
    if name not in entries:
        raise ConfigError(f"{problem} {quote(name)}. {advice} {_names(entries)}.")
    return entries[name]


def _names(entries: Mapping[str, Entry]) -> str:
    names = [quote(name) for name in sorted(entries)]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more if names else "(there is none)"
