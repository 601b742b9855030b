"""The conversion of AgentRuntimes between v1alpha2, the hub, and v1alpha1.

v1alpha1 has a Secret where v1alpha2 has a provider or a reference to one. What v1alpha1 cannot express is stored in an
annotation, so that a client of v1alpha1 that reads and writes an agent changes nothing else.
"""

from typing import Any, Final

import msgspec

from levelset import replace
from levelset.errors import BadObject
from levelset.runtime.webhook import Conversion, converts
from levelset_omnia.kinds.agentruntime import AgentRuntime, AgentRuntimeSpec, ProviderRef
from levelset_omnia.kinds.agentruntime_v1alpha1 import AgentRuntimeSpecV1Alpha1, AgentRuntimeV1Alpha1
from levelset_omnia.kinds.provider import ProviderConfig, SecretRef
from levelset_omnia.well_known import GROUP

__all__ = ["PROVIDER_ANNOTATION", "agent_runtime_conversion", "to_v1alpha1", "to_v1alpha2"]

PROVIDER_ANNOTATION: Final = f"{GROUP}/v1alpha2-provider"
"""On objects of v1alpha1: the provider and the reference of v1alpha2, as JSON."""
_NO_SECRET: Final = "none"  # noqa: S105 - the name of a Secret
"""The Secret that v1alpha1, which must name one, shows for an agent without any."""


class _ProviderFields(msgspec.Struct, rename="camel", omit_defaults=True):
    """The fields that v1alpha1 does not have."""

    provider: ProviderConfig | None = None
    provider_ref: ProviderRef | None = None


def agent_runtime_conversion() -> Conversion:
    """The conversion, for `webhooks` of a program."""
    return converts(AgentRuntime, AgentRuntimeV1Alpha1, to_hub=to_v1alpha2, from_hub=to_v1alpha1)


def to_v1alpha1(agent: AgentRuntime) -> AgentRuntimeV1Alpha1:
    """The agent in v1alpha1, with an annotation if that says less."""
    spec, annotations = agent.spec, dict(agent.metadata.annotations)
    fields = _ProviderFields(spec.provider, spec.provider_ref)
    secret = _secret_name(fields)
    annotations.pop(PROVIDER_ANNOTATION, None)
    if fields != _plain(secret):
        annotations[PROVIDER_ANNOTATION] = msgspec.json.encode(fields).decode()
    return AgentRuntimeV1Alpha1(
        metadata=replace(agent.metadata, annotations=annotations),
        spec=AgentRuntimeSpecV1Alpha1(provider_secret_ref=SecretRef(name=secret), **_shared(spec)),
        status=agent.status,
    )


def to_v1alpha2(agent: AgentRuntimeV1Alpha1) -> AgentRuntime:
    """The agent in v1alpha2; another Secret than that of the annotation replaces the key of its provider."""
    annotations = dict(agent.metadata.annotations)
    written, secret = annotations.pop(PROVIDER_ANNOTATION, None), agent.spec.provider_secret_ref.name
    fields = _plain(secret) if written is None else _read(written)
    if _secret_name(fields) != secret:
        fields = _ProviderFields(replace(fields.provider or ProviderConfig(), secret_ref=SecretRef(name=secret)))
    return AgentRuntime(
        metadata=replace(agent.metadata, annotations=annotations),
        spec=AgentRuntimeSpec(provider=fields.provider, provider_ref=fields.provider_ref, **_shared(agent.spec)),
        status=agent.status,
    )


def _shared(spec: AgentRuntimeSpec | AgentRuntimeSpecV1Alpha1) -> dict[str, Any]:
    """The fields that both versions have."""
    names = ("prompt_pack_ref", "facade", "tool_registry_ref", "session", "runtime")
    return {name: getattr(spec, name) for name in names}


def _secret_name(fields: _ProviderFields) -> str:
    secret = None if fields.provider is None else fields.provider.secret_ref
    return _NO_SECRET if secret is None else secret.name


def _plain(secret: str) -> _ProviderFields:
    """What an object of v1alpha1 means by itself."""
    return _ProviderFields(ProviderConfig(secret_ref=SecretRef(name=secret)))


def _read(written: str) -> _ProviderFields:
    try:
        return msgspec.json.decode(written.encode(), type=_ProviderFields)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadObject(
            f"annotation {PROVIDER_ANNOTATION}: {error}; remove it", field="metadata.annotations"
        ) from error
