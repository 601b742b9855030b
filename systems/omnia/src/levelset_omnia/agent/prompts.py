"""The prompts of an agent: the files of its PromptPack, read again when they change."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["Prompts"]


class Prompts:
    """The files of a folder by name; a ConfigMap's folder is swapped as a whole, so they always belong together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None
        self._files: Mapping[str, str] = {}

    def read(self) -> Mapping[str, str]:
        """All prompts as they are now; none if there is no such folder. Reads files: not for the event loop."""
        try:
            now = self._mark()
            if now != self._seen:
                names = sorted(one for one in self._folder.iterdir() if not one.name.startswith("."))
                self._files = {
                    one.name: one.read_text(encoding="utf-8", errors="replace") for one in names if one.is_file()
                }
                self._seen = now
        except FileNotFoundError:
            self._files, self._seen = {}, None
        return self._files

    def _mark(self) -> object:
        """What changes when the files do: where `..data` leads to, or the time of the folder."""
        data = self._folder / "..data"
        if data.is_symlink():
            return data.readlink()
        return [(one.name, one.stat().st_mtime_ns) for one in sorted(self._folder.iterdir())]
