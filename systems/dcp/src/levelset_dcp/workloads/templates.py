"""Templates in arguments and variables: `{{ portFor "database" }}`, `{{ .Name }}`, `{{ index .Annotations "team" }}`.

A text without `{{`, or with an invalid template, is left unchanged; the status has a condition that says why. A value
that is not available yet, such as the port of a missing Service, raises `DependencyNotReady`: the workload starts when
it is available.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, cast

from msgspec import Struct, field

from levelset import Condition, Object, Ref, set_condition
from levelset.errors import LevelsetError
from levelset.objects import remove_condition
from levelset_dcp.kinds import Container, ContainerExec, Executable, HealthProbe, Service
from levelset_dcp.workloads.go_templates import ABSENT, BadTemplate, Function, Node, parse_template, render
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
    "template_conditions",
    "template_errors",
]

Lookup = Callable[[str, str], object]
"""A template function: called with the namespace and the name of a Service; may raise DependencyNotReady."""
Ports = Mapping[str, int]
"""The ports that were allocated for the Services of a program, by Service name."""
Find = Callable[[Ref[Service]], Service | None]
_STAND_INS: Final[Mapping[str, Lookup]] = {
    **dict.fromkeys(("portForServing", "portFor"), lambda _namespace, _name: 1),
    **dict.fromkeys(("addressForServing", "addressFor"), lambda _namespace, _name: "localhost"),
}
_MOST_SHOWN: Final = 5


class DependencyNotReady(LevelsetError):
    """A Service or network that a workload depends on does not exist or is not ready yet; retry later."""


class TemplateContext(Struct, frozen=True, kw_only=True):
    """What a template can refer to: the object, and the functions."""

    root: Object | None = None
    functions: Mapping[str, Lookup] = field(default_factory=dict[str, Lookup])


def is_template(text: str) -> bool:
    """Whether a text contains a template."""
    return "{{" in text


def evaluate(text: str, context: TemplateContext) -> str:
    """Evaluates all templates of a text; an invalid one leaves the text unchanged. Raises DependencyNotReady."""
    if "{{" not in text:
        return text
    try:
        return _rendered(text, context)
    except BadTemplate:
        return text


def template_errors(workload: Executable | Container | ContainerExec) -> Iterator[str]:
    """What is wrong with the templates of a workload, by field; Services are not looked up. Pure.

    Of a ContainerExec only the form is checked: its templates refer to the Container.
    """
    context = TemplateContext(root=None if isinstance(workload, ContainerExec) else workload, functions=_STAND_INS)
    for name, text in _texts(workload):
        try:
            _ = is_template(text) and (_rendered(text, context) if context.root is not None else _parsed(text))
        except BadTemplate as error:
            yield f"{name}: {error}"


def template_conditions(
    conditions: Iterable[Condition], workload: Executable | Container | ContainerExec, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with `TemplatesEvaluated`, which is False with the reasons, and missing if all is well."""
    errors = list(template_errors(workload))
    if not errors:
        return remove_condition(conditions, "TemplatesEvaluated")
    more = f"; and {len(errors) - _MOST_SHOWN} more" if len(errors) > _MOST_SHOWN else ""
    return set_condition(
        conditions,
        "TemplatesEvaluated",
        False,
        now=now,
        reason="InvalidTemplate",
        message=f"{'; '.join(errors[:_MOST_SHOWN])}{more}. The text is used unchanged.",
        observed_generation=workload.metadata.generation,
    )


def _texts(workload: Executable | Container | ContainerExec) -> Iterator[tuple[str, str]]:
    """The texts that may contain templates, by field."""
    spec = workload.spec
    yield from ((f"spec.args[{number}]", text) for number, text in enumerate(spec.args))
    yield from ((f"spec.env[{one.name}]", one.value) for one in spec.env)
    probes: Sequence[HealthProbe] = () if isinstance(workload, ContainerExec) else workload.spec.health_probes
    for probe in probes:
        name = f"spec.healthProbes[{probe.name}]"
        if probe.http_probe is not None:
            yield f"{name}.httpProbe.url", probe.http_probe.url
            yield from ((f"{name}.httpProbe.headers[{one.name}]", one.value) for one in probe.http_probe.headers)
        if probe.executable_probe is not None:
            program = probe.executable_probe.executable_template.spec
            yield from ((f"{name} args[{number}]", text) for number, text in enumerate(program.args))
            yield from ((f"{name} env[{one.name}]", one.value) for one in program.env)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[Node, ...]:
    return parse_template(text)


def _rendered(text: str, context: TemplateContext) -> str:
    functions: dict[str, Function] = {
        name: partial(_call, name, function) for name, function in context.functions.items()
    }
    return render(_parsed(text), context.root, _field, functions)


def _call(name: str, function: Lookup, arguments: list[object]) -> object:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise BadTemplate(f"{name} needs the name of a Service")
    namespace, _, service = arguments[0].rpartition("/")
    if not service:
        raise BadTemplate(f"{name} needs the name of a Service")
    return function(namespace, service)


def _field(value: object, names: tuple[str, ...], is_root: bool) -> object:
    """A field by its Go name, such as `.Spec.Args`; Go's objects have their metadata embedded: `.Name`."""
    for number, name in enumerate(names):
        found = _member(value, name)
        if not found and is_root and number == 0 and isinstance(value, Object):
            found = [value.metadata] if name == "ObjectMeta" else _member(value.metadata, name)
        if not found:
            raise BadTemplate(f"there is no field .{'.'.join(names[: number + 1])}")
        value = found[0]
    return value


def _member(value: object, name: str) -> list[object]:
    """The member of an object or a map in a list, or an empty list; Go's names differ in capitals only."""
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", value)
        return [fields.get(name, ABSENT)]
    if not isinstance(value, Struct):
        return []
    pairs = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    return [getattr(value, own) for own, wire in pairs if wire.lower() == name.lower() and name[:1].isupper()]


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
    return TemplateContext(root=exe, functions=functions)


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
    return TemplateContext(root=container, functions=functions)


def _service_address(find: Find, name: str) -> tuple[str, int]:
    """The address and port of a Service."""
    service = find(Ref(Service, name))
    if service is None:
        raise DependencyNotReady(f"Service {name} does not exist yet")
    if service.status is None or not (service.status.effective_address and service.status.effective_port):
        raise DependencyNotReady(f"Service {name} has no address and port yet")
    return service.status.effective_address, service.status.effective_port
