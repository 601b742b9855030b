"""The kinds of apiextensions.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated, Any

from levelset.kinds.enums import ConditionStatus, ConversionStrategy, ResourceScope
from levelset.objects import ListMap, Model, Resource, Spec, Status, field

__all__ = [
    "CustomResourceColumnDefinition",
    "CustomResourceConversion",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCondition",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
    "CustomResourceDefinitionVersion",
    "CustomResourceSubresourceScale",
    "CustomResourceSubresources",
    "CustomResourceValidation",
    "ExternalDocumentation",
    "JSONSchemaProps",
    "SelectableField",
    "ServiceReference",
    "ValidationRule",
    "WebhookClientConfig",
    "WebhookConversion",
]


class CustomResourceColumnDefinition(Model):
    """One of `additionalPrinterColumns` of CustomResourceDefinitionVersion."""

    json_path: str
    name: str
    type: str
    description: str | None = None
    format: str | None = None
    priority: int | None = None


class ServiceReference(Model):
    """`service` of WebhookClientConfig."""

    name: str
    namespace: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Model):
    """`clientConfig` of WebhookConversion."""

    ca_bundle: bytes | None = None
    service: ServiceReference | None = None
    url: str | None = None


class WebhookConversion(Model):
    """`webhook` of CustomResourceConversion."""

    conversion_review_versions: tuple[str, ...]
    client_config: WebhookClientConfig | None = None


class CustomResourceConversion(Model):
    """`conversion` of CustomResourceDefinitionSpec."""

    strategy: ConversionStrategy
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionCondition(Model):
    """One of `conditions` of CustomResourceDefinitionStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None


class CustomResourceDefinitionNames(Model):
    """`names` of CustomResourceDefinitionSpec, and others."""

    kind: str
    plural: str
    categories: tuple[str, ...] = ()
    list_kind: str | None = None
    short_names: tuple[str, ...] = ()
    singular: str | None = None


class ExternalDocumentation(Model):
    """`externalDocs` of JSONSchemaProps."""

    description: str | None = None
    url: str | None = None


class ValidationRule(Model):
    """One of `x-kubernetes-validations` of JSONSchemaProps."""

    rule: str
    field_path: str | None = None
    message: str | None = None
    message_expression: str | None = None
    optional_old_self: bool | None = None
    reason: str | None = None


class JSONSchemaProps(Model):
    """`openAPIV3Schema` of CustomResourceValidation, and others."""

    ref: str | None = field(default=None, name="$ref")
    schema: str | None = field(default=None, name="$schema")
    additional_items: "JSONSchemaProps | bool | None" = None
    additional_properties: "JSONSchemaProps | bool | None" = None
    all_of: "tuple[JSONSchemaProps, ...]" = ()
    any_of: "tuple[JSONSchemaProps, ...]" = ()
    default: Any = None
    definitions: "dict[str, JSONSchemaProps]" = {}
    dependencies: "dict[str, JSONSchemaProps | tuple[str, ...]]" = {}
    description: str | None = None
    enum: tuple[Any, ...] = ()
    example: Any = None
    exclusive_maximum: bool | None = None
    exclusive_minimum: bool | None = None
    external_docs: ExternalDocumentation | None = None
    format: str | None = None
    id: str | None = None
    items: "JSONSchemaProps | tuple[JSONSchemaProps, ...] | None" = None
    max_items: int | None = None
    max_length: int | None = None
    max_properties: int | None = None
    maximum: float | None = None
    min_items: int | None = None
    min_length: int | None = None
    min_properties: int | None = None
    minimum: float | None = None
    multiple_of: float | None = None
    not_: "JSONSchemaProps | None" = None
    nullable: bool | None = None
    one_of: "tuple[JSONSchemaProps, ...]" = ()
    pattern: str | None = None
    pattern_properties: "dict[str, JSONSchemaProps]" = {}
    properties: "dict[str, JSONSchemaProps]" = {}
    required: tuple[str, ...] = ()
    title: str | None = None
    type: str | None = None
    unique_items: bool | None = None
    x_kubernetes_embedded_resource: bool | None = field(default=None, name="x-kubernetes-embedded-resource")
    x_kubernetes_int_or_string: bool | None = field(default=None, name="x-kubernetes-int-or-string")
    x_kubernetes_list_map_keys: tuple[str, ...] = field(default=(), name="x-kubernetes-list-map-keys")
    x_kubernetes_list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    x_kubernetes_map_type: str | None = field(default=None, name="x-kubernetes-map-type")
    x_kubernetes_preserve_unknown_fields: bool | None = field(default=None, name="x-kubernetes-preserve-unknown-fields")
    x_kubernetes_validations: Annotated[tuple[ValidationRule, ...], ListMap("rule")] = field(
        default=(), name="x-kubernetes-validations"
    )


class CustomResourceValidation(Model):
    """`schema` of CustomResourceDefinitionVersion."""

    open_api_v3_schema: JSONSchemaProps | None = None


class SelectableField(Model):
    """One of `selectableFields` of CustomResourceDefinitionVersion."""

    json_path: str


class CustomResourceSubresourceScale(Model):
    """`scale` of CustomResourceSubresources."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str | None = None


class CustomResourceSubresources(Model):
    """`subresources` of CustomResourceDefinitionVersion."""

    scale: CustomResourceSubresourceScale | None = None
    status: dict[str, Any] | None = None


class CustomResourceDefinitionVersion(Model):
    """One of `versions` of CustomResourceDefinitionSpec."""

    name: str
    served: bool
    storage: bool
    additional_printer_columns: tuple[CustomResourceColumnDefinition, ...] = ()
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema: CustomResourceValidation | None = None
    selectable_fields: tuple[SelectableField, ...] = ()
    subresources: CustomResourceSubresources | None = None


class CustomResourceDefinitionSpec(Spec):
    """`spec` of CustomResourceDefinition."""

    group: str
    names: CustomResourceDefinitionNames
    scope: ResourceScope
    versions: tuple[CustomResourceDefinitionVersion, ...]
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: bool | None = None


class CustomResourceDefinitionStatus(Status):
    """`status` of CustomResourceDefinition."""

    accepted_names: CustomResourceDefinitionNames | None = None
    conditions: Annotated[tuple[CustomResourceDefinitionCondition, ...], ListMap("type")] = ()
    observed_generation: int | None = None
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(
    Resource[CustomResourceDefinitionSpec, CustomResourceDefinitionStatus],
    api="apiextensions.k8s.io/v1",
    scope="Cluster",
    short_names=["crd", "crds"],
    categories=["api-extensions"],
):
    """A custom resource: its names, its versions and their schemas."""
