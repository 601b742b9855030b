"""Facts about the built-in kinds that their OpenAPI documents do not contain; for scripts/generate_kinds.py.

Maintained by hand. A row that no longer matches the documents stops the script.
"""

from typing import Final

__all__ = ["COMMON", "COUNTS", "ENUMS", "NEEDED", "NULL_LISTS", "PARTS", "SENTENCES", "SHORT_NAMES", "TITLES"]

# The parts of large versions, each with what it begins with; a part also has all that these lead to, unless an earlier
# part has it. The last column is the sentence that the module begins with.
PARTS: Final = {
    "v1": (
        (
            "references",
            (
                "LocalObjectReference NodeSelector ObjectReference SecretReference Toleration TopologySelectorTerm "
                "TypedLocalObjectReference TypedObjectReference"
            ),
            "References to other objects, and selectors of nodes.",
        ),
        ("templates", "PodTemplateSpec", "The template of a Pod, with containers, volumes and all."),
        ("pods", "Binding Pod PodTemplate ReplicationController", "Pods, and what is made of their templates."),
        ("volumes", "PersistentVolume PersistentVolumeClaim", "Volumes that outlive their Pods, and claims to them."),
        ("network", "Endpoints Service", "Services, and where their Pods are reached."),
        (
            "config",
            "ConfigMap LimitRange Namespace ResourceQuota Secret ServiceAccount",
            "What Pods are given to live with: names, settings, secrets, identities, limits.",
        ),
        ("nodes", "ComponentStatus Node", "Machines, and what they report."),
        ("events", "Event", "Events, the old kind that most programs still write."),
    ),
    "apps/v1": (
        ("deployments", "Deployment ReplicaSet", "Deployments, and the sets of Pods that they make."),
        ("sets", "ControllerRevision DaemonSet StatefulSet", "Pods that are tied to nodes, or to names and volumes."),
    ),
}

# Integers that a server leaves out when they are zero. All others may be missing and mean something else then.
COUNTS: Final = {
    "apps.v1.DaemonSetStatus": "numberAvailable numberUnavailable observedGeneration updatedNumberScheduled",
    "apps.v1.DeploymentStatus": (
        "availableReplicas observedGeneration readyReplicas replicas unavailableReplicas updatedReplicas"
    ),
    "apps.v1.ReplicaSetStatus": "availableReplicas fullyLabeledReplicas observedGeneration readyReplicas",
    "apps.v1.StatefulSetStatus": ("availableReplicas currentReplicas observedGeneration readyReplicas updatedReplicas"),
    "autoscaling.v1.ScaleSpec": "replicas",
    "autoscaling.v2.HorizontalPodAutoscalerStatus": "currentReplicas",
    "batch.v1.JobStatus": "active failed succeeded",
    "core.v1.ReplicationControllerStatus": "availableReplicas fullyLabeledReplicas observedGeneration readyReplicas",
    "policy.v1.PodDisruptionBudgetStatus": "observedGeneration",
}

# Required lists that a server writes as null when they are empty.
NULL_LISTS: Final = {
    "authorization.v1.SubjectRulesReviewStatus": "nonResourceRules resourceRules",
    "core.v1.LimitRangeSpec": "limits",
    "storage.v1.CSINodeSpec": "drivers",
}

# Members that are always present although the documents call them optional.
NEEDED: Final = {
    "batch.v1.JobTemplateSpec": "spec",
    "core.v1.PodTemplateSpec": "spec",
}

