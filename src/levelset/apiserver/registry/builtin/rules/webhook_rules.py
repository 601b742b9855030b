"""The rules of webhook configurations, and the rules and match conditions that admission policies share with them."""

from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from levelset.apiserver.expressions.match_conditions import match_condition_error
from levelset.apiserver.registry.builtin.rules.checks import (
    between,
    dns1035_label,
    label_key,
    label_selector,
    one_of,
    subdomain_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Required, Table, always, given
from levelset.apiserver.resources.json_members import list_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = [
    "MUTATING_WEBHOOKS",
    "RULE",
    "VALIDATING_WEBHOOKS",
    "check_client_config",
    "check_match_conditions",
    "check_review_versions",
]

OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
VERSIONS: Final = ("v1", "v1beta1")
MAX_CONDITIONS: Final = 64
_MAX_COMPILED: Final = 2 * MAX_CONDITIONS
"""How many conditions are compiled although they are too many: to report what else is wrong."""
_FORM: Final = "; desired format: https://host[/path]"


def _alone(what: str) -> Any:
    """A list that is not empty, in which a wildcard excludes other values."""

    def check(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
        if len(value) > 1 and "*" in value:
            out.append(field_errors.invalid(at, value, f"if '*' is present, must not specify other {what}"))

    return check


def _no_empty_items(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    out.extend([field_errors.required(f"{at}[{index}]") for index, one in enumerate(value) if not one])


def _operations(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    for index, one in enumerate(value):
        if one not in OPERATIONS:
            out.append(field_errors.not_supported(f"{at}[{index}]", one, OPERATIONS))


def _resources(value: list[str], at: str, out: list[Cause], _context: Any) -> None:
    """Resources and subresources, of which a wildcard excludes those that it matches."""
    resources, subresources, has_plain = set[str](), set[str](), False
    for index, one in enumerate(value):
        where = f"{at}[{index}]"
        if not one:
            out.append(field_errors.required(where))
            continue
        resource, slash, part = one.partition("/")
        if not slash:
            has_plain = one != "*"
            continue
        for name, known in ((f"{resource}/*", resource in resources), (f"*/{part}", part in subresources)):
            if known:
                out.append(field_errors.invalid(where, one, f"if '{name}' is present, must not specify {one}"))
        resources.update([resource] if part == "*" else [])
        subresources.update([part] if resource == "*" else [])
    if len(value) > 1 and "*/*" in value:
        out.append(field_errors.invalid(at, value, "if '*/*' is present, must not specify other resources"))
    if "*" in value and has_plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        out.append(field_errors.invalid(at, value, detail))


# A rule of a webhook or a policy: which requests it is about.
RULE: Final = Table(
    ("operations", Required(), _alone("operations"), _operations),
    ("apiGroups", Required(), _alone("API groups")),
    ("apiVersions", Required(), _alone("API versions"), _no_empty_items),
    ("resources", Required(), _resources),
    ("scope", given(one_of("*", "Cluster", "Namespaced"))),
)


def check_client_config(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Checks the `clientConfig` of an admission or conversion webhook."""
    config: dict[str, Any] = value or {}
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        out.append(field_errors.required(at, "exactly one of url or service is required"))
    elif service is not None:
        _service(service, f"{at}.service", out)
    else:
        _url(str(url), f"{at}.url", out)


def _url(url: str, at: str, out: list[Cause]) -> None:
    parts = _split(url)
    if parts is None:
        out.append(field_errors.required(at, f'url must be a valid URL: parse "{url}": {_url_problem(url)}{_FORM}'))
        return
    if parts.scheme != "https":
        out.append(field_errors.invalid(at, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not parts.hostname or parts.port == 0:
        out.append(field_errors.invalid(at, parts.netloc, f"host must be specified{_FORM}"))
    if parts.username is not None or parts.password is not None:
        shown = parts.netloc.rpartition("@")[0]
        out.append(field_errors.invalid(at, shown, "user information is not permitted in the URL"))
    if parts.fragment:
        out.append(field_errors.invalid(at, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        out.append(field_errors.invalid(at, parts.query, "query parameters are not permitted in the URL"))


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None if Go does not parse it."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid one
    except ValueError:
        return None
    return None if url.startswith(":") else parts


def _url_problem(url: str) -> str:
    """Why Go does not parse a URL."""
    if url.startswith(":"):
        return "missing protocol scheme"
    host = url.partition("//")[2].partition("/")[0]
    if "[" in host and "]" not in host:
        return "missing ']' in host"
    return f'invalid port "{host[host.rfind(":") :]}" after host'


def _service(service: Any, at: str, out: list[Cause]) -> None:
    # Upstream reports each of these two under the name of the other.
    for name, other in (("namespace", "name"), ("name", "namespace")):
        if not service.get(name):
            out.append(field_errors.required(f"{at}.{other}"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        out.append(field_errors.invalid(f"{at}.port", port, detail))
    path = service.get("path")
    if path and path != "/":
        _service_path(path, f"{at}.path", out)


def _service_path(path: str, at: str, out: list[Cause]) -> None:
    if path == "//":
        out.append(field_errors.invalid(at, path, "segment[0] may not be empty"))
        return
    if not path.startswith("/"):
        out.append(field_errors.invalid(at, path, "must start with a '/'"))
    # Without its first byte, as upstream: what is left of a longer character is no letter.
    rest = path.encode()[1:].decode(errors="replace")
    for index, step in enumerate(rest.removesuffix("/").split("/")):
        problems = [f"segment[{index}]: {one}" for one in subdomain_problems(step)]
        if not step:
            problems = [f"segment[{index}] may not be empty"]
        out.extend([field_errors.invalid(at, path, one) for one in problems])


def check_match_conditions(conditions: list[Any], at: str, out: list[Cause], *, has_params: bool = False) -> None:
    """Checks the match conditions of a webhook or a policy; very many of them are not compiled."""
    if len(conditions) > MAX_CONDITIONS:
        out.append(field_errors.too_many(at, len(conditions), MAX_CONDITIONS))
    if len(conditions) > _MAX_COMPILED:
        return
    seen: set[str] = set()
    for index, one in enumerate(conditions):
        name, where = str(one.get("name") or ""), f"{at}[{index}]"
        expression = str(one.get("expression") or "").strip()
        if not expression:
            out.append(field_errors.required(f"{where}.expression"))
        elif (problem := match_condition_error(expression, has_params=has_params)) is not None:
            out.append(field_errors.invalid(f"{where}.expression", expression, problem))
        if not name:
            out.append(field_errors.required(f"{where}.name"))
        elif not label_key.is_valid(name):
            label_key.report(name, f"{where}.name", out)
        if name and name in seen:
            out.append(field_errors.duplicate(f"{where}.name", name))
        seen.add(name)


def _hook_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not value:
        out.append(field_errors.required(at))
    elif problems := subdomain_problems(value):
        out.append(field_errors.invalid(at, value, ",".join(problems)))
    elif value.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        out.append(field_errors.invalid(at, value, detail))


def _review_versions(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    check_review_versions(value, at, out, absent=f"must specify one of {', '.join(VERSIONS)}")


def check_review_versions(value: Any, at: str, out: list[Cause], *, absent: str = "") -> None:
    """Checks the versions of reviews that an admission or conversion webhook takes."""
    versions: list[str] = value or []
    if not versions:
        out.append(field_errors.required(at, absent))
        return
    seen: set[str] = set()
    for index, one in enumerate(versions):
        if one in seen:
            out.append(field_errors.invalid(f"{at}[{index}]", one, "duplicate version"))
        elif not dns1035_label.is_valid(one):
            dns1035_label.report(one, f"{at}[{index}]", out)
        seen.add(one)
    if not seen.intersection(VERSIONS):
        out.append(field_errors.invalid(at, versions, f"must include at least one of {', '.join(VERSIONS)}"))


def _conditions(value: list[Any], at: str, out: list[Cause], old: Any) -> None:
    # Unchanged match conditions are not validated again: an object that an older server accepted stays writable.
    former = [list_member(one, "matchConditions") for one in list_member(old, "webhooks")]
    if old is None or value not in former:
        check_match_conditions(value, at, out)


def _side_effects(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    known = ("None", "NoneOnDryRun")
    if value is None:
        out.append(field_errors.required(at, f"must specify one of {', '.join(known)}"))
    elif value not in known:
        out.append(field_errors.not_supported(at, value, known))


_FIRST: Final = (
    ("name", always(_hook_name)),
    ("rules[*]", RULE),
    ("failurePolicy", given(one_of("Fail", "Ignore"))),
    ("matchPolicy", given(one_of("Equivalent", "Exact"))),
    ("sideEffects", always(_side_effects)),
    ("timeoutSeconds", between(1, 30, "the timeout value must be between 1 and 30 seconds")),
    ("namespaceSelector", label_selector),
    ("objectSelector", label_selector),
)
_THEN: Final = (
    ("clientConfig", always(check_client_config)),
    ("matchConditions", _conditions),
    ("admissionReviewVersions", always(_review_versions)),
)
VALIDATING_HOOK: Final = Table(*_FIRST, *_THEN)
MUTATING_HOOK: Final = Table(*_FIRST, ("reinvocationPolicy", given(one_of("IfNeeded", "Never"))), *_THEN)


def _hooks(table: Table) -> Any:
    """The webhooks of a configuration, whose names are unique."""

    def check(value: list[Any], at: str, out: list[Cause], old: Any) -> None:
        seen: set[str] = set()
        for index, hook in enumerate(value):
            table(hook, f"{at}[{index}]", out, old)
            name = hook.get("name") or ""
            if name and name in seen:
                out.append(field_errors.duplicate(f"{at}[{index}].name", name))
            seen.add(name)

    return check


VALIDATING_WEBHOOKS: Final = KindRules(rules=Table(("webhooks", _hooks(VALIDATING_HOOK)), root=True))
MUTATING_WEBHOOKS: Final = KindRules(rules=Table(("webhooks", _hooks(MUTATING_HOOK)), root=True))
