"""The template of a Pod, with containers, volumes and all.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from typing import Annotated

from levelset.kinds.core_v1_references import (
    LocalObjectReference,
    NodeSelector,
    NodeSelectorTerm,
    Toleration,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from levelset.kinds.enums import (
    AccessMode,
    ContainerRestartPolicy,
    DiskCaching,
    DiskKind,
    DNSPolicy,
    FSGroupChangePolicy,
    HostPathType,
    MountPropagation,
    NodeInclusionPolicy,
    OSName,
    PreemptionPolicy,
    ProcMount,
    Protocol,
    PullPolicy,
    RecursiveReadOnly,
    ResizeRestartPolicy,
    RestartPolicy,
    SecurityProfileType,
    SELinuxChangePolicy,
    SupplementalGroupsPolicy,
    TerminationMessagePolicy,
    URIScheme,
    VolumeMode,
    WhenUnsatisfiable,
)
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, ListMap, ListSet, Model, ObjectMeta, Quantity

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "Affinity",
    "AppArmorProfile",
    "AzureDiskVolumeSource",
    "AzureFileVolumeSource",
    "CSIVolumeSource",
    "Capabilities",
    "CephFSVolumeSource",
    "CinderVolumeSource",
    "ClusterTrustBundleProjection",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "Container",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "DownwardAPIProjection",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "EphemeralVolumeSource",
    "ExecAction",
    "FCVolumeSource",
    "FileKeySelector",
    "FlexVolumeSource",
    "FlockerVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "GRPCAction",
    "GitRepoVolumeSource",
    "GlusterfsVolumeSource",
    "HTTPGetAction",
    "HTTPHeader",
    "HostAlias",
    "HostPathVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "KeyToPath",
    "Lifecycle",
    "LifecycleHandler",
    "NFSVolumeSource",
    "NodeAffinity",
    "ObjectFieldSelector",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "PhotonPersistentDiskVolumeSource",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCertificateProjection",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSecurityContext",
    "PodSpec",
    "PodTemplateSpec",
    "PortworxVolumeSource",
    "PreferredSchedulingTerm",
    "Probe",
    "ProjectedVolumeSource",
    "QuobyteVolumeSource",
    "RBDVolumeSource",
    "ResourceClaim",
    "ResourceFieldSelector",
    "ResourceRequirements",
    "SELinuxOptions",
    "ScaleIOVolumeSource",
    "SeccompProfile",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
    "SecretVolumeSource",
    "SecurityContext",
    "ServiceAccountTokenProjection",
    "SleepAction",
    "StorageOSVolumeSource",
    "Sysctl",
    "TCPSocketAction",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeDevice",
    "VolumeMount",
    "VolumeProjection",
    "VolumeResourceRequirements",
    "VsphereVirtualDiskVolumeSource",
    "WeightedPodAffinityTerm",
    "WindowsSecurityContextOptions",
]


class AWSElasticBlockStoreVolumeSource(Model):
    """`awsElasticBlockStore` of Volume."""

    volume_id: str
    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None


class PreferredSchedulingTerm(Model):
    """One of `preferredDuringSchedulingIgnoredDuringExecution` of NodeAffinity."""

    preference: Annotated[NodeSelectorTerm, Atomic()]
    weight: int


class NodeAffinity(Model):
    """`nodeAffinity` of Affinity."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: Annotated[NodeSelector, Atomic()] | None = None


class PodAffinityTerm(Model):
    """One of `requiredDuringSchedulingIgnoredDuringExecution` of PodAffinity, and others."""

    topology_key: str
    label_selector: Annotated[LabelSelector, Atomic()] | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: Annotated[LabelSelector, Atomic()] | None = None
    namespaces: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model):
    """One of `preferredDuringSchedulingIgnoredDuringExecution` of PodAffinity, and others."""

    pod_affinity_term: PodAffinityTerm
    weight: int


