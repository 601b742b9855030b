"""The parser of commands that are not built with click: argparse, with suggestions for mistyped words."""

import argparse
import re
import textwrap
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeVar, overload

__all__ = ["CommandParser", "suggestion"]

N = TypeVar("N")

_INVALID_CHOICE: Final = re.compile(r"invalid choice: '([^']*)'")


def suggestion(typed: str, known: Iterable[str]) -> str:
    """A question with the known word that is nearest to the typed one; empty if none resembles it."""
    from difflib import get_close_matches  # noqa: PLC0415  # for a mistake only

    names = {one.lstrip("-"): one for one in known}  # what all options begin with makes none of them nearer
    near = get_close_matches(typed.lstrip("-"), names, n=1)
    return f"Did you mean {names[near[0]]}?" if near else ""


class _WholeWords(argparse.HelpFormatter):
    """A help whose words, such as options and paths, are never cut at a hyphen, so that they can be copied."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.indent("\n".join(self._split_lines(text, width - len(indent))), indent)


class CommandParser(argparse.ArgumentParser):
    """An argument parser with an example at the end of its help, and suggestions in its messages.

    The parsers of subcommands are of this class, too, and its `add_parser` takes `example` as well.
    """

    def __init__(self, *, example: str = "", **options: Any) -> None:
        epilog = options.pop("epilog", "")
        shown = " ".join(one for one in (epilog, f"Example: {example}" if example else "") if one)
        self._known = list[str]()
        """The options and choices of this parser, and of its subcommands."""
        options.setdefault("formatter_class", _WholeWords)
        super().__init__(epilog=shown or None, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Adds an argument, as argparse does."""
        self._known += [one for one in names if one.startswith("-")]
        self._known += [str(one) for one in options.get("choices") or ()]
        return super().add_argument(*names, **options)

    @overload
    def parse_args(self, args: Iterable[str] | None = None, namespace: None = None) -> argparse.Namespace: ...
    @overload
    def parse_args(self, args: Iterable[str] | None, namespace: N) -> N: ...
    @overload
    def parse_args(self, *, namespace: N) -> N: ...
    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Parses the arguments; exits with code 2 and a message if there is an unknown one."""
        found, rest = self.parse_known_args(None if args is None else list(args), namespace)
        if rest:
            self.refuse(rest[0], found)
        return found

    def refuse(self, word: str, parsed: argparse.Namespace) -> NoReturn:
        """Exits with a message about a word that is no argument of the command that was parsed."""
        command = self._subcommands().get(getattr(parsed, "command", None) or "", self)
        near = suggestion(word.partition("=")[0], command._known)
        command.error(" ".join(one for one in (f"unknown argument {word}.", near) if one))

    def error(self, message: str) -> NoReturn:
        """Exits with code 2 and the message, and with the nearest of the choices if it is about one."""
        found = _INVALID_CHOICE.search(message)
        near = suggestion(found[1], [*self._known, *self._subcommands()]) if found else ""
        super().error(f"{message}. {near}" if near else message)

    def _subcommands(self) -> "dict[str, CommandParser]":
        """The parsers of the subcommands, by name."""
        choices: list[Any] = [one.choices for one in self._actions]
        groups: list[dict[str, CommandParser]] = [one for one in choices if isinstance(one, dict)]
        return {name: parser for one in groups for name, parser in one.items()}
