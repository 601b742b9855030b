"""Validation of webhook configurations, and of the rules and match conditions that admission policies share."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from levelset.apiserver.expressions.match_conditions import match_condition_error
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadSelector, Cause
from levelset.objects import LabelSelector
from levelset.objects.names import check_dns1123_subdomain, check_label_key

__all__ = [
    "OPERATIONS",
    "check_client_config",
    "check_match_conditions",
    "check_rule",
    "check_selector",
    "check_webhook_configuration",
]

OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ENUMS: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
    "sideEffects": ("None", "NoneOnDryRun"),
}
_VERSIONS: Final = ("v1", "v1beta1")
_MAX_CONDITIONS: Final = 64


def check_webhook_configuration(new: Object, old: Object | None) -> list[Cause]:
    """Validates a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""
    causes: list[Cause] = []
    seen: set[str] = set()
    hooks, before = list_member(new, "webhooks"), list_member(old, "webhooks")
    # Unchanged match conditions are not validated again: an object that an older server accepted stays writable.
    is_new = [list_member(one, "matchConditions") for one in hooks] != [
        list_member(one, "matchConditions") for one in before
    ]
    for index, hook in enumerate(hooks):
        at, name = f"webhooks[{index}]", str(hook.get("name") or "")
        causes += _check_webhook(hook, at)
        if is_new:
            causes += check_match_conditions(list_member(hook, "matchConditions"), f"{at}.matchConditions")
        if name in seen:
            causes.append(field_errors.duplicate(f"{at}.name", name))
        seen.add(name)
    return causes


