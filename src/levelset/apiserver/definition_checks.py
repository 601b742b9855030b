"""What must hold of a CustomResourceDefinition; whatever does not is a cause with the path of the field."""

import re
from collections.abc import Iterator
from typing import Any

from levelset.apiserver.definition_names import is_established
from levelset.apiserver.definition_versions import check_version
from levelset.apiserver.members import items, part
from levelset.apiserver.name_checks import check_dns1035_label
from levelset.apiserver.schemas import wording
from levelset.apiserver.served import Object
from levelset.apiserver.webhook_checks import check_client_config
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_subdomain

__all__ = ["check_definition"]

SCOPES = ("Cluster", "Namespaced")
APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = re.compile(r"(?:.*\.)?(?:k8s|kubernetes)\.io")
_URL = re.compile(r"https?://[^\s/]+\S*")


def check_definition(new: Object, old: Object | None) -> list[Cause]:
    """Everything that is wrong with a definition, as a whole and in each of its versions."""
    spec = new["spec"]
    causes = [*_check_group(new), *_check_scope(spec), *_check_names(spec["names"]), *_check_versions(spec)]
    causes += [*_check_conversion(spec), *_check_approval(new)]
    if spec.get("preserveUnknownFields"):
        causes.append(wording.invalid("spec.preserveUnknownFields", True, "must be false"))
    if old is None:
        causes += _check_own_name(new)
    else:
        causes += [*_check_fixed(new, old), *_check_stored(new)]
    return causes


def _check_own_name(definition: Object) -> Iterator[Cause]:
    spec, name = definition["spec"], definition["metadata"].get("name")
    wanted = f"{spec['names'].get('plural')}.{spec.get('group')}"
    if name != wanted:
        yield wording.invalid("metadata.name", name, f"must be spec.names.plural+'.'+spec.group, that is {wanted!r}")


def _check_group(definition: Object) -> Iterator[Cause]:
    group = definition["spec"].get("group") or ""
    problems = check_dns1123_subdomain(group)
    if not group:
        yield wording.required("spec.group")
    elif problems:
        yield wording.invalid("spec.group", group, "; ".join(problems))
    elif "." not in group:
        yield wording.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_scope(spec: Object) -> Iterator[Cause]:
    scope = spec.get("scope")
    if not scope:
        yield wording.required("spec.scope")
    elif scope not in SCOPES:
        yield wording.not_supported("spec.scope", scope, SCOPES)


def _check_names(names: Object) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            yield wording.required(f"spec.names.{field}")
        elif check_dns1035_label(value.lower() if field in ("kind", "listKind") else value):
            yield wording.invalid(f"spec.names.{field}", value, "; ".join(check_dns1035_label(value)))
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            if check_dns1035_label(value):
                yield wording.invalid(f"spec.names.{field}[{index}]", value, "; ".join(check_dns1035_label(value)))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield wording.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _check_versions(spec: Object) -> Iterator[Cause]:
    versions = items(spec, "versions")
    names = [one.get("name") for one in versions]
    if len(set(names)) != len(names):
        yield wording.invalid("spec.versions", names, "must contain unique version names")
    if sum(1 for one in versions if one.get("storage")) != 1:
        yield wording.invalid("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from check_version(version, f"spec.versions[{index}]")


def _check_conversion(spec: Object) -> Iterator[Cause]:
    conversion = part(spec, "conversion")
    strategy, hook = conversion.get("strategy"), conversion.get("webhook")
    if strategy == "None" and hook is not None:
        yield wording.forbidden("spec.conversion.webhook", "should not be set when strategy is not set to Webhook")
    elif strategy == "Webhook":
        yield from _check_webhook(hook)
    elif strategy != "None":
        yield wording.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _check_webhook(hook: Any) -> Iterator[Cause]:
    path = "spec.conversion.webhook"
    if not hook or not hook.get("clientConfig"):
        yield wording.required(f"{path}.clientConfig", "required when strategy is set to Webhook")
        return
    yield from check_client_config(hook["clientConfig"], f"{path}.clientConfig")
    known = {"v1", "v1beta1"}
    if not known.intersection(items(hook, "conversionReviewVersions")):
        yield wording.invalid(f"{path}.conversionReviewVersions", hook.get("conversionReviewVersions"), "must have v1")


def _check_approval(definition: Object) -> Iterator[Cause]:
    """A group of the Kubernetes project itself needs a link to the approval of its API."""
    if not _PROTECTED.fullmatch(definition["spec"].get("group") or ""):
        return
    path = f"metadata.annotations[{APPROVAL}]"
    approval = part(definition["metadata"], "annotations").get(APPROVAL)
    if not approval:
        yield wording.required(
            path, "protected groups must have an approval, see github.com/kubernetes/enhancements/1111"
        )
    elif not approval.startswith("unapproved") and not _URL.fullmatch(approval):
        yield wording.invalid(path, approval, "must be a URL or begin with 'unapproved'")


def _check_fixed(new: Object, old: Object) -> Iterator[Cause]:
    """What names the stored objects never changes."""
    paths = ["group", "names.plural", *(("scope", "names.kind") if is_established(old) else ())]
    for path in paths:
        value, former = _at(new["spec"], path), _at(old["spec"], path)
        if value != former:
            yield wording.invalid(f"spec.{path}", value, "field is immutable")


def _check_stored(definition: Object) -> Iterator[Cause]:
    """A version in which objects are stored cannot be taken away."""
    names = {one.get("name") for one in items(definition["spec"], "versions")}
    for index, version in enumerate(items(part(definition, "status"), "storedVersions")):
        if version not in names:
            detail = "must appear in spec.versions: objects are stored in this version"
            yield wording.invalid(f"status.storedVersions[{index}]", version, detail)


def _at(tree: Object, path: str) -> Any:
    found: Any = tree
    for name in path.split("."):
        found = found.get(name)
    return found
