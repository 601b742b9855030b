"""The kinds of resource.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated, Any

from levelset.kinds.core_v1_references import NodeSelector
from levelset.objects import Atomic, Condition, ListMap, Model, ObjectMeta, Quantity, Resource, Spec, Status

__all__ = [
    "AllocatedDeviceStatus",
    "AllocationResult",
    "CELDeviceSelector",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "CapacityRequirements",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAllocationConfiguration",
    "DeviceAllocationResult",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClaimConfiguration",
    "DeviceClass",
    "DeviceClassConfiguration",
    "DeviceClassSpec",
    "DeviceConstraint",
    "DeviceCounterConsumption",
    "DeviceRequest",
    "DeviceRequestAllocationResult",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceToleration",
    "ExactDeviceRequest",
    "NetworkDeviceData",
    "NodeAllocatableResourceMapping",
    "OpaqueDeviceConfiguration",
    "ResourceClaim",
    "ResourceClaimConsumerReference",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourcePool",
    "ResourceSlice",
    "ResourceSliceSpec",
]


class NetworkDeviceData(Model):
    """`networkData` of AllocatedDeviceStatus."""

    hardware_address: str | None = None
    interface_name: str | None = None
    ips: tuple[str, ...] = ()


class AllocatedDeviceStatus(Model):
    """One of `devices` of ResourceClaimStatus."""

    device: str
    driver: str
    pool: str
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    data: Any = None
    network_data: NetworkDeviceData | None = None
    share_id: str | None = None


class OpaqueDeviceConfiguration(Model):
    """`opaque` of DeviceAllocationConfiguration, and others."""

    driver: str
    parameters: Any


class DeviceAllocationConfiguration(Model):
    """One of `config` of DeviceAllocationResult."""

    source: str
    opaque: OpaqueDeviceConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceToleration(Model):
    """One of `tolerations` of DeviceRequestAllocationResult, and others."""

    effect: str | None = None
    key: str | None = None
    operator: str | None = None
    toleration_seconds: int | None = None
    value: str | None = None


class DeviceRequestAllocationResult(Model):
    """One of `results` of DeviceAllocationResult."""

    device: str
    driver: str
    pool: str
    request: str
    admin_access: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    consumed_capacity: dict[str, Quantity] = {}
    share_id: str | None = None
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceAllocationResult(Model):
    """`devices` of AllocationResult."""

    config: tuple[DeviceAllocationConfiguration, ...] = ()
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Model):
    """`allocation` of ResourceClaimStatus."""

    allocation_timestamp: datetime | None = None
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: Annotated[NodeSelector, Atomic()] | None = None


class CELDeviceSelector(Model):
    """`cel` of DeviceSelector."""

    expression: str


class CapacityRequestPolicyRange(Model):
    """`validRange` of CapacityRequestPolicy."""

    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Model):
    """`requestPolicy` of DeviceCapacity."""

    default: Quantity | None = None
    valid_range: CapacityRequestPolicyRange | None = None
    valid_values: tuple[Quantity, ...] = ()


class CapacityRequirements(Model):
    """`capacity` of DeviceSubRequest, and others."""

    requests: dict[str, Quantity] = {}


class Counter(Model):
    """A value in `counters` of CounterSet, and others."""

    value: Quantity


class CounterSet(Model):
    """One of `sharedCounters` of ResourceSliceSpec."""

    counters: dict[str, Counter]
    name: str


class DeviceAttribute(Model):
    """A value in `attributes` of Device."""

    bool_: bool | None = None
    bools: tuple[bool, ...] = ()
    int_: int | None = None
    ints: tuple[int, ...] = ()
    string: str | None = None
    strings: tuple[str, ...] = ()
    version: str | None = None
    versions: tuple[str, ...] = ()


class DeviceCapacity(Model):
    """A value in `capacity` of Device."""

    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounterConsumption(Model):
    """One of `consumesCounters` of Device."""

    counter_set: str
    counters: dict[str, Counter]


class NodeAllocatableResourceMapping(Model):
    """A value in `nodeAllocatableResourceMappings` of Device."""

    allocation_multiplier: Quantity | None = None
    capacity_key: str | None = None


class DeviceTaint(Model):
    """One of `taints` of Device."""

    effect: str
    key: str
    time_added: datetime | None = None
    value: str | None = None


class Device(Model):
    """One of `devices` of ResourceSliceSpec."""

    name: str
    all_nodes: bool | None = None
    allow_multiple_allocations: bool | None = None
    attributes: dict[str, DeviceAttribute] = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    binds_to_node: bool | None = None
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    node_name: str | None = None
    node_selector: Annotated[NodeSelector, Atomic()] | None = None
    taints: tuple[DeviceTaint, ...] = ()


class DeviceClaimConfiguration(Model):
    """One of `config` of DeviceClaim."""

    opaque: OpaqueDeviceConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceConstraint(Model):
    """One of `constraints` of DeviceClaim."""

    distinct_attribute: str | None = None
    match_attribute: str | None = None
    requests: tuple[str, ...] = ()


class DeviceSelector(Model):
    """One of `selectors` of DeviceClassSpec, and others."""

    cel: CELDeviceSelector | None = None


class ExactDeviceRequest(Model):
    """`exactly` of DeviceRequest."""

    device_class_name: str
    admin_access: bool | None = None
    allocation_mode: str | None = None
    capacity: CapacityRequirements | None = None
    count: int | None = None
    selectors: tuple[DeviceSelector, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceSubRequest(Model):
    """One of `firstAvailable` of DeviceRequest."""

    device_class_name: str
    name: str
    allocation_mode: str | None = None
    capacity: CapacityRequirements | None = None
    count: int | None = None
    selectors: tuple[DeviceSelector, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceRequest(Model):
    """One of `requests` of DeviceClaim."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceClaim(Model):
    """`devices` of ResourceClaimSpec."""

    config: tuple[DeviceClaimConfiguration, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    requests: tuple[DeviceRequest, ...] = ()


class DeviceClassConfiguration(Model):
    """One of `config` of DeviceClassSpec."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Spec):
    """`spec` of DeviceClass."""

    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None
    selectors: tuple[DeviceSelector, ...] = ()


class ResourceClaimConsumerReference(Model):
    """One of `reservedFor` of ResourceClaimStatus."""

    name: str
    resource: str
    uid: str
    api_group: str | None = None


class ResourceClaimSpec(Spec):
    """`spec` of ResourceClaim, and others."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaimStatus(Status):
    """`status` of ResourceClaim."""

    allocation: AllocationResult | None = None
    devices: Annotated[tuple[AllocatedDeviceStatus, ...], ListMap("driver", "device", "pool", "shareID")] = ()
    reserved_for: Annotated[tuple[ResourceClaimConsumerReference, ...], ListMap("uid")] = ()


class ResourceClaimTemplateSpec(Spec):
    """`spec` of ResourceClaimTemplate."""

    spec: ResourceClaimSpec
    metadata: ObjectMeta = ObjectMeta()


class ResourcePool(Model):
    """`pool` of ResourceSliceSpec."""

    generation: int
    name: str
    resource_slice_count: int


class ResourceSliceSpec(Spec):
    """`spec` of ResourceSlice."""

    driver: str
    pool: ResourcePool
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    node_name: str | None = None
    node_selector: Annotated[NodeSelector, Atomic()] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class DeviceClass(Resource[DeviceClassSpec, None], api="resource.k8s.io/v1", scope="Cluster"):
    """A set of devices with a common configuration, which claims name."""


class ResourceClaim(Resource[ResourceClaimSpec, ResourceClaimStatus], api="resource.k8s.io/v1"):
    """A request for devices, and the devices that were allocated to it."""


class ResourceClaimTemplate(Resource[ResourceClaimTemplateSpec, None], api="resource.k8s.io/v1"):
    """A template for the ResourceClaims of Pods."""


class ResourceSlice(Resource[ResourceSliceSpec, None], api="resource.k8s.io/v1", scope="Cluster"):
    """A part of the devices of a pool, as their driver publishes them."""