class PodAffinity(Model):
    """`podAffinity` of Affinity."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(Model):
    """`podAntiAffinity` of Affinity."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Model):
    """Scheduling constraints of a Pod: node affinity, Pod affinity and anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class AppArmorProfile(Model):
    """`appArmorProfile` of PodSecurityContext, and others."""

    type: SecurityProfileType
    localhost_profile: str | None = None


class AzureDiskVolumeSource(Model):
    """`azureDisk` of Volume."""

    disk_name: str
    disk_uri: str
    caching_mode: DiskCaching | None = None
    fs_type: str | None = None
    kind: DiskKind | None = None
    read_only: bool | None = None


class AzureFileVolumeSource(Model):
    """`azureFile` of Volume."""

    secret_name: str
    share_name: str
    read_only: bool | None = None


class CSIVolumeSource(Model):
    """`csi` of Volume."""

    driver: str
    fs_type: str | None = None
    node_publish_secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] = {}


class Capabilities(Model):
    """What a container may do beyond, or short of, an ordinary process."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class CephFSVolumeSource(Model):
    """`cephfs` of Volume."""

    monitors: tuple[str, ...]
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None
    user: str | None = None


class CinderVolumeSource(Model):
    """`cinder` of Volume."""

    volume_id: str
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None


class ClusterTrustBundleProjection(Model):
    """`clusterTrustBundle` of VolumeProjection."""

    path: str
    label_selector: Annotated[LabelSelector, Atomic()] | None = None
    name: str | None = None
    optional: bool | None = None
    signer_name: str | None = None


class ConfigMapEnvSource(Model):
    """All settings of a ConfigMap, as variables."""

    name: str | None = None
    optional: bool | None = None


class ConfigMapKeySelector(Model):
    """One setting of a ConfigMap."""

    key: str
    name: str | None = None
    optional: bool | None = None


class KeyToPath(Model):
    """A key, and the file that its value is in."""

    key: str
    path: str
    mode: int | None = None


class ConfigMapProjection(Model):
    """`configMap` of VolumeProjection."""

    items: tuple[KeyToPath, ...] = ()
    name: str | None = None
    optional: bool | None = None


class ConfigMapVolumeSource(Model):
    """The settings of a ConfigMap, as files."""

    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    name: str | None = None
    optional: bool | None = None


class ObjectFieldSelector(Model):
    """`fieldRef` of DownwardAPIVolumeFile, and others."""

    field_path: str
    api_version: str | None = None


class FileKeySelector(Model):
    """`fileKeyRef` of EnvVarSource."""

    key: str
    path: str
    volume_name: str
    optional: bool | None = None


class ResourceFieldSelector(Model):
    """`resourceFieldRef` of DownwardAPIVolumeFile, and others."""

    resource: str
    container_name: str | None = None
    divisor: Quantity | None = None


class SecretKeySelector(Model):
    """One value of a Secret."""

    key: str
    name: str | None = None
    optional: bool | None = None


class EnvVarSource(Model):
    """Where the value of a variable comes from."""

    config_map_key_ref: Annotated[ConfigMapKeySelector, Atomic()] | None = None
    field_ref: Annotated[ObjectFieldSelector, Atomic()] | None = None
    file_key_ref: Annotated[FileKeySelector, Atomic()] | None = None
    resource_field_ref: Annotated[ResourceFieldSelector, Atomic()] | None = None
    secret_key_ref: Annotated[SecretKeySelector, Atomic()] | None = None


