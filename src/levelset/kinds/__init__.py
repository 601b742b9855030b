"""The built-in kinds: `from levelset.kinds import Deployment, Secret`.

What most programs need is exported here and loaded on first use; everything else is in the modules,
one for each group and version, such as `levelset.kinds.apps_v1`. Of several versions of a kind this is the
newest.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from levelset.kinds.admissionregistration_v1 import (
        MutatingAdmissionPolicy,
        MutatingAdmissionPolicyBinding,
        MutatingAdmissionPolicyBindingSpec,
        MutatingAdmissionPolicySpec,
        MutatingWebhookConfiguration,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicyBindingSpec,
        ValidatingAdmissionPolicySpec,
        ValidatingAdmissionPolicyStatus,
        ValidatingWebhookConfiguration,
    )
    from levelset.kinds.apiextensions_v1 import (
        CustomResourceDefinition,
        CustomResourceDefinitionSpec,
        CustomResourceDefinitionStatus,
    )
    from levelset.kinds.apiregistration_v1 import APIService, APIServiceSpec, APIServiceStatus
    from levelset.kinds.apps_v1_deployments import (
        Deployment,
        DeploymentSpec,
        DeploymentStatus,
        DeploymentStrategy,
        ReplicaSet,
        ReplicaSetSpec,
        ReplicaSetStatus,
        RollingUpdateDeployment,
    )
    from levelset.kinds.apps_v1_sets import (
        ControllerRevision,
        DaemonSet,
        DaemonSetSpec,
        DaemonSetStatus,
        StatefulSet,
        StatefulSetSpec,
        StatefulSetStatus,
    )
    from levelset.kinds.authentication_v1 import (
        SelfSubjectReview,
        SelfSubjectReviewStatus,
        TokenRequestSpec,
        TokenRequestStatus,
        TokenReview,
        TokenReviewSpec,
        TokenReviewStatus,
    )
    from levelset.kinds.authorization_v1 import (
        LocalSubjectAccessReview,
        SelfSubjectAccessReview,
        SelfSubjectAccessReviewSpec,
        SelfSubjectRulesReview,
        SelfSubjectRulesReviewSpec,
        SubjectAccessReview,
        SubjectAccessReviewSpec,
        SubjectAccessReviewStatus,
    )
    from levelset.kinds.autoscaling_v2 import (
        HorizontalPodAutoscaler,
        HorizontalPodAutoscalerSpec,
        HorizontalPodAutoscalerStatus,
    )
    from levelset.kinds.batch_v1 import CronJob, CronJobSpec, CronJobStatus, Job, JobSpec, JobStatus, JobTemplateSpec
    from levelset.kinds.certificates_v1 import (
        CertificateSigningRequest,
        CertificateSigningRequestSpec,
        CertificateSigningRequestStatus,
    )
    from levelset.kinds.coordination_v1 import Lease, LeaseSpec
    from levelset.kinds.core_v1_config import (
        ConfigMap,
        LimitRange,
        LimitRangeSpec,
        Namespace,
        NamespaceSpec,
        NamespaceStatus,
        ResourceQuota,
        ResourceQuotaSpec,
        ResourceQuotaStatus,
        Secret,
        ServiceAccount,
    )
    from levelset.kinds.core_v1_network import Endpoints, Service, ServicePort, ServiceSpec, ServiceStatus
    from levelset.kinds.core_v1_nodes import ComponentStatus, Node, NodeSpec, NodeStatus
    from levelset.kinds.core_v1_pods import (
        Binding,
        ContainerState,
        ContainerStatus,
        Pod,
        PodStatus,
        PodTemplate,
        ReplicationController,
        ReplicationControllerSpec,
        ReplicationControllerStatus,
    )
    from levelset.kinds.core_v1_references import LocalObjectReference, ObjectReference, Toleration
    from levelset.kinds.core_v1_templates import (
        Affinity,
        Capabilities,
        ConfigMapEnvSource,
        ConfigMapKeySelector,
        ConfigMapVolumeSource,
        Container,
        ContainerPort,
        EmptyDirVolumeSource,
        EnvFromSource,
        EnvVar,
        EnvVarSource,
        ExecAction,
        HTTPGetAction,
        KeyToPath,
        PersistentVolumeClaimSpec,
        PersistentVolumeClaimVolumeSource,
        PodSecurityContext,
        PodSpec,
        PodTemplateSpec,
        Probe,
        ResourceRequirements,
        SecretEnvSource,
        SecretKeySelector,
        SecretVolumeSource,
        SecurityContext,
        TCPSocketAction,
        TopologySpreadConstraint,
        Volume,
        VolumeMount,
        VolumeResourceRequirements,
    )
    from levelset.kinds.core_v1_volumes import (
        PersistentVolume,
        PersistentVolumeClaim,
        PersistentVolumeClaimStatus,
        PersistentVolumeSpec,
        PersistentVolumeStatus,
    )
    from levelset.kinds.discovery_v1 import EndpointSlice
    from levelset.kinds.flowcontrol_v1 import (
        FlowSchema,
        FlowSchemaSpec,
        FlowSchemaStatus,
        PriorityLevelConfiguration,
        PriorityLevelConfigurationSpec,
        PriorityLevelConfigurationStatus,
    )
    from levelset.kinds.meta_v1 import LabelSelector, LabelSelectorRequirement
    from levelset.kinds.networking_v1 import (
        HTTPIngressPath,
        HTTPIngressRuleValue,
        Ingress,
        IngressBackend,
        IngressClass,
        IngressClassSpec,
        IngressRule,
        IngressServiceBackend,
        IngressSpec,
        IngressStatus,
        IngressTLS,
        IPAddress,
        IPAddressSpec,
        NetworkPolicy,
        NetworkPolicySpec,
        ServiceBackendPort,
        ServiceCIDR,
        ServiceCIDRSpec,
        ServiceCIDRStatus,
    )
    from levelset.kinds.node_v1 import RuntimeClass
    from levelset.kinds.policy_v1 import (
        Eviction,
        PodDisruptionBudget,
        PodDisruptionBudgetSpec,
        PodDisruptionBudgetStatus,
    )
    from levelset.kinds.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
    from levelset.kinds.resource_v1 import (
        DeviceClass,
        DeviceClassSpec,
        ResourceClaim,
        ResourceClaimSpec,
        ResourceClaimStatus,
        ResourceClaimTemplate,
        ResourceClaimTemplateSpec,
        ResourceSlice,
        ResourceSliceSpec,
    )
    from levelset.kinds.scheduling_v1 import PriorityClass
    from levelset.kinds.storage_v1 import (
        CSIDriver,
        CSIDriverSpec,
        CSINode,
        CSINodeSpec,
        CSIStorageCapacity,
        StorageClass,
        TokenRequest,
        VolumeAttachment,
        VolumeAttachmentSpec,
        VolumeAttachmentStatus,
        VolumeAttributesClass,
    )

__all__ = [
    "MODULES",
    "APIService",
    "APIServiceSpec",
    "APIServiceStatus",
    "Affinity",
    "Binding",
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "Capabilities",
    "CertificateSigningRequest",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestStatus",
    "ClusterRole",
    "ClusterRoleBinding",
    "ComponentStatus",
    "ConfigMap",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapVolumeSource",
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "ControllerRevision",
    "CronJob",
    "CronJobSpec",
    "CronJobStatus",
    "CustomResourceDefinition",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
    "DaemonSet",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "DeviceClass",
    "DeviceClassSpec",
    "EmptyDirVolumeSource",
    "EndpointSlice",
    "Endpoints",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "Eviction",
    "ExecAction",
    "FlowSchema",
    "FlowSchemaSpec",
    "FlowSchemaStatus",
    "HTTPGetAction",
    "HTTPIngressPath",
    "HTTPIngressRuleValue",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "IPAddress",
    "IPAddressSpec",
    "Ingress",
    "IngressBackend",
    "IngressClass",
    "IngressClassSpec",
    "IngressRule",
    "IngressServiceBackend",
    "IngressSpec",
    "IngressStatus",
    "IngressTLS",
    "Job",
    "JobSpec",
    "JobStatus",
    "JobTemplateSpec",
    "KeyToPath",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "LimitRange",
    "LimitRangeSpec",
    "LocalObjectReference",
    "LocalSubjectAccessReview",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBindingSpec",
    "MutatingAdmissionPolicySpec",
    "MutatingWebhookConfiguration",
    "Namespace",
    "NamespaceSpec",
    "NamespaceStatus",
    "NetworkPolicy",
    "NetworkPolicySpec",
    "Node",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimVolumeSource",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "Pod",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PodSecurityContext",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "PolicyRule",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "PriorityLevelConfigurationSpec",
    "PriorityLevelConfigurationStatus",
    "Probe",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "ReplicationController",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "ResourceSlice",
    "ResourceSliceSpec",
    "Role",
    "RoleBinding",
    "RoleRef",
    "RollingUpdateDeployment",
    "RuntimeClass",
    "Secret",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretVolumeSource",
    "SecurityContext",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "Service",
    "ServiceAccount",
    "ServiceBackendPort",
    "ServiceCIDR",
    "ServiceCIDRSpec",
    "ServiceCIDRStatus",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "StatefulSet",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StorageClass",
    "Subject",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "TCPSocketAction",
    "TokenRequest",
    "TokenRequestSpec",
    "TokenRequestStatus",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "Toleration",
    "TopologySpreadConstraint",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingSpec",
    "ValidatingAdmissionPolicySpec",
    "ValidatingAdmissionPolicyStatus",
    "ValidatingWebhookConfiguration",
    "Volume",
    "VolumeAttachment",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeAttributesClass",
    "VolumeMount",
    "VolumeResourceRequirements",
]

MODULES: Final = {
    "io.k8s.api.admissionregistration.v1": "levelset.kinds.admissionregistration_v1",
    "io.k8s.api.apps.v1": "levelset.kinds.apps_v1",
    "io.k8s.api.authentication.v1": "levelset.kinds.authentication_v1",
    "io.k8s.api.authorization.v1": "levelset.kinds.authorization_v1",
    "io.k8s.api.autoscaling.v1": "levelset.kinds.autoscaling_v1",
    "io.k8s.api.autoscaling.v2": "levelset.kinds.autoscaling_v2",
    "io.k8s.api.batch.v1": "levelset.kinds.batch_v1",
    "io.k8s.api.certificates.v1": "levelset.kinds.certificates_v1",
    "io.k8s.api.coordination.v1": "levelset.kinds.coordination_v1",
    "io.k8s.api.core.v1": "levelset.kinds.core_v1",
    "io.k8s.api.discovery.v1": "levelset.kinds.discovery_v1",
    "io.k8s.api.events.v1": "levelset.kinds.events_v1",
    "io.k8s.api.flowcontrol.v1": "levelset.kinds.flowcontrol_v1",
    "io.k8s.api.networking.v1": "levelset.kinds.networking_v1",
    "io.k8s.api.node.v1": "levelset.kinds.node_v1",
    "io.k8s.api.policy.v1": "levelset.kinds.policy_v1",
    "io.k8s.api.rbac.v1": "levelset.kinds.rbac_v1",
    "io.k8s.api.resource.v1": "levelset.kinds.resource_v1",
    "io.k8s.api.scheduling.v1": "levelset.kinds.scheduling_v1",
    "io.k8s.api.storage.v1": "levelset.kinds.storage_v1",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": "levelset.kinds.apiextensions_v1",
    "io.k8s.apimachinery.pkg.apis.meta.v1": "levelset.kinds.meta_v1",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": "levelset.kinds.apiregistration_v1",
}
"""The module of each group and version, by what the names of its OpenAPI definitions begin with."""

_PARTS: Final = {
    "levelset.kinds.admissionregistration_v1": (
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingAdmissionPolicyBindingSpec "
        "MutatingAdmissionPolicySpec MutatingWebhookConfiguration ValidatingAdmissionPolicy "
        "ValidatingAdmissionPolicyBinding ValidatingAdmissionPolicyBindingSpec ValidatingAdmissionPolicySpec "
        "ValidatingAdmissionPolicyStatus ValidatingWebhookConfiguration"
    ),
    "levelset.kinds.apiextensions_v1": (
        "CustomResourceDefinition CustomResourceDefinitionSpec CustomResourceDefinitionStatus"
    ),
    "levelset.kinds.apiregistration_v1": "APIService APIServiceSpec APIServiceStatus",
    "levelset.kinds.apps_v1_deployments": (
        "Deployment DeploymentSpec DeploymentStatus DeploymentStrategy ReplicaSet ReplicaSetSpec ReplicaSetStatus "
        "RollingUpdateDeployment"
    ),
    "levelset.kinds.apps_v1_sets": (
        "ControllerRevision DaemonSet DaemonSetSpec DaemonSetStatus StatefulSet StatefulSetSpec StatefulSetStatus"
    ),
    "levelset.kinds.authentication_v1": (
        "SelfSubjectReview SelfSubjectReviewStatus TokenRequestSpec TokenRequestStatus TokenReview TokenReviewSpec "
        "TokenReviewStatus"
    ),
    "levelset.kinds.authorization_v1": (
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectAccessReviewSpec SelfSubjectRulesReview "
        "SelfSubjectRulesReviewSpec SubjectAccessReview SubjectAccessReviewSpec SubjectAccessReviewStatus"
    ),
    "levelset.kinds.autoscaling_v2": (
        "HorizontalPodAutoscaler HorizontalPodAutoscalerSpec HorizontalPodAutoscalerStatus"
    ),
    "levelset.kinds.batch_v1": "CronJob CronJobSpec CronJobStatus Job JobSpec JobStatus JobTemplateSpec",
    "levelset.kinds.certificates_v1": (
        "CertificateSigningRequest CertificateSigningRequestSpec CertificateSigningRequestStatus"
    ),
    "levelset.kinds.coordination_v1": "Lease LeaseSpec",
    "levelset.kinds.core_v1_config": (
        "ConfigMap LimitRange LimitRangeSpec Namespace NamespaceSpec NamespaceStatus ResourceQuota ResourceQuotaSpec "
        "ResourceQuotaStatus Secret ServiceAccount"
    ),
    "levelset.kinds.core_v1_network": "Endpoints Service ServicePort ServiceSpec ServiceStatus",
    "levelset.kinds.core_v1_nodes": "ComponentStatus Node NodeSpec NodeStatus",
    "levelset.kinds.core_v1_pods": (
        "Binding ContainerState ContainerStatus Pod PodStatus PodTemplate ReplicationController "
        "ReplicationControllerSpec ReplicationControllerStatus"
    ),
    "levelset.kinds.core_v1_references": "LocalObjectReference ObjectReference Toleration",
    "levelset.kinds.core_v1_templates": (
        "Affinity Capabilities ConfigMapEnvSource ConfigMapKeySelector ConfigMapVolumeSource Container ContainerPort "
        "EmptyDirVolumeSource EnvFromSource EnvVar EnvVarSource ExecAction HTTPGetAction KeyToPath "
        "PersistentVolumeClaimSpec PersistentVolumeClaimVolumeSource PodSecurityContext PodSpec PodTemplateSpec Probe "
        "ResourceRequirements SecretEnvSource SecretKeySelector SecretVolumeSource SecurityContext TCPSocketAction "
        "TopologySpreadConstraint Volume VolumeMount VolumeResourceRequirements"
    ),
    "levelset.kinds.core_v1_volumes": (
        "PersistentVolume PersistentVolumeClaim PersistentVolumeClaimStatus PersistentVolumeSpec PersistentVolumeStatus"
    ),
    "levelset.kinds.discovery_v1": "EndpointSlice",
    "levelset.kinds.flowcontrol_v1": (
        "FlowSchema FlowSchemaSpec FlowSchemaStatus PriorityLevelConfiguration PriorityLevelConfigurationSpec "
        "PriorityLevelConfigurationStatus"
    ),
    "levelset.kinds.meta_v1": "LabelSelector LabelSelectorRequirement",
    "levelset.kinds.networking_v1": (
        "HTTPIngressPath HTTPIngressRuleValue IPAddress IPAddressSpec Ingress IngressBackend IngressClass "
        "IngressClassSpec IngressRule IngressServiceBackend IngressSpec IngressStatus IngressTLS NetworkPolicy "
        "NetworkPolicySpec ServiceBackendPort ServiceCIDR ServiceCIDRSpec ServiceCIDRStatus"
    ),
    "levelset.kinds.node_v1": "RuntimeClass",
    "levelset.kinds.policy_v1": "Eviction PodDisruptionBudget PodDisruptionBudgetSpec PodDisruptionBudgetStatus",
    "levelset.kinds.rbac_v1": "ClusterRole ClusterRoleBinding PolicyRule Role RoleBinding RoleRef Subject",
    "levelset.kinds.resource_v1": (
        "DeviceClass DeviceClassSpec ResourceClaim ResourceClaimSpec ResourceClaimStatus ResourceClaimTemplate "
        "ResourceClaimTemplateSpec ResourceSlice ResourceSliceSpec"
    ),
    "levelset.kinds.scheduling_v1": "PriorityClass",
    "levelset.kinds.storage_v1": (
        "CSIDriver CSIDriverSpec CSINode CSINodeSpec CSIStorageCapacity StorageClass TokenRequest VolumeAttachment "
        "VolumeAttachmentSpec VolumeAttachmentStatus VolumeAttributesClass"
    ),
}
_LATE: Final = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    part = _LATE.get(name)
    if part is None:
        raise AttributeError(f"module 'levelset.kinds' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(part), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