def check_client_config(config: Object, at: str) -> list[Cause]:
    """Validates the `clientConfig` of an admission or conversion webhook."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [field_errors.required(at, "exactly one of url or service is required")]
    if service is not None:
        return _check_service(map_member(config, "service"), f"{at}.service")
    return _check_url(str(url), f"{at}.url")


def check_rule(rule: Object, at: str, operations: Sequence[str] = OPERATIONS) -> list[Cause]:
    """Validates a rule of a webhook or a policy, which may use these operations."""
    causes: list[Cause] = []
    for word, what in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        causes += _check_names(list_member(rule, word), f"{at}.{word}", what)
    for index, one in enumerate(list_member(rule, "operations")):
        if one not in operations:
            causes.append(field_errors.not_supported(f"{at}.operations[{index}]", one, operations))
    resources = list_member(rule, "resources")
    if not resources:
        causes.append(field_errors.required(f"{at}.resources"))
    elif "*/*" in resources and len(resources) > 1:
        detail = "if '*/*' is present, must not specify other resources"
        causes.append(field_errors.invalid(f"{at}.resources", resources, detail))
    scope = rule.get("scope")
    if scope is not None and scope not in ("*", "Cluster", "Namespaced"):
        causes.append(field_errors.not_supported(f"{at}.scope", scope, ("*", "Cluster", "Namespaced")))
    return causes


def check_selector(selector: Any, at: str) -> list[Cause]:
    """Validates a label selector."""
    try:
        LabelSelector.from_tree(selector or {})
    except BadSelector as error:
        return [field_errors.invalid(at, selector, str(error))]
    return []


def check_match_conditions(conditions: list[Any], at: str, *, has_params: bool = False) -> list[Cause]:
    """Validates the match conditions of a webhook or a policy."""
    if len(conditions) > _MAX_CONDITIONS:
        return [field_errors.too_many(at, len(conditions), _MAX_CONDITIONS)]
    causes: list[Cause] = []
    for index, one in enumerate(conditions):
        name, expression = str(one.get("name") or ""), str(one.get("expression") or "").strip()
        if not expression:
            causes.append(field_errors.required(f"{at}[{index}].expression"))
        elif (problem := match_condition_error(expression, has_params=has_params)) is not None:
            causes.append(field_errors.invalid(f"{at}[{index}].expression", expression, problem))
        causes += _check_condition_name(name, f"{at}[{index}].name")
    return causes + list(_duplicates([str(one.get("name") or "") for one in conditions], at))


def _check_webhook(hook: Object, at: str) -> list[Cause]:
    causes = _check_name(str(hook.get("name") or ""), f"{at}.name")
    for field, known in _ENUMS.items():
        value = hook.get(field)
        if value is not None and value not in known:
            causes.append(field_errors.not_supported(f"{at}.{field}", value, known))
    seconds = hook.get("timeoutSeconds")
    if isinstance(seconds, int) and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        causes.append(field_errors.invalid(f"{at}.timeoutSeconds", seconds, detail))
    causes += _check_versions(list_member(hook, "admissionReviewVersions"), f"{at}.admissionReviewVersions")
    for word in ("namespaceSelector", "objectSelector"):
        causes += check_selector(hook.get(word), f"{at}.{word}")
    causes += check_client_config(map_member(hook, "clientConfig"), f"{at}.clientConfig")
    for index, rule in enumerate(list_member(hook, "rules")):
        causes += check_rule(rule, f"{at}.rules[{index}]")
    return causes


def _check_name(name: str, at: str) -> list[Cause]:
    if not name:
        return [field_errors.required(at)]
    causes = [field_errors.invalid(at, name, problem) for problem in check_dns1123_subdomain(name)]
    if not causes and name.count(".") < 2:
        causes.append(
            field_errors.invalid(at, name, "should be a domain with at least three segments separated by dots")
        )
    return causes


def _check_versions(versions: list[Any], at: str) -> list[Cause]:
    if not versions:
        return [field_errors.required(at, f"must specify one of {', '.join(_VERSIONS)}")]
    if not any(one in _VERSIONS for one in versions):
        return [field_errors.invalid(at, versions, f"must include at least one of {', '.join(_VERSIONS)}")]
    return []


def _check_url(url: str, at: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError for an invalid port
    except ValueError as error:
        return [field_errors.required(at, f"url must be a valid URL: {error}{form}")]
    causes: list[Cause] = []
    if parts.scheme != "https":
        causes.append(field_errors.invalid(at, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.hostname or port == 0:
        causes.append(field_errors.invalid(at, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None or parts.password is not None:
        causes.append(field_errors.invalid(at, parts.netloc, f"user information is not permitted in the URL{form}"))
    if parts.fragment:
        causes.append(field_errors.invalid(at, parts.fragment, f"fragments are not permitted in the URL{form}"))
    if parts.query:
        causes.append(field_errors.invalid(at, parts.query, f"query parameters are not permitted in the URL{form}"))
    return causes


def _check_service(service: Object, at: str) -> list[Cause]:
    causes = [
        field_errors.required(f"{at}.{word}", f"service {word} is required")
        for word in ("name", "namespace")
        if not service.get(word)
    ]
    path = service.get("path")
    if isinstance(path, str) and not path.startswith("/"):
        causes.append(field_errors.invalid(f"{at}.path", path, "must start with a '/'"))
    port = service.get("port")
    if isinstance(port, int) and not 1 <= port <= 65535:
        causes.append(
            field_errors.invalid(f"{at}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
        )
    return causes


def _check_names(names: list[Any], at: str, what: str) -> list[Cause]:
    if not names:
        return [field_errors.required(at)]
    if "*" in names and len(names) > 1:
        return [field_errors.invalid(at, names, f"if '*' is present, must not specify other {what}")]
    if what == "API versions":
        return [field_errors.required(f"{at}[{index}]") for index, one in enumerate(names) if not one]
    return []


def _check_condition_name(name: str, at: str) -> list[Cause]:
    if not name:
        return [field_errors.required(at)]
    return [field_errors.invalid(at, name, problem) for problem in check_label_key(name)]


def _duplicates(names: list[str], at: str) -> Iterable[Cause]:
    for index, name in enumerate(names):
        if name and name in names[:index]:
            yield field_errors.duplicate(f"{at}[{index}].name", name)