class EnvVar(Model):
    """A variable of a container's environment."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class SecretEnvSource(Model):
    """All values of a Secret, as variables."""

    name: str | None = None
    optional: bool | None = None


class EnvFromSource(Model):
    """Many variables at once, from a ConfigMap or a Secret."""

    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str | None = None
    secret_ref: SecretEnvSource | None = None


class ExecAction(Model):
    """A command that is run in a container."""

    command: tuple[str, ...] = ()


class HTTPHeader(Model):
    """One of `httpHeaders` of HTTPGetAction."""

    name: str
    value: str


class HTTPGetAction(Model):
    """A request that is sent to a container."""

    port: int | str
    host: str | None = None
    http_headers: tuple[HTTPHeader, ...] = ()
    path: str | None = None
    scheme: URIScheme | None = None


class SleepAction(Model):
    """`sleep` of LifecycleHandler."""

    seconds: int


class TCPSocketAction(Model):
    """A connection that is opened to a container."""

    port: int | str
    host: str | None = None


class LifecycleHandler(Model):
    """`postStart` of Lifecycle, and others."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(Model):
    """`lifecycle` of Container, and others."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class GRPCAction(Model):
    """`grpc` of Probe."""

    port: int
    service: str | None = None


class Probe(Model):
    """A periodic health check of a container."""

    exec: ExecAction | None = None
    failure_threshold: int | None = None
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int | None = None


class ContainerPort(Model):
    """A port that a container listens on."""

    container_port: int
    host_ip: str | None = None
    host_port: int | None = None
    name: str | None = None
    protocol: Protocol | None = None


class ContainerResizePolicy(Model):
    """One of `resizePolicy` of Container, and others."""

    resource_name: str
    restart_policy: ResizeRestartPolicy


class ResourceClaim(Model):
    """One of `claims` of ResourceRequirements."""

    name: str
    request: str | None = None


class ResourceRequirements(Model):
    """How much a container needs, and may use."""

    claims: Annotated[tuple[ResourceClaim, ...], ListMap("name")] = ()
    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}


class ContainerRestartRuleOnExitCodes(Model):
    """`exitCodes` of ContainerRestartRule."""

    operator: str
    values: Annotated[tuple[int, ...], ListSet()] = ()


class ContainerRestartRule(Model):
    """One of `restartPolicyRules` of Container, and others."""

    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class SELinuxOptions(Model):
    """`seLinuxOptions` of PodSecurityContext, and others."""

    level: str | None = None
    role: str | None = None
    type: str | None = None
    user: str | None = None


class SeccompProfile(Model):
    """`seccompProfile` of PodSecurityContext, and others."""

    type: SecurityProfileType
    localhost_profile: str | None = None


class WindowsSecurityContextOptions(Model):
    """`windowsOptions` of PodSecurityContext, and others."""

    gmsa_credential_spec: str | None = None
    gmsa_credential_spec_name: str | None = None
    host_process: bool | None = None
    run_as_user_name: str | None = None


class SecurityContext(Model):
    """As whom a container runs, and what it may do."""

    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: ProcMount | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(Model):
    """One of `volumeDevices` of Container, and others."""

    device_path: str
    name: str


class VolumeMount(Model):
    """Where a container finds a volume."""

    mount_path: str
    name: str
    mount_propagation: MountPropagation | None = None
    read_only: bool | None = None
    recursive_read_only: RecursiveReadOnly | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None


class Container(Model):
    """A program that runs in a Pod, from an image."""

    name: str
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Annotated[tuple[EnvVar, ...], ListMap("name")] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str | None = None
    image_pull_policy: PullPolicy | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    ports: Annotated[tuple[ContainerPort, ...], ListMap("containerPort", "protocol")] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: ContainerRestartPolicy | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str | None = None
    termination_message_policy: TerminationMessagePolicy | None = None
    tty: bool | None = None
    volume_devices: Annotated[tuple[VolumeDevice, ...], ListMap("devicePath")] = ()
    volume_mounts: Annotated[tuple[VolumeMount, ...], ListMap("mountPath")] = ()
    working_dir: str | None = None


class DownwardAPIVolumeFile(Model):
    """One of `items` of DownwardAPIProjection, and others."""

    path: str
    field_ref: Annotated[ObjectFieldSelector, Atomic()] | None = None
    mode: int | None = None
    resource_field_ref: Annotated[ResourceFieldSelector, Atomic()] | None = None


class DownwardAPIProjection(Model):
    """`downwardAPI` of VolumeProjection."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class DownwardAPIVolumeSource(Model):
    """`downwardAPI` of Volume."""

    default_mode: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class EmptyDirVolumeSource(Model):
    """A folder that is empty at first and goes away with its Pod."""

    medium: str | None = None
    size_limit: Quantity | None = None


class EphemeralContainer(Model):
    """One of `ephemeralContainers` of PodSpec."""

    name: str
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Annotated[tuple[EnvVar, ...], ListMap("name")] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str | None = None
    image_pull_policy: PullPolicy | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    ports: Annotated[tuple[ContainerPort, ...], ListMap("containerPort", "protocol")] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: ContainerRestartPolicy | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    target_container_name: str | None = None
    termination_message_path: str | None = None
    termination_message_policy: TerminationMessagePolicy | None = None
    tty: bool | None = None
    volume_devices: Annotated[tuple[VolumeDevice, ...], ListMap("devicePath")] = ()
    volume_mounts: Annotated[tuple[VolumeMount, ...], ListMap("mountPath")] = ()
    working_dir: str | None = None


