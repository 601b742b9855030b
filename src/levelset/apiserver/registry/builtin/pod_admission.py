"""What the default admission plugins give a new Pod: tolerations, priority, service account, token volume, overhead.

The plugins are DefaultTolerationSeconds, LimitRanger, Priority, RuntimeClass and, where the server has default
ServiceAccounts, ServiceAccount. All of them read stored objects at once.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.builtin.pods import DEFAULT_FILE_MODE, SYSTEM_PRIORITIES, set_tolerations
from levelset.apiserver.registry.limits.limit_ranges import claim_problem, pod_problem, set_limit_defaults
from levelset.apiserver.registry.metadata import generate_name
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.errors import ApiError, Cause, Forbidden
from levelset.storage import Item

__all__ = ["PodAdmission", "forbidden_pod"]

DEFAULT_ACCOUNT: Final = "default"
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105 - a prefix of names
_TOKEN_SECONDS: Final = 3607
_MIRROR: Final = "kubernetes.io/config.mirror"
_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"
_CLASSES: Final = "/registry/scheduling.k8s.io/priorityclasses/"
_RUNTIMES: Final = "/registry/node.k8s.io/runtimeclasses/"
_ACCOUNTS: Final = "/registry/core/serviceaccounts/"
_LIMIT_RANGES: Final = "/registry/core/limitranges/"


class PodAdmission:
    """The default admission of new Pods; with `service_accounts`, also that of the ServiceAccount plugin."""

    def __init__(self, validate: Callable[[Object, Object | None], list[Cause]]) -> None:
        self._validate = validate
        self._get_item: Callable[[str], Item | None] | None = None
        self._random: Random | None = None
        self._global_defaults: dict[str, Object] = {}
        self._limit_ranges: dict[str, dict[str, Object]] = {}
        self.service_accounts = False

    def load(self, state: ServerState) -> None:
        """Reads the PriorityClasses that are global defaults, and follows their writes from then on."""
        self._get_item, self._random = state.reader.get_nowait, state.random
        state.add_resource_listener(_CLASSES, self._on_class)
        for item in state.reader.list_nowait(_CLASSES).items:
            self._note_class(msgspec.json.decode(item.value))
        state.add_resource_listener(_LIMIT_RANGES, self._on_limit_range)
        for item in state.reader.list_nowait(_LIMIT_RANGES).items:
            self._note_limit_range(msgspec.json.decode(item.value))

    def admit_create(self, pod: Object) -> None:
        """Completes a new Pod; raises Forbidden if a class or an account that it names does not exist or fit."""
        spec = pod["spec"]
        for limit_range in self._limit_ranges_of(pod):
            set_limit_defaults(pod, limit_range)
        if self.service_accounts and _MIRROR not in map_member(pod["metadata"], "annotations"):
            self._set_account(pod)
        set_tolerations(spec)
        self._set_priority(pod)
        if "runtimeClassName" in spec:
            self._set_overhead(pod)

    def validate(self, new: Object, old: Object | None) -> list[Cause]:
        """The causes of the rules of Pods; raises Forbidden if a valid new Pod breaks a LimitRange or its overhead."""
        causes = self._validate(new, old)
        if old is not None or causes:
            return causes
        for limit_range in self._limit_ranges_of(new):
            problem = pod_problem(new, limit_range)
            if problem:
                raise forbidden_pod(new, problem)
        if new["spec"].get("overhead") is not None:
            wanted = self._overhead(new)
            if not wanted:
                detail = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise forbidden_pod(new, f"pod rejected: {detail}")
            if wanted != new["spec"]["overhead"]:
                raise forbidden_pod(new, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        return causes

    def check_claim(self, claim: Object) -> None:
        """Raises Forbidden if a LimitRange of its namespace does not allow this PersistentVolumeClaim."""
        for limit_range in self._limit_ranges_of(claim):
            problem = claim_problem(claim, limit_range)
            if problem:
                name, kind = claim["metadata"].get("name", ""), "persistentvolumeclaims"
                raise Forbidden(f'{kind} "{name}" is forbidden: {problem}', details={"name": name, "kind": kind})

    def _limit_ranges_of(self, tree: Object) -> list[Object]:
        """The LimitRanges of the namespace of an object, by name."""
        if not self._limit_ranges:
            return []
        found = self._limit_ranges.get(tree["metadata"].get("namespace") or "", {})
        return [found[name] for name in sorted(found)]

    def _set_account(self, pod: Object) -> None:
        """Sets the account, what it brings along, and the volume with its token."""
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._account(pod, name)
        if map_member(account.get("metadata", {}), "annotations").get(_MOUNTABLE) == "true":
            _check_mountable(pod, account)
        automount = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
        if automount:
            self._mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in account["imagePullSecrets"]]

    def _account(self, pod: Object, name: str) -> Object:
        namespace = pod["metadata"].get("namespace")
        found = self._read(f"{_ACCOUNTS}{namespace}/{name}")
        if found is not None:
            return found
        if name == DEFAULT_ACCOUNT:
            # The namespace is active, so its account is about to be created: a Pod need not wait for it.
            return {}
        detail = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden_pod(pod, detail)

    def _mount_token(self, spec: Object) -> None:
        volumes = list_member(spec, "volumes")
        names = [one.get("name") for one in volumes]
        given = next((one for one in names if isinstance(one, str) and one.startswith(_TOKEN_VOLUME)), None)
        name = given
        while name is None or (given is None and name in names):
            name = generate_name(_TOKEN_VOLUME, self._random or Random())  # noqa: S311 - a name, not a secret
        is_used = False
        for group in ("initContainers", "containers"):
            for container in spec.get(group) or ():
                mounts = list_member(container, "volumeMounts")
                if not any(one.get("mountPath") == TOKEN_PATH for one in mounts):
                    container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}]
                    is_used = True
        if is_used and given is None:
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_projection()}]

    def _set_overhead(self, pod: Object) -> None:
        overhead = self._overhead(pod)
        if overhead and not pod["spec"].get("overhead"):
            pod["spec"]["overhead"] = overhead

    def _overhead(self, pod: Object) -> Object:
        name = pod["spec"].get("runtimeClassName")
        if name is None:
            return {}
        if not name:
            raise ApiError("resource name may not be empty", code=500, reason="")
        if "/" in name or "%" in name:  # upstream asks its own API for it
            problem = " ".join(f"may not contain '{one}'" for one in "/%" if one in name)
            raise ApiError(f'invalid resource name "{name}": [{problem}]', code=500, reason="")
        found = self._read(f"{_RUNTIMES}{name}")
        if found is None:
            raise forbidden_pod(pod, f'pod rejected: RuntimeClass "{name}" not found')
        return dict(map_member(map_member(found, "overhead"), "podFixed"))

    def _set_priority(self, pod: Object) -> None:
        spec, name = pod["spec"], pod["spec"].get("priorityClassName")
        found: Object = {"value": 0}
        if name:
            found = self._class(pod, name)
        elif self._global_defaults:
            found = min(self._global_defaults.values(), key=lambda one: (one["value"], one["metadata"]["name"]))
            spec["priorityClassName"] = found["metadata"]["name"]
        given = spec.get("priority")
        if given is not None and given != found["value"]:
            detail = "the integer value of priority must not be provided in pod spec; priority admission controller"
            detail = f"{detail} computed {found['value']} from the given PriorityClass name"
            raise forbidden_pod(pod, detail.replace("priority must", f"priority ({given}) must", 1))
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
        if spec.get("preemptionPolicy") not in (None, policy):
            detail = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec;"
            )
            detail = f"{detail} priority admission controller computed {policy} from the given PriorityClass name"
            raise forbidden_pod(pod, detail)
        spec["priority"], spec["preemptionPolicy"] = found["value"], policy

    def _class(self, pod: Object, name: str) -> Object:
        found = self._read(f"{_CLASSES}{name}")
        if found is not None:
            return found
        if name not in SYSTEM_PRIORITIES:
            raise forbidden_pod(pod, f"no PriorityClass with name {name} was found")
        return {"value": SYSTEM_PRIORITIES[name]}

    def _read(self, key: str) -> Object | None:
        item = None if self._get_item is None else self._get_item(key)
        return None if item is None else msgspec.json.decode(item.value)

    def _on_class(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._note_class(after)
        elif before is not None:
            self._global_defaults.pop(before["metadata"]["name"], None)

    def _note_class(self, tree: Object) -> None:
        name = tree["metadata"]["name"]
        if tree.get("globalDefault"):
            self._global_defaults[name] = tree
        else:
            self._global_defaults.pop(name, None)

    def _on_limit_range(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._note_limit_range(after)
        elif before is not None:
            namespace, name = before["metadata"]["namespace"], before["metadata"]["name"]
            self._limit_ranges.get(namespace, {}).pop(name, None)
            if not self._limit_ranges.get(namespace):
                self._limit_ranges.pop(namespace, None)

    def _note_limit_range(self, tree: Object) -> None:
        self._limit_ranges.setdefault(tree["metadata"]["namespace"], {})[tree["metadata"]["name"]] = tree


def forbidden_pod(pod: Object, detail: str) -> Forbidden:
    """The rejection of a Pod by an admission plugin."""
    name = pod["metadata"].get("name", "")
    return Forbidden(f'pods "{name}" is forbidden: {detail}', details={"name": name, "kind": "pods"})


def _token_projection() -> Object:
    """The volume source of the token of a service account, the certificate authority and the namespace."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources: list[Any] = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": authority},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"sources": sources, "defaultMode": DEFAULT_FILE_MODE}