# Each set of values with its name, and the members that take one of them, or lists of them.
ENUMS: Final = {
    "AccessMode": (
        "ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod",
        (
            "core.v1.PersistentVolumeClaimSpec.accessModes core.v1.PersistentVolumeClaimStatus.accessModes "
            "core.v1.PersistentVolumeSpec.accessModes"
        ),
    ),
    "AddressType": ("FQDN IPv4 IPv6", "discovery.v1.EndpointSlice.addressType"),
    "ClaimPhase": ("Bound Lost Pending", "core.v1.PersistentVolumeClaimStatus.phase"),
    "ClaimRetention": (
        "Delete Retain",
        (
            "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted "
            "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled"
        ),
    ),
    "CompletionMode": ("Indexed NonIndexed", "batch.v1.JobSpec.completionMode"),
    "ConcurrencyPolicy": ("Allow Forbid Replace", "batch.v1.CronJobSpec.concurrencyPolicy"),
    # Every `status` of a definition that is called a condition.
    "ConditionStatus": ("False True Unknown", ""),
    "ContainerRestartPolicy": (
        "Always Never OnFailure",
        "core.v1.Container.restartPolicy core.v1.EphemeralContainer.restartPolicy",
    ),
    "ConversionStrategy": ("None Webhook", "apiextensions.v1.CustomResourceConversion.strategy"),
    "DNSPolicy": ("ClusterFirst ClusterFirstWithHostNet Default None", "core.v1.PodSpec.dnsPolicy"),
    "DeploymentStrategyType": ("Recreate RollingUpdate", "apps.v1.DeploymentStrategy.type"),
    "DiskCaching": ("None ReadOnly ReadWrite", "core.v1.AzureDiskVolumeSource.cachingMode"),
    "DiskKind": ("Dedicated Managed Shared", "core.v1.AzureDiskVolumeSource.kind"),
    "EventType": ("Normal Warning", "core.v1.Event.type events.v1.Event.type"),
    "FSGroupChangePolicy": ("Always OnRootMismatch", "core.v1.PodSecurityContext.fsGroupChangePolicy"),
    "FSGroupPolicy": ("File None ReadWriteOnceWithFSType", "storage.v1.CSIDriverSpec.fsGroupPolicy"),
    "FailurePolicy": (
        "Fail Ignore",
        (
            "admissionregistration.v1.MutatingAdmissionPolicySpec.failurePolicy "
            "admissionregistration.v1.MutatingWebhook.failurePolicy "
            "admissionregistration.v1.ValidatingAdmissionPolicySpec.failurePolicy "
            "admissionregistration.v1.ValidatingWebhook.failurePolicy"
        ),
    ),
    "FlowDistinguisher": ("ByNamespace ByUser", "flowcontrol.v1.FlowDistinguisherMethod.type"),
    "HostPathType": (
        "_ BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket",
        "core.v1.HostPathVolumeSource.type",
    ),
    "IPFamily": ("IPv4 IPv6", "core.v1.ServiceSpec.ipFamilies"),
    "IPFamilyPolicy": ("PreferDualStack RequireDualStack SingleStack", "core.v1.ServiceSpec.ipFamilyPolicy"),
    "KeyUsage": (
        (
            "any|cert sign|client auth|code signing|content commitment|crl sign|data encipherment|decipher only|"
            "digital signature|email protection|encipher only|ipsec end system|ipsec tunnel|ipsec user|key agreement|"
            "key encipherment|microsoft sgc|netscape sgc|ocsp signing|s/mime|server auth|signing|timestamping"
        ),
        "certificates.v1.CertificateSigningRequestSpec.usages",
    ),
    "LimitResponseType": ("Queue Reject", "flowcontrol.v1.LimitResponse.type"),
    "MatchPolicy": (
        "Equivalent Exact",
        (
            "admissionregistration.v1.MatchResources.matchPolicy admissionregistration.v1.MutatingWebhook.matchPolicy "
            "admissionregistration.v1.ValidatingWebhook.matchPolicy"
        ),
    ),
    "MetricSourceType": (
        "ContainerResource External Object Pods Resource",
        "autoscaling.v2.MetricSpec.type autoscaling.v2.MetricStatus.type",
    ),
    "MetricTargetType": ("AverageValue Utilization Value", "autoscaling.v2.MetricTarget.type"),
    "MountPropagation": ("Bidirectional HostToContainer None", "core.v1.VolumeMount.mountPropagation"),
    "NamespacePhase": ("Active Terminating", "core.v1.NamespaceStatus.phase"),
    "NodeAddressType": ("ExternalDNS ExternalIP Hostname InternalDNS InternalIP", "core.v1.NodeAddress.type"),
    "NodeInclusionPolicy": (
        "Honor Ignore",
        "core.v1.TopologySpreadConstraint.nodeAffinityPolicy core.v1.TopologySpreadConstraint.nodeTaintsPolicy",
    ),
    "NodeSelectorOperator": ("DoesNotExist Exists Gt In Lt NotIn", "core.v1.NodeSelectorRequirement.operator"),
    "OSName": ("linux windows", "core.v1.PodOS.name"),
    "Operation": (
        "* CONNECT CREATE DELETE UPDATE",
        (
            "admissionregistration.v1.NamedRuleWithOperations.operations "
            "admissionregistration.v1.RuleWithOperations.operations"
        ),
    ),
    "ParameterNotFoundAction": ("Allow Deny", "admissionregistration.v1.ParamRef.parameterNotFoundAction"),
    "PatchType": ("ApplyConfiguration JSONPatch", "admissionregistration.v1.Mutation.patchType"),
    "PathType": ("Exact ImplementationSpecific Prefix", "networking.v1.HTTPIngressPath.pathType"),
    "PodFailurePolicyAction": ("Count FailIndex FailJob Ignore", "batch.v1.PodFailurePolicyRule.action"),
    "PodManagementPolicy": ("OrderedReady Parallel", "apps.v1.StatefulSetSpec.podManagementPolicy"),
    "PodPhase": ("Failed Pending Running Succeeded Unknown", "core.v1.PodStatus.phase"),
    "PodReplacementPolicy": ("Failed TerminatingOrFailed", "batch.v1.JobSpec.podReplacementPolicy"),
    "PolicyType": ("Egress Ingress", "networking.v1.NetworkPolicySpec.policyTypes"),
    "PreemptionPolicy": (
        "Never PreemptLowerPriority",
        "core.v1.PodSpec.preemptionPolicy scheduling.v1.PriorityClass.preemptionPolicy",
    ),
    "PriorityLevelType": ("Exempt Limited", "flowcontrol.v1.PriorityLevelConfigurationSpec.type"),
    "ProcMount": ("Default Unmasked", "core.v1.SecurityContext.procMount"),
    "Protocol": (
        "SCTP TCP UDP",
        (
            "core.v1.ContainerPort.protocol core.v1.EndpointPort.protocol core.v1.PortStatus.protocol "
            "core.v1.ServicePort.protocol discovery.v1.EndpointPort.protocol networking.v1.NetworkPolicyPort.protocol"
        ),
    ),
    "PullPolicy": (
        "Always IfNotPresent Never",
        (
            "core.v1.Container.imagePullPolicy core.v1.EphemeralContainer.imagePullPolicy "
            "core.v1.ImageVolumeSource.pullPolicy"
        ),
    ),
    "QOSClass": ("BestEffort Burstable Guaranteed", "core.v1.PodStatus.qosClass"),
    "QuotaScope": (
        (
            "BestEffort CrossNamespacePodAffinity NotBestEffort NotTerminating PriorityClass Terminating "
            "VolumeAttributesClass"
        ),
        "core.v1.ResourceQuotaSpec.scopes core.v1.ScopedResourceSelectorRequirement.scopeName",
    ),
    "QuotaOperator": ("DoesNotExist Exists In NotIn", "core.v1.ScopedResourceSelectorRequirement.operator"),
    "ReclaimPolicy": (
        "Delete Recycle Retain",
        "core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy storage.v1.StorageClass.reclaimPolicy",
    ),
    "RecursiveReadOnly": (
        "Disabled Enabled IfPossible",
        "core.v1.VolumeMount.recursiveReadOnly core.v1.VolumeMountStatus.recursiveReadOnly",
    ),
    "ReinvocationPolicy": (
        "IfNeeded Never",
        (
            "admissionregistration.v1.MutatingAdmissionPolicySpec.reinvocationPolicy "
            "admissionregistration.v1.MutatingWebhook.reinvocationPolicy"
        ),
    ),
    "ResizeRestartPolicy": ("NotRequired RestartContainer", "core.v1.ContainerResizePolicy.restartPolicy"),
    "ResourceScope": ("Cluster Namespaced", "apiextensions.v1.CustomResourceDefinitionSpec.scope"),
    "RestartPolicy": ("Always Never OnFailure", "core.v1.PodSpec.restartPolicy"),
    "RoleKind": ("ClusterRole Role", "rbac.v1.RoleRef.kind"),
    "RuleScope": (
        "* Cluster Namespaced",
        "admissionregistration.v1.NamedRuleWithOperations.scope admissionregistration.v1.RuleWithOperations.scope",
    ),
    "SELinuxChangePolicy": ("MountOption Recursive", "core.v1.PodSecurityContext.seLinuxChangePolicy"),
    "ScalingPolicyType": ("Percent Pods", "autoscaling.v2.HPAScalingPolicy.type"),
    "ScalingSelect": ("Disabled Max Min", "autoscaling.v2.HPAScalingRules.selectPolicy"),
    "SecurityProfileType": (
        "Localhost RuntimeDefault Unconfined",
        "core.v1.AppArmorProfile.type core.v1.SeccompProfile.type",
    ),
    # For the selectors of kinds/meta_v1.py, which is written by hand.
    "SelectorOperator": ("DoesNotExist Exists In NotIn", ""),
    "ServiceType": ("ClusterIP ExternalName LoadBalancer NodePort", "core.v1.ServiceSpec.type"),
    "SessionAffinity": ("ClientIP None", "core.v1.ServiceSpec.sessionAffinity"),
    "SetOperator": ("In NotIn", "batch.v1.PodFailurePolicyOnExitCodesRequirement.operator"),
    "SideEffects": (
        "None NoneOnDryRun Some Unknown",
        "admissionregistration.v1.MutatingWebhook.sideEffects admissionregistration.v1.ValidatingWebhook.sideEffects",
    ),
    "SupplementalGroupsPolicy": ("Merge Strict", "core.v1.PodSecurityContext.supplementalGroupsPolicy"),
    "TaintEffect": ("NoExecute NoSchedule PreferNoSchedule", "core.v1.Taint.effect core.v1.Toleration.effect"),
    "TerminationMessagePolicy": (
        "FallbackToLogsOnError File",
        "core.v1.Container.terminationMessagePolicy core.v1.EphemeralContainer.terminationMessagePolicy",
    ),
    "TolerationOperator": ("Equal Exists Gt Lt", "core.v1.Toleration.operator"),
    "TrafficPolicy": (
        "Cluster Local",
        "core.v1.ServiceSpec.externalTrafficPolicy core.v1.ServiceSpec.internalTrafficPolicy",
    ),
    "URIScheme": ("HTTP HTTPS", "core.v1.HTTPGetAction.scheme"),
    "UnhealthyEvictionPolicy": (
        "AlwaysAllow IfHealthyBudget",
        "policy.v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy",
    ),
    "UpdateStrategyType": (
        "OnDelete RollingUpdate",
        "apps.v1.DaemonSetUpdateStrategy.type apps.v1.StatefulSetUpdateStrategy.type",
    ),
    "ValidationAction": (
        "Audit Deny Warn",
        "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.validationActions",
    ),
    "VolumeBindingMode": ("Immediate WaitForFirstConsumer", "storage.v1.StorageClass.volumeBindingMode"),
    "VolumeLifecycleMode": ("Ephemeral Persistent", "storage.v1.CSIDriverSpec.volumeLifecycleModes"),
    "VolumeMode": (
        "Block Filesystem",
        "core.v1.PersistentVolumeClaimSpec.volumeMode core.v1.PersistentVolumeSpec.volumeMode",
    ),
    "VolumePhase": ("Available Bound Failed Pending Released", "core.v1.PersistentVolumeStatus.phase"),
    "WhenUnsatisfiable": ("DoNotSchedule ScheduleAnyway", "core.v1.TopologySpreadConstraint.whenUnsatisfiable"),
}

