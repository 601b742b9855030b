"""Finds out where a server serves a kind, asks as little as possible, and remembers the answer.

A kind is looked up with one request about its version of its group, so that a group that is broken hurts nobody else.
What people type (`deploy`, `deployments.apps`) is looked up in everything that the server serves: two requests, or one
per version of each group on servers that know only the plain form.

What people type for a resource (`deploy`, `deployments.apps`), and what they may have meant.
"""

import asyncio
import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from levelset.aio import timing
from levelset.aio.single_flight import Sharing
from levelset.client import discovery
from levelset.client.discovery import ApiResource, Group, GroupVersion
from levelset.client.responses import read_error
from levelset.client.transport.interface import Call, Send
from levelset.errors import ApiError, BadName, NotFound, ServerFailed, UnknownKind, Unreachable
from levelset.objects.ref import GroupVersionKind, parse_api_version

__all__ = ["ApiResource", "Mapper", "choose", "few"]


def choose(text: str, resources: Iterable[ApiResource]) -> ApiResource | None:
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


def _is_plural(served: ApiResource, word: str) -> bool:
    return served.gvr.resource == word


def _is_singular(served: ApiResource, word: str) -> bool:
    return served.singular == word


def _is_kind(served: ApiResource, word: str) -> bool:
    return served.gvk.kind.lower() == word


def _is_short(served: ApiResource, word: str) -> bool:
    return word in served.short_names


def few(words: list[str], wanted: str) -> str:
    """The words that are most like the one that was wanted; or the first, and how many more there are."""
    if not words:
        return "nothing"
    if close := difflib.get_close_matches(wanted, words, 3, 0.6):
        return f"{' or '.join(close)}"
    more = f" and {len(words) - 10} more" if len(words) > 10 else ""
    return f"{', '.join(words[:10])}{more}"


_AT_ONCE: Final = 8
_decode: Final = msgspec.json.Decoder()