def _check_mountable(pod: Object, account: Object) -> None:
    """Raises Forbidden if the Pod uses a Secret that its account does not list."""
    named = account["metadata"].get("name", "")
    mountable = {one.get("name") for one in list_member(account, "secrets")}
    pullable = {one.get("name") for one in list_member(account, "imagePullSecrets")}
    spec = pod["spec"]
    for volume in list_member(spec, "volumes"):
        secret = map_member(volume, "secret").get("secretName")
        if secret and secret not in mountable:
            detail = f'volume with secret.secretName="{secret}" is not allowed because service account {named}'
            raise forbidden_pod(pod, f"{detail} does not reference that secret")
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            _check_variables(pod, named, group, container, mountable)
    for number, one in enumerate(list_member(spec, "imagePullSecrets")):
        if one.get("name") not in pullable:
            detail = (
                f'imagePullSecrets[{number}].name="{one.get("name")}" is not allowed because service account {named}'
            )
            raise forbidden_pod(pod, f"{detail} does not reference that imagePullSecret")


def _check_variables(pod: Object, account: str, group: str, container: Object, mountable: set[Any]) -> None:
    kind = "init container" if group == "initContainers" else "container"
    for variable in list_member(container, "env"):
        secret = map_member(map_member(variable, "valueFrom"), "secretKeyRef").get("name")
        if secret and secret not in mountable:
            detail = f"{kind} {container.get('name')} with envVar {variable.get('name')} referencing secret.secretName"
            detail = f'{detail}="{secret}" is not allowed because service account {account}'
            raise forbidden_pod(pod, f"{detail} does not reference that secret")