# The description of each kind.
SENTENCES: Final = {
    "APIService": "A group and version that another server serves.",
    "Binding": "The decision to run a Pod on a node.",
    "CSIDriver": "A storage driver that is installed in the cluster, and what it can do.",
    "CSINode": "The storage drivers that one node has.",
    "CSIStorageCapacity": "The free capacity of a storage class in one topology segment.",
    "CertificateSigningRequest": "A request for a certificate, and the certificate once it is signed.",
    "ClusterRole": "A set of permissions for the whole cluster, or for the namespaces in which it is bound.",
    "ClusterRoleBinding": "Grants a ClusterRole to subjects in the whole cluster.",
    "ComponentStatus": "The health of a part of the control plane; deprecated, no longer updated.",
    "ConfigMap": "Configuration data that is not secret, by key.",
    "ControllerRevision": "An earlier state of a StatefulSet or DaemonSet, to go back to.",
    "CronJob": "Starts a Job again and again, at set times.",
    "CustomResourceDefinition": "A custom resource: its names, its versions and their schemas.",
    "DaemonSet": "Runs one Pod on each node.",
    "Deployment": "Runs a number of identical Pods and rolls out changes of their template.",
    "DeviceClass": "A set of devices with a common configuration, which claims name.",
    "EndpointSlice": "A part of the addresses behind a Service.",
    "Endpoints": "The addresses behind a Service; superseded by EndpointSlice.",
    "Event": "Something that happened to an object, for people to read.",
    "Eviction": "A request to evict a Pod from its node, if its PodDisruptionBudget allows.",
    "FlowSchema": "Which requests to the server belong to which priority level.",
    "HorizontalPodAutoscaler": "Scales the number of replicas by metrics.",
    "IPAddress": "An IP address that is in use.",
    "Ingress": "Routes HTTP requests from outside the cluster to Services, by host and path.",
    "IngressClass": "The controller of the Ingresses that name this class.",
    "Job": "Runs Pods until enough of them have succeeded.",
    "Lease": "A lock with one holder at a time, such as leadership, until the holder stops renewing it.",
    "LimitRange": "Default, minimum and maximum resources of containers in a namespace.",
    "LocalSubjectAccessReview": "Checks whether a user may perform an action in one namespace.",
    "MutatingAdmissionPolicy": "CEL expressions that mutate objects at admission.",
    "MutatingAdmissionPolicyBinding": "Where a MutatingAdmissionPolicy applies.",
    "MutatingWebhookConfiguration": "The admission webhooks that may mutate objects.",
    "Namespace": "A scope for the names of objects and for permissions.",
    "NetworkPolicy": "The network traffic that is allowed to and from selected Pods.",
    "Node": "A machine that runs Pods.",
    "PersistentVolume": "A volume that outlives the Pods that use it.",
    "PersistentVolumeClaim": "A request for a volume, and the volume that was bound to it.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many selected Pods may be unavailable during voluntary disruptions.",
    "PodTemplate": "A stored template for Pods.",
    "PriorityClass": "The scheduling priority of the Pods of a class.",
    "PriorityLevelConfiguration": "The request concurrency of a priority level of the API server.",
    "ReplicaSet": "Runs a number of identical Pods.",
    "ReplicationController": "Runs a number of identical Pods; superseded by ReplicaSet.",
    "ResourceClaim": "A request for devices, and the devices that were allocated to it.",
    "ResourceClaimTemplate": "A template for the ResourceClaims of Pods.",
    "ResourceQuota": "How much a namespace may use in all.",
    "ResourceSlice": "A part of the devices of a pool, as their driver publishes them.",
    "Role": "A set of permissions in one namespace.",
    "RoleBinding": "Grants a role to subjects in one namespace.",
    "RuntimeClass": "A way to run containers that nodes offer.",
    "Scale": "The desired and current number of replicas of a scalable object.",
    "Secret": "Confidential data, by key.",
    "SelfSubjectAccessReview": "Checks whether the requesting user may perform an action.",
    "SelfSubjectReview": "The identity of the requesting user.",
    "SelfSubjectRulesReview": "The actions that the requesting user may perform in a namespace.",
    "Service": "A stable address for a set of Pods.",
    "ServiceAccount": "An identity for Pods.",
    "ServiceCIDR": "A range that Services get their addresses from.",
    "StatefulSet": "Runs Pods that have names and volumes of their own, one after another.",
    "StorageClass": "A way to make volumes.",
    "SubjectAccessReview": "Checks whether a user may perform an action.",
    "TokenRequest": "A request for a token of a ServiceAccount.",
    "TokenReview": "Authenticates a token and returns its user.",
    "ValidatingAdmissionPolicy": "CEL expressions that validate objects at admission.",
    "ValidatingAdmissionPolicyBinding": "Where a ValidatingAdmissionPolicy applies.",
    "ValidatingWebhookConfiguration": "The admission webhooks that validate objects.",
    "VolumeAttachment": "A request to attach a volume to a node.",
    "VolumeAttributesClass": "Properties of volumes that may change while they are used.",
}

