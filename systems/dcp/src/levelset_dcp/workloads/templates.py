"""Templates in arguments and variables: `{{ portFor "database" }}`, `{{ .Name }}`, `{{ index .Annotations "team" }}`.

A text without `{{`, or with an invalid template, is left unchanged. A value that is not available yet, such as the port
of a missing Service, raises `DependencyNotReady`: the workload starts when it is available.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from levelset import Ref, encode
from levelset.errors import LevelsetError
from levelset.objects import decode_tree
from levelset_dcp.kinds import Container, Executable, Service
from levelset_dcp.workloads.service_producers import producers

__all__ = [
    "DependencyNotReady",
    "Lookup",
    "Ports",
    "TemplateContext",
    "container_context",
    "evaluate",
    "executable_context",
    "is_template",
]

_ACTION: Final = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
_TERM: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`|([^\s"`]+))')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
Lookup = Callable[[str, str], object]
"""A template function: called with the namespace and the name of a Service; may raise DependencyNotReady."""
Ports = Mapping[str, int]
"""The ports that were allocated for the Services of a program, by Service name."""
Find = Callable[[Ref[Service]], Service | None]


class DependencyNotReady(LevelsetError):
    """A Service or network that a workload depends on does not exist or is not ready yet; retry later."""


class _InvalidTemplate(Exception):
    """A template that is invalid."""


class TemplateContext(Struct, frozen=True, kw_only=True):
    """What a template can refer to: the object as a JSON tree, and the functions."""

    name: str
    tree: Mapping[str, Any] = field(default_factory=dict[str, Any])
    functions: Mapping[str, Lookup] = field(default_factory=dict[str, Lookup])


def is_template(text: str) -> bool:
    """Whether a text contains a template."""
    return "{{" in text


def evaluate(text: str, context: TemplateContext) -> str:
    """Evaluates all templates of a text; an invalid one leaves the text unchanged. Raises DependencyNotReady."""
    if "{{" not in text:
        return text
    pieces: list[str] = []
    end, trims = 0, False
    try:
        for found in _ACTION.finditer(text):
            before = text[end : found.start()]
            before = before.lstrip() if trims else before
            pieces += [before.rstrip() if found[1] else before, _value(found[2], context)]
            end, trims = found.end(), bool(found[3])
    except _InvalidTemplate:
        return text
    rest = text[end:]
    if "{{" in rest:
        return text
    return "".join([*pieces, rest.lstrip() if trims else rest])


def _value(action: str, context: TemplateContext) -> str:
    if action.startswith("/*") and action.endswith("*/"):
        return ""
    terms = _terms(action)
    head, arguments = terms[0], [_argument(one, context) for one in terms[1:]]
    if head in context.functions:
        return _formatted(_call(context.functions[head], arguments))
    if head == "index" and len(arguments) >= 2:
        return _formatted(_index(arguments[0], arguments[1:]))
    if len(terms) == 1:
        return _formatted(_argument(head, context))
    raise _InvalidTemplate(action)


def _call(function: Lookup, arguments: list[object]) -> object:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise _InvalidTemplate("a function takes the name of a Service")
    namespace, _, name = arguments[0].rpartition("/")
    if not name:
        raise _InvalidTemplate("a Service has a name")
    return function(namespace, name)


def _terms(action: str) -> list[str]:
    """The terms of an action; string literals keep a leading quotation mark, which distinguishes them from paths."""
    found: list[str] = []
    position = 0
    while position < len(action):
        match = _TERM.match(action, position)
        if match is None:
            raise _InvalidTemplate(action)
        position = match.end()
        quoted, raw, bare = match.groups()
        found.append(f'"{_unescape(quoted)}' if quoted is not None else f'"{raw}' if raw is not None else bare)
    if not found:
        raise _InvalidTemplate(action)
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)


def _argument(term: str, context: TemplateContext) -> object:
    if term.startswith('"'):
        return term[1:]
    if term.startswith("."):
        return _path(term, context)
    if re.fullmatch(r"-?[0-9]+", term):
        return int(term)
    raise _InvalidTemplate(term)


def _path(term: str, context: TemplateContext) -> object:
    """A field of the object: `.Name`, and others by their Go names, such as `.Spec.Args`."""
    if term == ".Name":
        return context.name
    steps = [one for one in term.split(".") if one]
    metadata: Mapping[str, Any] = context.tree.get("metadata") or {}
    value: Any = context.tree
    for number, step in enumerate(steps):
        if not isinstance(value, Mapping):
            raise _InvalidTemplate(term)
        fields = cast("Mapping[str, Any]", value)
        name = step[:1].lower() + step[1:]
        if number == 0 and name not in fields and name not in ("spec", "status"):
            fields = metadata  # Go's objects have their metadata embedded
        if name not in fields:
            if name in ("annotations", "labels"):
                return {}
            raise _InvalidTemplate(term)
        value = fields[name]
    return value


def _index(value: object, keys: list[object]) -> object:
    for key in keys:
        if isinstance(value, Mapping):
            fields: Mapping[Any, Any] = cast("Any", value)
            value = fields.get(key, "")
        elif isinstance(value, list | tuple) and isinstance(key, int):
            items = cast("list[Any]", value)
            if not 0 <= key < len(items):
                raise _InvalidTemplate("there are not so many")
            value = items[key]
        else:
            raise _InvalidTemplate("only maps and lists have members")
    return value


def _formatted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _InvalidTemplate("this is no text")


def executable_context(
    exe: Executable, ports: Ports, find: Callable[[Ref[Service]], Service | None]
) -> TemplateContext:
    """The template context of an Executable; `find` returns a Service if it exists."""
    made = {one.service: one for one in producers(exe)}

    def service(name: str) -> Service:
        found = find(Ref(Service, name))
        if found is None:
            raise DependencyNotReady(f"Service {name} does not exist yet")
        return found

    def port_for_serving(_: str, name: str) -> int:
        if name in made and (port := made[name].port or ports.get(name)):
            return port
        service(name)  # the usual cause: the Service does not exist yet
        raise DependencyNotReady(
            f"{exe.name} has no port for Service {name}; add it to the annotation service-producer"
        )

    def address_for_serving(_: str, name: str) -> str:
        return (made[name].address if name in made else "") or "localhost"

    def port_for(_: str, name: str) -> int:
        status = service(name).status
        if status is None or not status.effective_port:
            raise DependencyNotReady(f"Service {name} has no port yet")
        return status.effective_port

    def address_for(_: str, name: str) -> str:
        status = service(name).status
        if status is None or not status.effective_address:
            raise DependencyNotReady(f"Service {name} has no address yet")
        return status.effective_address

    functions: dict[str, Callable[[str, str], object]] = {
        "portForServing": port_for_serving,
        "addressForServing": address_for_serving,
        "portFor": port_for,
        "addressFor": address_for,
    }
    tree: Mapping[str, Any] = decode_tree(encode(exe))
    return TemplateContext(name=exe.name, tree=tree, functions=functions)


def container_context(container: Container, find: Find) -> TemplateContext:
    """The template context of a Container; `find` returns a Service if it exists."""
    made = {one.service: one for one in producers(container)}
    inside = container.spec.ports[0].container_port if len(container.spec.ports) == 1 else None

    def port_for_serving(_: str, name: str) -> int:
        port = made[name].port or inside if name in made else None
        if port is None:
            raise DependencyNotReady(
                f"{container.name} has no port for Service {name}; add it to the annotation service-producer"
            )
        return port

    def address_for_serving(_: str, name: str) -> str:
        return (made[name].address if name in made else "") or "0.0.0.0"  # noqa: S104 - inside the container

    functions: dict[str, Lookup] = {
        "portForServing": port_for_serving,
        "addressForServing": address_for_serving,
        "portFor": lambda _, name: _service_address(find, name)[1],
        "addressFor": lambda _, name: _service_address(find, name)[0],
    }
    tree: Mapping[str, Any] = decode_tree(encode(container))
    return TemplateContext(name=container.name, tree=tree, functions=functions)


def _service_address(find: Find, name: str) -> tuple[str, int]:
    """The address and port of a Service."""
    service = find(Ref(Service, name))
    if service is None:
        raise DependencyNotReady(f"Service {name} does not exist yet")
    if service.status is None or not (service.status.effective_address and service.status.effective_port):
        raise DependencyNotReady(f"Service {name} has no address and port yet")
    return service.status.effective_address, service.status.effective_port
