"""What people type for a resource (`deploy`, `deployments.apps`), and what they may have meant."""

import difflib
from collections.abc import Iterable, Iterator

from levelset.client.served import ServedResource
from levelset.errors import BadName

__all__ = ["choose", "few"]


def choose(text: str, resources: Iterable[ServedResource]) -> ServedResource | None:
    """The best match: by plural, then singular, then kind, then short name; the first of each."""
    if not text:
        raise BadName("An empty text names no resource: write one such as deployments.apps.", field="resource")
    known = list(resources)
    for word, version, group in _readings(text.lower()):
        within = [
            one for one in known if (group is None or one.gvr.group == group) and version in {None, one.gvr.version}
        ]
        for matches in (_is_plural, _is_singular, _is_kind, _is_short):
            for served in within:
                if matches(served, word):
                    return served
    return None


def _readings(text: str) -> Iterator[tuple[str, str | None, str | None]]:
    """The ways to read what was typed, as word, version and group: `a`, `a.GROUP`, `a.VERSION.GROUP`."""
    word, dot, rest = text.partition(".")
    if not dot:
        yield word, None, None
        return
    version, _, group = rest.partition(".")
    yield word, version, group
    yield word, None, rest


def _is_plural(served: ServedResource, word: str) -> bool:
    return served.gvr.resource == word


def _is_singular(served: ServedResource, word: str) -> bool:
    return served.singular == word


def _is_kind(served: ServedResource, word: str) -> bool:
    return served.gvk.kind.lower() == word


def _is_short(served: ServedResource, word: str) -> bool:
    return word in served.short_names


def few(words: list[str], wanted: str) -> str:
    """The words that are most like the one that was wanted; or the first, and how many more there are."""
    if not words:
        return "nothing"
    if close := difflib.get_close_matches(wanted, words, 3, 0.6):
        return f"{' or '.join(close)}"
    more = f" and {len(words) - 10} more" if len(words) > 10 else ""
    return f"{', '.join(words[:10])}{more}"