class Mapper:
    """Maps kinds to the resources under which a server serves them.

    A kind that is unknown is asked for again, but not within `every` seconds after the server said no, unless forced.
    Raises UnknownKind, which says what there is, and the errors of the way to the server.
    """

    def __init__(self, send: Send, *, every: float = 5.0, timeout: float = 30.0) -> None:
        self._send = send
        self._every = every
        self._timeout = timeout
        self._groups: dict[str, dict[str, GroupVersion]] = {}
        self._kinds: dict[GroupVersionKind, ApiResource] = {}
        self._asked: dict[str | None, float] = {}
        self._broken: dict[str, str] = {}
        self._sharing: Sharing[None] = Sharing()

    @property
    def broken(self) -> dict[str, str]:
        """The versions of groups that did not answer when they were asked last, each with the reason."""
        return dict(self._broken)

    async def resource(self, gvk: GroupVersionKind, *, force: bool = False) -> ApiResource:
        """What this kind is served under; `force` asks the server even if the answer is known."""
        parse_api_version(gvk.api_version)  # it becomes a part of a URL
        found = self._kinds.get(gvk)
        if found is not None and not force:
            return found
        if force or self._may_ask(gvk.api_version):
            await self._sharing.run(gvk.api_version, lambda: self._ask_version(gvk.group, gvk.version))
        if gvk not in self._kinds:
            raise UnknownKind(self._missing(gvk))
        return self._kinds[gvk]

    async def find(self, text: str, *, force: bool = False) -> ApiResource:
        """The resource that a person means by `deploy`, `Deployment`, `deployments.apps` or `deployments.v1.apps`.

        Of several groups the first that the server names wins, of several versions the best.
        """
        found = choose(text, await self.resources(force=force))
        if found is None and self._may_ask(None):
            found = choose(text, await self.resources(force=True))
        if found is None:
            raise UnknownKind(self._unlike(text))
        return found

    async def resources(self, *, force: bool = False) -> tuple[ApiResource, ...]:
        """All that the server serves, the best version of each group first; asked for once, unless forced.

        Versions of groups that do not answer are left out, or as they were before, and named by `broken`.
        """
        if force or None not in self._asked:
            await self._sharing.run(None, self._ask_everything)
        return tuple(self._all())

    def forget(self, gvk: GroupVersionKind | None = None) -> None:
        """Has the server asked again for a kind, or for everything: what it serves has changed."""
        if gvk is None:
            self._groups.clear()
            self._kinds.clear()
            self._asked.clear()
        else:
            self._kinds.pop(gvk, None)
            self._asked.pop(gvk.api_version, None)

    def _may_ask(self, key: str | None) -> bool:
        asked = self._asked.get(key)
        return asked is None or timing.now() >= asked + self._every

    def _all(self) -> Iterator[ApiResource]:
        for versions in self._groups.values():
            for version in versions.values():
                yield from version.resources or ()

    async def _ask_version(self, group: str, version: str) -> None:
        key = f"{group}/{version}" if group else version
        try:
            tree = await self._get(discovery.path_of(group, version))
        except NotFound:
            self._remember(group, GroupVersion(version, ()))
            await self._ask_group(group)
        else:
            self._remember(group, GroupVersion(version, discovery.read_resources(group, version, tree)))
            self._broken.pop(key, None)
        self._asked[key] = timing.now()

    async def _ask_group(self, group: str) -> None:
        """Learns which versions a group has, for the message that says that there is no such one."""
        try:
            tree = await self._get(discovery.path_of(group))
        except NotFound:
            versions: set[str] = set()
        else:
            groups = discovery.read_groups(tree) if not group else [discovery.read_group(tree)]
            versions = {version.name for one in groups for version in one.versions}
        known = self._groups.setdefault(group, {})
        for gone in known.keys() - versions:
            self._remember(group, GroupVersion(gone, ()))
            del known[gone]
        for name in sorted(versions - known.keys(), key=discovery.version_rank):
            known[name] = GroupVersion(name)

    async def _ask_everything(self) -> None:
        core, rest = await _together([self._ask_root("/api"), self._ask_root("/apis")])
        groups = [*core, *rest]
        self._broken = {}
        unknown = [(group.name, one.name) for group in groups for one in group.versions if one.resources is None]
        self._groups = {group.name: self._merged(group) for group in groups}
        self._kinds = _by_kind(self._all())
        limit = asyncio.Semaphore(_AT_ONCE)
        await _together([self._try_version(group, version, limit) for group, version in unknown])
        self._asked[None] = timing.now()

    async def _ask_root(self, path: str) -> list[Group]:
        try:
            tree = await self._get(path, accept=discovery.ACCEPT)
        except NotFound:
            if path == "/apis":
                raise
            return []  # a server without a core group
        return discovery.read_aggregated(tree) if discovery.is_aggregated(tree) else discovery.read_groups(tree)

    async def _try_version(self, group: str, version: str, limit: asyncio.Semaphore) -> None:
        try:
            async with limit:
                await self._ask_version(group, version)
        except (ApiError, Unreachable) as error:
            self._broken[f"{group}/{version}" if group else version] = str(error)

    def _merged(self, group: Group) -> dict[str, GroupVersion]:
        """The group as the server tells it now; of versions that it cannot tell about, what was known before."""
        before = self._groups.get(group.name, {})
        return {one.name: before.get(one.name, one) if one.resources is None else one for one in group.versions}

    def _remember(self, group: str, version: GroupVersion) -> None:
        """Takes over what is known of one version."""
        self._groups.setdefault(group, {})[version.name] = version
        api_version = f"{group}/{version.name}" if group else version.name
        self._kinds = {
            gvk: served for gvk, served in self._kinds.items() if served.gvr.api_version != api_version
        } | _by_kind(version.resources or ())

    async def _get(self, path: str, *, accept: str = "application/json") -> Any:
        words = f"read what is served at {path}"
        headers = {"accept": accept}
        call = Call(method="GET", path=path, headers=headers, timeout=self._timeout, verb="get", words=words)
        answer = await self._send(call)
        if answer.status >= 300:
            raise read_error(call, answer)
        try:
            return _decode.decode(answer.body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ServerFailed(
                f"{words}: the answer is no JSON ({len(answer.body)} bytes); is this an API server?"
            ) from error

    def _missing(self, gvk: GroupVersionKind) -> str:
        """What to say about a kind that is not there: how it is spelt, which versions there are, or what to install."""
        versions = self._groups.get(gvk.group, {})
        known = versions.get(gvk.version)
        if known is not None and known.resources:
            kinds = sorted({served.gvk.kind for served in known.resources})
            return f"The server serves no {gvk}: of {gvk.api_version} it serves {few(kinds, gvk.kind)}."
        if versions.keys() - {gvk.version}:
            others = [f"{gvk.group}/{name}" if gvk.group else name for name in versions if name != gvk.version]
            return f"The server serves no {gvk}: it has {', '.join(others)}. Ask for one of these versions."
        return (
            f"The server serves no {gvk}, nor anything of its group: install the definition (CRD) of {gvk.kind} first."
        )

    def _unlike(self, text: str) -> str:
        words = sorted({word for served in self._all() for word in (served.gvr.resource, *served.short_names)})
        broken = f" These did not answer: {', '.join(self._broken)}." if self._broken else ""
        return f"The server serves nothing that is called {text[:80]!r}: it serves {few(words, text)}.{broken}"


async def _together(work: Iterable[Any]) -> list[Any]:
    """Runs all at once and waits for all; the first error cancels the others, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one, name="discovery") for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _by_kind(resources: Iterable[ApiResource]) -> dict[GroupVersionKind, ApiResource]:
    found: dict[GroupVersionKind, ApiResource] = {}
    for served in resources:
        found.setdefault(served.gvk, served)
    return found
