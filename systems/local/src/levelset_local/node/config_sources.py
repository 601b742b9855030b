"""The ConfigMaps, Secrets and claims that a Pod references, and those of them that exist; and its account's tokens.

Tokens are requested for projected volumes, and again before they expire.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from levelset import ApiError, Context, Ref
from levelset.kinds.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from levelset.kinds.core_v1 import (
    ConfigMap,
    Container,
    Pod,
    Secret,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Volume,
)
from levelset_local.node.claimed_volumes import ClaimedVolume

__all__ = [
    "AccountTokens",
    "ConfigSources",
    "MissingReference",
    "config_map_refs",
    "secret_refs",
]

K = TypeVar("K")
TokenKey = tuple[str, int]
"""The audience (empty: that of the API server) and the lifetime of a token in seconds."""
_DEFAULT_SECONDS: Final = 3600
_REFRESHED_AFTER: Final = 0.8


class MissingReference(LookupError):
    """A ConfigMap, Secret or key that a container or volume needs does not exist; the message is that of Kubernetes."""


class ConfigSources(Struct, frozen=True):
    """The ConfigMaps, Secrets and claims of a Pod that exist, by name, and the tokens that were issued for it."""

    config_maps: Mapping[str, ConfigMap] = field(default_factory=dict[str, ConfigMap])
    secrets: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    tokens: Mapping[TokenKey, str] = field(default_factory=dict[TokenKey, str])
    claims: Mapping[str, ClaimedVolume] = field(default_factory=dict[str, ClaimedVolume])

    def config_map(self, name: str | None, *, optional: bool | None) -> ConfigMap | None:
        """The ConfigMap; if it does not exist, None if it is optional, else MissingReference is raised."""
        return _required(self.config_maps, "configmap", name, optional=optional)

    def secret(self, name: str | None, *, optional: bool | None) -> Secret | None:
        """The Secret; if it does not exist, None if it is optional, else MissingReference is raised."""
        return _required(self.secrets, "secret", name, optional=optional)

    def claim(self, name: str) -> tuple[str, str]:
        """The path and the type of the volume of a claim; raises MissingReference if it is not bound."""
        found = self.claims.get(name)
        if found is None:
            raise MissingReference(f'persistentvolumeclaim "{name}" not found')
        if found.path is None:
            raise MissingReference(f'persistentvolumeclaim "{name}" is not bound to a volume of this machine')
        return found.path, found.type

    def token(self, projection: ServiceAccountTokenProjection) -> str:
        """The token of the Pod's account; raises MissingReference if the API server has not issued one."""
        found = self.tokens.get(_token_key(projection))
        if found is None:
            raise MissingReference("failed to fetch token: the API server has issued none for the service account")
        return found


def _required(existing: Mapping[str, K], kind: str, name: str | None, *, optional: bool | None) -> K | None:
    one = existing.get(name or "")
    if one is None and not optional:
        raise MissingReference(f'{kind} "{name or ""}" not found')
    return one


def config_map_refs(pod: Pod) -> Iterator[Ref[ConfigMap]]:
    """The ConfigMaps that a Pod references, each once."""
    for name in _unique(_config_map_names(pod)):
        yield Ref(ConfigMap, name, pod.namespace)


def secret_refs(pod: Pod) -> Iterator[Ref[Secret]]:
    """The Secrets that a Pod references, each once."""
    for name in _unique(_secret_names(pod)):
        yield Ref(Secret, name, pod.namespace)


def _unique(names: Iterator[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _config_map_names(pod: Pod) -> Iterator[str | None]:
    for source in _env_sources(pod):
        yield _name(source.config_map_key_ref)
    for container in _containers(pod):
        for env_from in container.env_from:
            yield _name(env_from.config_map_ref)
    for volume in pod.spec.volumes:
        yield _name(volume.config_map)
        for projection in _projections(volume):
            yield _name(projection.config_map)


def _secret_names(pod: Pod) -> Iterator[str | None]:
    for source in _env_sources(pod):
        yield _name(source.secret_key_ref)
    for container in _containers(pod):
        for env_from in container.env_from:
            yield _name(env_from.secret_ref)
    for volume in pod.spec.volumes:
        yield volume.secret.secret_name if volume.secret is not None else None
        for projection in _projections(volume):
            yield _name(projection.secret)


def _env_sources(pod: Pod) -> Iterator[Any]:
    for container in _containers(pod):
        for variable in container.env:
            if variable.value_from is not None:
                yield variable.value_from


def _projections(volume: Volume) -> tuple[Any, ...]:
    return volume.projected.sources if volume.projected is not None else ()


def _name(reference: Any) -> str | None:
    return None if reference is None else reference.name


def _token_key(projection: ServiceAccountTokenProjection) -> TokenKey:
    """What a projected source requests."""
    return projection.audience or "", projection.expiration_seconds or _DEFAULT_SECONDS


class _IssuedToken(Struct, frozen=True):
    text: str
    refresh_at: datetime


class AccountTokens:
    """Requests the tokens of Pods, each bound to its Pod, and keeps them until 80 % of their lifetime is over."""

    def __init__(self) -> None:
        self._issued: dict[str, dict[TokenKey, _IssuedToken]] = {}

    async def read(self, pod: Pod, ctx: Context) -> dict[TokenKey, str]:
        """The tokens that the volumes of a Pod project; without those that the API server refuses."""
        wanted = dict.fromkeys(_requested(pod))
        if not wanted:
            return {}
        issued = self._issued.setdefault(pod.metadata.uid, {})
        for key in wanted:
            if key not in issued or issued[key].refresh_at <= ctx.now():
                token = await _request(pod, key, ctx)
                if token is not None:
                    issued[key] = token
        return {key: issued[key].text for key in wanted if key in issued}

    def refresh_at(self, uid: str) -> datetime | None:
        """When the first token of a Pod has to be requested again; None if it has none."""
        return min((one.refresh_at for one in self._issued.get(uid, {}).values()), default=None)

    def forget(self, uid: str) -> None:
        """Forgets the tokens of a Pod that has ended."""
        self._issued.pop(uid, None)


def _requested(pod: Pod) -> Iterator[TokenKey]:
    for volume in pod.spec.volumes:
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.service_account_token is not None:
                yield _token_key(source.service_account_token)


async def _request(pod: Pod, key: TokenKey, ctx: Context) -> _IssuedToken | None:
    audience, seconds = key
    bound = BoundObjectReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.metadata.uid)
    spec = TokenRequestSpec(
        audiences=(audience,) if audience else (), expiration_seconds=seconds, bound_object_ref=bound
    )
    account = Ref(ServiceAccount, pod.spec.service_account_name or "default", pod.namespace)
    began = ctx.now()
    try:
        found = await ctx.client.create(TokenRequest.new("", spec), on=account, subresource="token")
    except ApiError as error:
        ctx.log.warning("no token of the service account", extra={"account": str(account), "error": str(error)})
        return None
    if found.status is None or not found.status.token:
        return None
    return _IssuedToken(found.status.token, began + timedelta(seconds=seconds * _REFRESHED_AFTER))