# Descriptions of the most used parts; the others are described by the kind they belong to.
TITLES: Final = {
    "Affinity": "Scheduling constraints of a Pod: node affinity, Pod affinity and anti-affinity.",
    "Capabilities": "What a container may do beyond, or short of, an ordinary process.",
    "ConfigMapEnvSource": "All settings of a ConfigMap, as variables.",
    "ConfigMapKeySelector": "One setting of a ConfigMap.",
    "ConfigMapVolumeSource": "The settings of a ConfigMap, as files.",
    "Container": "A program that runs in a Pod, from an image.",
    "ContainerPort": "A port that a container listens on.",
    "ContainerState": "Whether a container is waiting, running or terminated.",
    "ContainerStatus": "The state of a container of a Pod.",
    "DeploymentStrategy": "How a Deployment replaces its Pods.",
    "EmptyDirVolumeSource": "A folder that is empty at first and goes away with its Pod.",
    "EnvFromSource": "Many variables at once, from a ConfigMap or a Secret.",
    "EnvVar": "A variable of a container's environment.",
    "EnvVarSource": "Where the value of a variable comes from.",
    "ExecAction": "A command that is run in a container.",
    "HTTPGetAction": "A request that is sent to a container.",
    "HTTPIngressPath": "A path, and where requests to it lead.",
    "HTTPIngressRuleValue": "The paths of a host.",
    "IngressBackend": "Where requests from outside lead.",
    "IngressRule": "A host, and where its paths lead.",
    "IngressServiceBackend": "A Service, and its port, that requests from outside lead to.",
    "IngressTLS": "The certificate for some hosts.",
    "JobTemplateSpec": "The template that a CronJob makes its Jobs from.",
    "KeyToPath": "A key, and the file that its value is in.",
    "LocalObjectReference": "Another object in the same namespace, by name.",
    "NodeSelector": "Which nodes are meant, said by several terms of which one must fit.",
    "ObjectReference": "Another object, of any kind.",
    "PersistentVolumeClaimVolumeSource": "The volume that a claim has got.",
    "PodSecurityContext": "As whom a Pod's containers run, and what they may do.",
    "PodTemplateSpec": "The template of the Pods that a workload creates.",
    "PolicyRule": "What may be done, and to which resources.",
    "Probe": "A periodic health check of a container.",
    "ResourceRequirements": "How much a container needs, and may use.",
    "RoleRef": "The role that a binding gives.",
    "RollingUpdateDeployment": "How many Pods may be missing, or be there in addition, during an update.",
    "SecretEnvSource": "All values of a Secret, as variables.",
    "SecretKeySelector": "One value of a Secret.",
    "SecretReference": "A Secret in any namespace.",
    "SecretVolumeSource": "The values of a Secret, as files.",
    "SecurityContext": "As whom a container runs, and what it may do.",
    "ServiceBackendPort": "A port of a Service, by name or number.",
    "ServicePort": "A port of a Service, and the port of its Pods that it leads to.",
    "TCPSocketAction": "A connection that is opened to a container.",
    "Toleration": "A taint of nodes that a Pod puts up with.",
    "TopologySelectorTerm": "Which parts of the cluster are meant, said by labels.",
    "TopologySpreadConstraint": "How evenly Pods are spread over zones or nodes.",
    "TypedLocalObjectReference": "Another object in the same namespace, of any kind.",
    "TypedObjectReference": "Another object in any namespace, of any kind.",
    "Volume": "A folder that containers of a Pod may share.",
    "VolumeMount": "Where a container finds a volume.",
    "VolumeResourceRequirements": "How large a volume must be, and may be.",
}