class VolumeResourceRequirements(Model):
    """How large a volume must be, and may be."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}


class PersistentVolumeClaimSpec(Model):
    """`spec` of PersistentVolumeClaimTemplate."""

    access_modes: tuple[AccessMode, ...] = ()
    data_source: Annotated[TypedLocalObjectReference, Atomic()] | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    selector: Annotated[LabelSelector, Atomic()] | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: VolumeMode | None = None
    volume_name: str | None = None


class PersistentVolumeClaimTemplate(Model):
    """`volumeClaimTemplate` of EphemeralVolumeSource."""

    spec: PersistentVolumeClaimSpec
    metadata: ObjectMeta = ObjectMeta()


class EphemeralVolumeSource(Model):
    """`ephemeral` of Volume."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class FCVolumeSource(Model):
    """`fc` of Volume."""

    fs_type: str | None = None
    lun: int | None = None
    read_only: bool | None = None
    target_wwns: tuple[str, ...] = ()
    wwids: tuple[str, ...] = ()


class FlexVolumeSource(Model):
    """`flexVolume` of Volume."""

    driver: str
    fs_type: str | None = None
    options: dict[str, str] = {}
    read_only: bool | None = None
    secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None


class FlockerVolumeSource(Model):
    """`flocker` of Volume."""

    dataset_name: str | None = None
    dataset_uuid: str | None = None


class GCEPersistentDiskVolumeSource(Model):
    """`gcePersistentDisk` of Volume."""

    pd_name: str
    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None


class GitRepoVolumeSource(Model):
    """`gitRepo` of Volume."""

    repository: str
    directory: str | None = None
    revision: str | None = None


class GlusterfsVolumeSource(Model):
    """`glusterfs` of Volume."""

    endpoints: str
    path: str
    read_only: bool | None = None


class HostAlias(Model):
    """One of `hostAliases` of PodSpec."""

    ip: str
    hostnames: tuple[str, ...] = ()


class HostPathVolumeSource(Model):
    """`hostPath` of Volume."""

    path: str
    type: HostPathType | None = None


class ISCSIVolumeSource(Model):
    """`iscsi` of Volume."""

    iqn: str
    lun: int
    target_portal: str
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iscsi_interface: str | None = None
    portals: tuple[str, ...] = ()
    read_only: bool | None = None
    secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None


class ImageVolumeSource(Model):
    """`image` of Volume."""

    pull_policy: PullPolicy | None = None
    reference: str | None = None


class NFSVolumeSource(Model):
    """`nfs` of Volume."""

    path: str
    server: str
    read_only: bool | None = None


class PersistentVolumeClaimVolumeSource(Model):
    """The volume that a claim has got."""

    claim_name: str
    read_only: bool | None = None


class PhotonPersistentDiskVolumeSource(Model):
    """`photonPersistentDisk` of Volume."""

    pd_id: str
    fs_type: str | None = None


class PodCertificateProjection(Model):
    """`podCertificate` of VolumeProjection."""

    key_type: str
    signer_name: str
    certificate_chain_path: str | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    max_expiration_seconds: int | None = None
    user_annotations: dict[str, str] = {}


class PodDNSConfigOption(Model):
    """One of `options` of PodDNSConfig."""

    name: str | None = None
    value: str | None = None


class PodDNSConfig(Model):
    """`dnsConfig` of PodSpec."""

    nameservers: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    searches: tuple[str, ...] = ()


class PodOS(Model):
    """`os` of PodSpec."""

    name: OSName


class PodReadinessGate(Model):
    """One of `readinessGates` of PodSpec."""

    condition_type: str


class PodResourceClaim(Model):
    """One of `resourceClaims` of PodSpec."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Model):
    """One of `schedulingGates` of PodSpec."""

    name: str


class PodSchedulingGroup(Model):
    """`schedulingGroup` of PodSpec."""

    pod_group_name: str | None = None


class Sysctl(Model):
    """One of `sysctls` of PodSecurityContext."""

    name: str
    value: str


class PodSecurityContext(Model):
    """As whom a Pod's containers run, and what they may do."""

    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: FSGroupChangePolicy | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: SELinuxChangePolicy | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: SupplementalGroupsPolicy | None = None
    sysctls: tuple[Sysctl, ...] = ()
    windows_options: WindowsSecurityContextOptions | None = None


