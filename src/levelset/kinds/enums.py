"""The values that members of built-in kinds may take, as far as they are a closed set.

A type checker sees the values and finds a misspelt one. A running program sees texts: a newer cluster may
know more values, and an object that has one must still be read.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from typing import TYPE_CHECKING, Literal

__all__ = [
    "AccessMode",
    "AddressType",
    "ClaimPhase",
    "ClaimRetention",
    "CompletionMode",
    "ConcurrencyPolicy",
    "ConditionStatus",
    "ContainerRestartPolicy",
    "ConversionStrategy",
    "DNSPolicy",
    "DeploymentStrategyType",
    "DiskCaching",
    "DiskKind",
    "EventType",
    "FSGroupChangePolicy",
    "FSGroupPolicy",
    "FailurePolicy",
    "FlowDistinguisher",
    "HostPathType",
    "IPFamily",
    "IPFamilyPolicy",
    "KeyUsage",
    "LimitResponseType",
    "MatchPolicy",
    "MetricSourceType",
    "MetricTargetType",
    "MountPropagation",
    "NamespacePhase",
    "NodeAddressType",
    "NodeInclusionPolicy",
    "NodeSelectorOperator",
    "OSName",
    "Operation",
    "ParameterNotFoundAction",
    "PatchType",
    "PathType",
    "PodFailurePolicyAction",
    "PodManagementPolicy",
    "PodPhase",
    "PodReplacementPolicy",
    "PolicyType",
    "PreemptionPolicy",
    "PriorityLevelType",
    "ProcMount",
    "Protocol",
    "PullPolicy",
    "QOSClass",
    "QuotaOperator",
    "QuotaScope",
    "ReclaimPolicy",
    "RecursiveReadOnly",
    "ReinvocationPolicy",
    "ResizeRestartPolicy",
    "ResourceScope",
    "RestartPolicy",
    "RoleKind",
    "RuleScope",
    "SELinuxChangePolicy",
    "ScalingPolicyType",
    "ScalingSelect",
    "SecurityProfileType",
    "SelectorOperator",
    "ServiceType",
    "SessionAffinity",
    "SetOperator",
    "SideEffects",
    "SupplementalGroupsPolicy",
    "TaintEffect",
    "TerminationMessagePolicy",
    "TolerationOperator",
    "TrafficPolicy",
    "URIScheme",
    "UnhealthyEvictionPolicy",
    "UpdateStrategyType",
    "ValidationAction",
    "VolumeBindingMode",
    "VolumeLifecycleMode",
    "VolumeMode",
    "VolumePhase",
    "WhenUnsatisfiable",
]

if TYPE_CHECKING:
    AccessMode = Literal["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
    AddressType = Literal["FQDN", "IPv4", "IPv6"]
    ClaimPhase = Literal["Bound", "Lost", "Pending"]
    ClaimRetention = Literal["Delete", "Retain"]
    CompletionMode = Literal["Indexed", "NonIndexed"]
    ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]
    ConditionStatus = Literal["False", "True", "Unknown"]
    ContainerRestartPolicy = Literal["Always", "Never", "OnFailure"]
    ConversionStrategy = Literal["None", "Webhook"]
    DNSPolicy = Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]
    DeploymentStrategyType = Literal["Recreate", "RollingUpdate"]
    DiskCaching = Literal["None", "ReadOnly", "ReadWrite"]
    DiskKind = Literal["Dedicated", "Managed", "Shared"]
    EventType = Literal["Normal", "Warning"]
    FSGroupChangePolicy = Literal["Always", "OnRootMismatch"]
    FSGroupPolicy = Literal["File", "None", "ReadWriteOnceWithFSType"]
    FailurePolicy = Literal["Fail", "Ignore"]
    FlowDistinguisher = Literal["ByNamespace", "ByUser"]
    HostPathType = Literal[
        "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
    ]
    IPFamily = Literal["IPv4", "IPv6"]
    IPFamilyPolicy = Literal["PreferDualStack", "RequireDualStack", "SingleStack"]
    KeyUsage = Literal[
        "any",
        "cert sign",
        "client auth",
        "code signing",
        "content commitment",
        "crl sign",
        "data encipherment",
        "decipher only",
        "digital signature",
        "email protection",
        "encipher only",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "key agreement",
        "key encipherment",
        "microsoft sgc",
        "netscape sgc",
        "ocsp signing",
        "s/mime",
        "server auth",
        "signing",
        "timestamping",
    ]
    LimitResponseType = Literal["Queue", "Reject"]
    MatchPolicy = Literal["Equivalent", "Exact"]
    MetricSourceType = Literal["ContainerResource", "External", "Object", "Pods", "Resource"]
    MetricTargetType = Literal["AverageValue", "Utilization", "Value"]
    MountPropagation = Literal["Bidirectional", "HostToContainer", "None"]
    NamespacePhase = Literal["Active", "Terminating"]
    NodeAddressType = Literal["ExternalDNS", "ExternalIP", "Hostname", "InternalDNS", "InternalIP"]
    NodeInclusionPolicy = Literal["Honor", "Ignore"]
    NodeSelectorOperator = Literal["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"]
    OSName = Literal["linux", "windows"]
    Operation = Literal["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
    ParameterNotFoundAction = Literal["Allow", "Deny"]
    PatchType = Literal["ApplyConfiguration", "JSONPatch"]
    PathType = Literal["Exact", "ImplementationSpecific", "Prefix"]
    PodFailurePolicyAction = Literal["Count", "FailIndex", "FailJob", "Ignore"]
    PodManagementPolicy = Literal["OrderedReady", "Parallel"]
    PodPhase = Literal["Failed", "Pending", "Running", "Succeeded", "Unknown"]
    PodReplacementPolicy = Literal["Failed", "TerminatingOrFailed"]
    PolicyType = Literal["Egress", "Ingress"]
    PreemptionPolicy = Literal["Never", "PreemptLowerPriority"]
    PriorityLevelType = Literal["Exempt", "Limited"]
    ProcMount = Literal["Default", "Unmasked"]
    Protocol = Literal["SCTP", "TCP", "UDP"]
    PullPolicy = Literal["Always", "IfNotPresent", "Never"]
    QOSClass = Literal["BestEffort", "Burstable", "Guaranteed"]
    QuotaOperator = Literal["DoesNotExist", "Exists", "In", "NotIn"]
    QuotaScope = Literal[
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    ]
    ReclaimPolicy = Literal["Delete", "Recycle", "Retain"]
    RecursiveReadOnly = Literal["Disabled", "Enabled", "IfPossible"]
    ReinvocationPolicy = Literal["IfNeeded", "Never"]
    ResizeRestartPolicy = Literal["NotRequired", "RestartContainer"]
    ResourceScope = Literal["Cluster", "Namespaced"]
    RestartPolicy = Literal["Always", "Never", "OnFailure"]
    RoleKind = Literal["ClusterRole", "Role"]
    RuleScope = Literal["*", "Cluster", "Namespaced"]
    SELinuxChangePolicy = Literal["MountOption", "Recursive"]
    ScalingPolicyType = Literal["Percent", "Pods"]
    ScalingSelect = Literal["Disabled", "Max", "Min"]
    SecurityProfileType = Literal["Localhost", "RuntimeDefault", "Unconfined"]
    SelectorOperator = Literal["DoesNotExist", "Exists", "In", "NotIn"]
    ServiceType = Literal["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
    SessionAffinity = Literal["ClientIP", "None"]
    SetOperator = Literal["In", "NotIn"]
    SideEffects = Literal["None", "NoneOnDryRun", "Some", "Unknown"]
    SupplementalGroupsPolicy = Literal["Merge", "Strict"]
    TaintEffect = Literal["NoExecute", "NoSchedule", "PreferNoSchedule"]
    TerminationMessagePolicy = Literal["FallbackToLogsOnError", "File"]
    TolerationOperator = Literal["Equal", "Exists", "Gt", "Lt"]
    TrafficPolicy = Literal["Cluster", "Local"]
    URIScheme = Literal["HTTP", "HTTPS"]
    UnhealthyEvictionPolicy = Literal["AlwaysAllow", "IfHealthyBudget"]
    UpdateStrategyType = Literal["OnDelete", "RollingUpdate"]
    ValidationAction = Literal["Audit", "Deny", "Warn"]
    VolumeBindingMode = Literal["Immediate", "WaitForFirstConsumer"]
    VolumeLifecycleMode = Literal["Ephemeral", "Persistent"]
    VolumeMode = Literal["Block", "Filesystem"]
    VolumePhase = Literal["Available", "Bound", "Failed", "Pending", "Released"]
    WhenUnsatisfiable = Literal["DoNotSchedule", "ScheduleAnyway"]
else:
    AccessMode = str
    AddressType = str
    ClaimPhase = str
    ClaimRetention = str
    CompletionMode = str
    ConcurrencyPolicy = str
    ConditionStatus = str
    ContainerRestartPolicy = str
    ConversionStrategy = str
    DNSPolicy = str
    DeploymentStrategyType = str
    DiskCaching = str
    DiskKind = str
    EventType = str
    FSGroupChangePolicy = str
    FSGroupPolicy = str
    FailurePolicy = str
    FlowDistinguisher = str
    HostPathType = str
    IPFamily = str
    IPFamilyPolicy = str
    KeyUsage = str
    LimitResponseType = str
    MatchPolicy = str
    MetricSourceType = str
    MetricTargetType = str
    MountPropagation = str
    NamespacePhase = str
    NodeAddressType = str
    NodeInclusionPolicy = str
    NodeSelectorOperator = str
    OSName = str
    Operation = str
    ParameterNotFoundAction = str
    PatchType = str
    PathType = str
    PodFailurePolicyAction = str
    PodManagementPolicy = str
    PodPhase = str
    PodReplacementPolicy = str
    PolicyType = str
    PreemptionPolicy = str
    PriorityLevelType = str
    ProcMount = str
    Protocol = str
    PullPolicy = str
    QOSClass = str
    QuotaOperator = str
    QuotaScope = str
    ReclaimPolicy = str
    RecursiveReadOnly = str
    ReinvocationPolicy = str
    ResizeRestartPolicy = str
    ResourceScope = str
    RestartPolicy = str
    RoleKind = str
    RuleScope = str
    SELinuxChangePolicy = str
    ScalingPolicyType = str
    ScalingSelect = str
    SecurityProfileType = str
    SelectorOperator = str
    ServiceType = str
    SessionAffinity = str
    SetOperator = str
    SideEffects = str
    SupplementalGroupsPolicy = str
    TaintEffect = str
    TerminationMessagePolicy = str
    TolerationOperator = str
    TrafficPolicy = str
    URIScheme = str
    UnhealthyEvictionPolicy = str
    UpdateStrategyType = str
    ValidationAction = str
    VolumeBindingMode = str
    VolumeLifecycleMode = str
    VolumeMode = str
    VolumePhase = str
    WhenUnsatisfiable = str