# Short names of kinds that our own server does not have.
SHORT_NAMES: Final = {
    "CertificateSigningRequest": "csr",
    "ComponentStatus": "cs",
    "IPAddress": "ip",
    "VolumeAttributesClass": "vac",
}

# What `levelset.kinds` exports in addition to the kinds themselves and their specs and statuses.
COMMON: Final = (
    "Affinity Capabilities ConfigMapEnvSource ConfigMapKeySelector ConfigMapVolumeSource Container ContainerPort "
    "ContainerState ContainerStatus DeploymentStrategy EmptyDirVolumeSource EnvFromSource EnvVar EnvVarSource "
    "ExecAction HTTPGetAction HTTPIngressPath HTTPIngressRuleValue IngressBackend IngressRule IngressServiceBackend "
    "IngressTLS JobTemplateSpec KeyToPath LabelSelector LabelSelectorRequirement LocalObjectReference ObjectReference "
    "PersistentVolumeClaimVolumeSource PodSecurityContext PodTemplateSpec PolicyRule Probe ResourceRequirements "
    "RoleRef RollingUpdateDeployment SecretEnvSource SecretKeySelector SecretVolumeSource SecurityContext "
    "ServiceBackendPort ServicePort Subject TCPSocketAction Toleration TopologySpreadConstraint Volume VolumeMount "
    "VolumeResourceRequirements"
)