class TopologySpreadConstraint(Model):
    """How evenly Pods are spread over zones or nodes."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: WhenUnsatisfiable
    label_selector: Annotated[LabelSelector, Atomic()] | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int | None = None
    node_affinity_policy: NodeInclusionPolicy | None = None
    node_taints_policy: NodeInclusionPolicy | None = None


class PortworxVolumeSource(Model):
    """`portworxVolume` of Volume."""

    volume_id: str
    fs_type: str | None = None
    read_only: bool | None = None


class SecretProjection(Model):
    """`secret` of VolumeProjection."""

    items: tuple[KeyToPath, ...] = ()
    name: str | None = None
    optional: bool | None = None


class ServiceAccountTokenProjection(Model):
    """`serviceAccountToken` of VolumeProjection."""

    path: str
    audience: str | None = None
    expiration_seconds: int | None = None


class VolumeProjection(Model):
    """One of `sources` of ProjectedVolumeSource."""

    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Model):
    """`projected` of Volume."""

    default_mode: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


class QuobyteVolumeSource(Model):
    """`quobyte` of Volume."""

    registry: str
    volume: str
    group: str | None = None
    read_only: bool | None = None
    tenant: str | None = None
    user: str | None = None


class RBDVolumeSource(Model):
    """`rbd` of Volume."""

    image: str
    monitors: tuple[str, ...]
    fs_type: str | None = None
    keyring: str | None = None
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None
    user: str | None = None


class ScaleIOVolumeSource(Model):
    """`scaleIO` of Volume."""

    gateway: str
    secret_ref: Annotated[LocalObjectReference, Atomic()]
    system: str
    fs_type: str | None = None
    protection_domain: str | None = None
    read_only: bool | None = None
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    volume_name: str | None = None


class SecretVolumeSource(Model):
    """The values of a Secret, as files."""

    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str | None = None


class StorageOSVolumeSource(Model):
    """`storageos` of Volume."""

    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: Annotated[LocalObjectReference, Atomic()] | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class VsphereVirtualDiskVolumeSource(Model):
    """`vsphereVolume` of Volume."""

    volume_path: str
    fs_type: str | None = None
    storage_policy_id: str | None = None
    storage_policy_name: str | None = None


class Volume(Model):
    """A folder that containers of a Pod may share."""

    name: str
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PodSpec(Model):
    """`spec` of PodTemplateSpec."""

    containers: Annotated[tuple[Container, ...], ListMap("name")]
    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    dns_config: PodDNSConfig | None = None
    dns_policy: DNSPolicy | None = None
    enable_service_links: bool | None = None
    ephemeral_containers: Annotated[tuple[EphemeralContainer, ...], ListMap("name")] = ()
    host_aliases: Annotated[tuple[HostAlias, ...], ListMap("ip")] = ()
    host_ipc: bool | None = None
    host_network: bool | None = None
    host_pid: bool | None = None
    host_users: bool | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...], ListMap("name")] = ()
    init_containers: Annotated[tuple[Container, ...], ListMap("name")] = ()
    node_name: str | None = None
    node_selector: Annotated[dict[str, str], Atomic()] = {}
    os: PodOS | None = None
    overhead: dict[str, Quantity] = {}
    preemption_policy: PreemptionPolicy | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: Annotated[tuple[PodResourceClaim, ...], ListMap("name")] = ()
    resources: ResourceRequirements | None = None
    restart_policy: RestartPolicy | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: Annotated[tuple[PodSchedulingGate, ...], ListMap("name")] = ()
    scheduling_group: PodSchedulingGroup | None = None
    security_context: PodSecurityContext | None = None
    service_account: str | None = None
    service_account_name: str | None = None
    set_hostname_as_fqdn: bool | None = None
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: Annotated[
        tuple[TopologySpreadConstraint, ...], ListMap("topologyKey", "whenUnsatisfiable")
    ] = ()
    volumes: Annotated[tuple[Volume, ...], ListMap("name")] = ()


class PodTemplateSpec(Model):
    """The template of the Pods that a workload creates."""

    spec: PodSpec
    metadata: ObjectMeta = ObjectMeta()
