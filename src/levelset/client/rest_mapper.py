"""The REST mapper: maps kinds, and the names users type, to the resources of a server through discovery.

A kind costs one request, for its group and version, so that a broken aggregated API does not affect other groups. Names
such as `deploy` or `deployments.apps` are looked up in everything the server serves: two requests with aggregated
discovery, one per group and version on older servers. Results are cached; concurrent lookups share their requests.
The documents are parsed in `discovery.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from levelset.aio import timing
from levelset.aio.single_flight import SingleFlight
from levelset.client import discovery
from levelset.client.discovery import ApiResource, Group, GroupVersion
from levelset.client.responses import read_error
from levelset.client.transport.interface import Call, CallTap, Send
from levelset.errors import ApiError, BadName, NotFound, ServerFailed, UnknownKind, Unreachable
from levelset.objects.ref import GroupVersionKind, parse_api_version

__all__ = ["ApiResource", "RestMapper", "list_some", "match_resource"]


def match_resource(text: str, resources: Iterable[ApiResource]) -> ApiResource | None:
    """The resource a name means: the first match by plural, then singular, then kind, then short name."""
    if not text:
        raise BadName("The resource name is empty: give one such as deployments.apps.", field="resource")
    known = list(resources)
    for word, version, group in _interpretations(text.lower()):
        within = [
            one for one in known if (group is None or one.gvr.group == group) and version in {None, one.gvr.version}
        ]
        for matches in (_is_plural, _is_singular, _is_kind, _is_short):
            for served in within:
                if matches(served, word):
                    return served
    return None


def _interpretations(text: str) -> Iterator[tuple[str, str | None, str | None]]:
    """The interpretations of a name, as word, version and group: `a`, `a.VERSION.GROUP`, `a.GROUP`."""
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


def list_some(words: list[str], wanted: str) -> str:
    """For a message: the names most similar to `wanted`, or the first ten and how many more there are."""
    if not words:
        return "nothing"
    import difflib  # noqa: PLC0415  # only for the message of an error

    if close := difflib.get_close_matches(wanted, words, 3, 0.6):
        return f"{' or '.join(close)}"
    more = f" and {len(words) - 10} more" if len(words) > 10 else ""
    return f"{', '.join(words[:10])}{more}"


_MAX_CONCURRENT: Final = 8
_PATIENCE: Final = 10.0
"""Seconds in which a kind appears after its CRD was written."""
_FIRST_DELAY: Final = 0.05
_LAST_DELAY: Final = 0.8
_decode: Final = msgspec.json.Decoder()


class RestMapper:
    """Maps kinds to the resources that serve them.

    An unknown kind is discovered again, but not within `every` seconds after the last time, unless forced. A kind of a
    group whose CRD was just written (`expect`) is discovered until it is there: the discovery of a real API server lags
    behind. Raises UnknownKind, whose message suggests what is served, and the errors of the requests.
    """

    def __init__(self, send: Send, *, every: float = 5.0, timeout: float = 30.0) -> None:
        self._send = send
        self._every = every
        self._timeout = timeout
        self._groups: dict[str, dict[str, GroupVersion]] = {}
        self._kinds: dict[GroupVersionKind, ApiResource] = {}
        self._read_at: dict[str | None, float] = {}
        self._broken: dict[str, str] = {}
        self._expected: dict[tuple[str, str], float] = {}
        self._single_flight: SingleFlight[None] = SingleFlight()
        self.tap: CallTap | None = None
        """Sees each lookup that sends requests."""

    @property
    def broken(self) -> dict[str, str]:
        """The group versions whose last discovery request failed, each with the reason."""
        return dict(self._broken)

    async def resource(self, gvk: GroupVersionKind, *, force: bool = False) -> ApiResource:
        """The resource that serves a kind; `force` ignores the cache."""
        parse_api_version(gvk.api_version)  # it becomes part of a URL
        found = self._kinds.get(gvk)
        if found is not None and not force:
            return found
        if force or self._is_stale(gvk.api_version):
            await self._discover_kind(gvk)
        delay = _FIRST_DELAY
        while gvk not in self._kinds and timing.now() < self._expected.get((gvk.group, gvk.kind), 0.0):
            await timing.sleep(delay)
            delay = min(2 * delay, _LAST_DELAY)
            await self._discover_kind(gvk)
        if gvk not in self._kinds:
            raise UnknownKind(self._unknown_kind_message(gvk))
        return self._kinds[gvk]

    def expect(self, group: str, kind: str) -> None:
        """The CRD of this kind was written: for some seconds it is discovered until it is served."""
        self._expected[group, kind] = timing.now() + _PATIENCE
        for key in [one for one in self._read_at if one is not None and one.startswith(f"{group}/")]:
            del self._read_at[key]

    async def _discover_kind(self, gvk: GroupVersionKind) -> None:
        await self._discover(gvk.api_version, lambda: self._discover_version(gvk.group, gvk.version))

    async def find(self, text: str, *, force: bool = False) -> ApiResource:
        """The resource that a user means by `deploy`, `Deployment`, `deployments.apps` or `deployments.v1.apps`.

        The first group in the server's order wins, and the preferred version.
        """
        found = match_resource(text, await self.resources(force=force))
        if found is None and self._is_stale(None):
            found = match_resource(text, await self.resources(force=True))
        if found is None:
            raise UnknownKind(self._unknown_name_message(text))
        return found

    async def resources(self, *, force: bool = False) -> tuple[ApiResource, ...]:
        """All resources of the server, the preferred version of each group first; cached unless forced.

        Group versions whose discovery fails keep their last known resources, if any, and are listed by `broken`.
        """
        if force or None not in self._read_at:
            await self._discover(None, self._discover_all)
        return tuple(self._all())

    def forget(self, gvk: GroupVersionKind | None = None) -> None:
        """Drops a kind, or everything, from the cache: what the server serves has changed."""
        if gvk is None:
            self._groups.clear()
            self._kinds.clear()
            self._read_at.clear()
        else:
            self._kinds.pop(gvk, None)
            self._read_at.pop(gvk.api_version, None)

    def known_documents(self) -> Sequence[tuple[str, bytes]]:
        """What is cached, as documents of group versions with their paths; nothing of those that are not known."""
        return [
            (
                discovery.path_of(group, name),
                msgspec.json.encode(discovery.write_resources(group, name, version.resources)),
            )
            for group, versions in self._groups.items()
            for name, version in versions.items()
            if version.resources
        ]

    def _discover(self, key: str | None, work: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Discovers something once for all tasks that need it meanwhile."""
        if self.tap is None:
            return self._single_flight.run(key, work)
        return self.tap.discover(lambda: self._single_flight.run(key, work))

    def _is_stale(self, key: str | None) -> bool:
        read_at = self._read_at.get(key)
        return read_at is None or timing.now() >= read_at + self._every

    def _all(self) -> Iterator[ApiResource]:
        for versions in self._groups.values():
            for version in versions.values():
                yield from version.resources or ()

    async def _discover_version(self, group: str, version: str) -> None:
        key = f"{group}/{version}" if group else version
        try:
            tree = await self._get(discovery.path_of(group, version))
        except NotFound:
            self._replace_version(group, GroupVersion(version, ()))
            await self._discover_group(group)
        else:
            self._replace_version(group, GroupVersion(version, discovery.read_resources(group, version, tree)))
            self._broken.pop(key, None)
        self._read_at[key] = timing.now()

    async def _discover_group(self, group: str) -> None:
        """Reads which versions a group has, for the message of UnknownKind."""
        try:
            tree = await self._get(discovery.path_of(group))
        except NotFound:
            versions: set[str] = set()
        else:
            groups = discovery.read_groups(tree) if not group else [discovery.read_group(tree)]
            versions = {version.name for one in groups for version in one.versions}
        known = self._groups.setdefault(group, {})
        for gone in known.keys() - versions:
            self._replace_version(group, GroupVersion(gone, ()))
            del known[gone]
        for name in sorted(versions - known.keys(), key=discovery.version_rank):
            known[name] = GroupVersion(name)

    async def _discover_all(self) -> None:
        core, rest = await _gather([self._discover_groups("/api"), self._discover_groups("/apis")])
        groups = [*core, *rest]
        self._broken = {}
        unknown = [(group.name, one.name) for group in groups for one in group.versions if one.resources is None]
        self._groups = {group.name: self._merged(group) for group in groups}
        self._kinds = _by_kind(self._all())
        limit = asyncio.Semaphore(_MAX_CONCURRENT)
        await _gather([self._try_version(group, version, limit) for group, version in unknown])
        self._read_at[None] = timing.now()

    async def _discover_groups(self, path: str) -> list[Group]:
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
                await self._discover_version(group, version)
        except (ApiError, Unreachable) as error:
            self._broken[f"{group}/{version}" if group else version] = str(error)

    def _merged(self, group: Group) -> dict[str, GroupVersion]:
        """The versions of a group; those without resources (not available now) as they were known before."""
        before = self._groups.get(group.name, {})
        return {one.name: before.get(one.name, one) if one.resources is None else one for one in group.versions}

    def _replace_version(self, group: str, version: GroupVersion) -> None:
        """Replaces what is cached of one version."""
        self._groups.setdefault(group, {})[version.name] = version
        api_version = f"{group}/{version.name}" if group else version.name
        self._kinds = {
            gvk: served for gvk, served in self._kinds.items() if served.gvr.api_version != api_version
        } | _by_kind(version.resources or ())

    async def _get(self, path: str, *, accept: str = "application/json") -> Any:
        words = f"discover {path}"
        headers = {"accept": accept}
        call = Call(method="GET", path=path, headers=headers, timeout=self._timeout, verb="get", about=words)
        response = await self._send(call)
        if response.status >= 300:
            raise read_error(call, response)
        try:
            return _decode.decode(response.body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ServerFailed(
                f"{words}: the response is not JSON ({len(response.body)} bytes); is this an API server?"
            ) from error

    def _unknown_kind_message(self, gvk: GroupVersionKind) -> str:
        """The message for an unknown kind: similar kinds, other versions, or that its CRD is missing."""
        versions = self._groups.get(gvk.group, {})
        known = versions.get(gvk.version)
        if known is not None and known.resources:
            kinds = sorted({served.gvk.kind for served in known.resources})
            return f"The server does not serve {gvk}: of {gvk.api_version} it serves {list_some(kinds, gvk.kind)}."
        if versions.keys() - {gvk.version}:
            others = [f"{gvk.group}/{name}" if gvk.group else name for name in versions if name != gvk.version]
            return f"The server does not serve {gvk}: it serves {', '.join(others)}. Use one of these versions."
        return f"The server does not serve {gvk}, nor anything else of its group: install the CRD of {gvk.kind} first."

    def _unknown_name_message(self, text: str) -> str:
        words = sorted({word for served in self._all() for word in (served.gvr.resource, *served.short_names)})
        broken = f" Discovery failed for {', '.join(self._broken)}." if self._broken else ""
        return f"The server has no resource {text[:80]!r}: it serves {list_some(words, text)}.{broken}"


async def _gather(work: Iterable[Any]) -> list[Any]:
    """Runs all concurrently; the first error cancels the others, and is raised without a group."""
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
