"""Generates a Helm chart: the same objects as the manifests, with the common settings as values.

The templates use only a small part of Helm's language, so that they can be tested without Helm: `.Values` or `.Release`
in place of a string or a number, `toYaml` for a whole map, and `if` around a file. Object names are those of the
installation, not of the release: a cluster has one operator for its kinds. CRDs are in `crds/`, which Helm installs
first and without templating.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from levelset.codegen.installation import Installation
from levelset.codegen.manifests import documents_of, split_image, write_file
from levelset.objects.json_tree import is_list, is_map
from levelset.runtime.webhook.client_config import SERVICE_VARIABLE

__all__ = ["helm_chart"]

_NAMESPACE: Final = "{{ .Release.Namespace }}"
# Placeholders for non-string values: the YAML dumper would quote the template expression itself.
_NUMBER: Final = re.compile(r"@number (\S+)@")
_WHOLE: Final = re.compile(r"^( *)(- )?(\w+): '?@whole (\S+)@'?$", re.MULTILINE)
_OPTIONAL: Final = {
    "network-policy.yaml": "networkPolicy.enabled",
    "pod-disruption-budget.yaml": "podDisruptionBudget.enabled",
}


def helm_chart(one: Installation) -> Mapping[str, str]:
    """The files of the chart, by their paths in its folder."""
    made = {"Chart.yaml": write_file([_chart(one)]), "values.yaml": _COMMENT + write_file([_values(one)])}
    for path, objects in documents_of(one).items():
        if path.startswith("crds/"):
            made[path] = write_file(objects)
        elif path != "namespace.yaml":  # Helm creates it with --create-namespace
            made[f"templates/{path}"] = _guarded(path, _template(objects, one))
    return {**made, "templates/NOTES.txt": _notes(one)}


_COMMENT: Final = "# The values of the chart: helm install --set replicas=2 ...\n"


def _chart(one: Installation) -> dict[str, Any]:
    description = one.description or f"Runs {one.name}."
    named = {"apiVersion": "v2", "name": one.name, "description": description, "type": "application"}
    return {**named, "version": one.version, "appVersion": one.version}


def _values(one: Installation) -> dict[str, Any]:
    name, tag = split_image(one.image)
    return {
        "image": {"repository": name, "tag": tag or one.version, "pullPolicy": "IfNotPresent"},
        "replicas": one.replicas,
        "resources": {kind: dict(amounts) for kind, amounts in one.resources.items()},
        "nodeSelector": {},
        "tolerations": [],
        "affinity": {},
        "podDisruptionBudget": {"enabled": True},
        "networkPolicy": {"enabled": True},
    }


def _template(objects: list[dict[str, Any]], one: Installation) -> str:
    text = write_file([_with_values(_with_release_namespace(obj, one.namespace), one) for obj in objects])
    text = _NUMBER.sub(r"{{ \1 }}", text.replace("'@number", "@number").replace("@'\n", "@\n"))
    return _WHOLE.sub(_write_whole, text)


def _with_release_namespace(tree: Any, namespace: str) -> Any:
    """The tree with the namespace of the release."""
    if is_map(tree):
        return {
            name: _NAMESPACE
            if name == "namespace" and value == namespace
            else _with_release_namespace(value, namespace)
            for name, value in tree.items()
        }
    return [_with_release_namespace(item, namespace) for item in tree] if is_list(tree) else tree


def _with_values(obj: dict[str, Any], one: Installation) -> dict[str, Any]:
    """The Deployment with chart values; other objects unchanged."""
    if obj["kind"] != "Deployment":
        return obj
    spec = obj["spec"]
    pod = spec["template"]["spec"]
    first, *others = pod["containers"]
    mark = "@" if ":" in split_image(one.image)[1] else ":"
    container: dict[str, Any] = {
        "name": first["name"],
        "image": f"{{{{ .Values.image.repository }}}}{mark}{{{{ .Values.image.tag }}}}",
        "imagePullPolicy": "{{ .Values.image.pullPolicy }}",
        **{name: value for name, value in first.items() if name not in ("name", "image")},
        "resources": "@whole .Values.resources@",
    }
    if "env" in first:
        container["env"] = [_variable(each, one) for each in first["env"]]
    places = {name: f"@whole .Values.{name}@" for name in ("nodeSelector", "tolerations", "affinity")}
    pod = {**pod, "containers": [container, *others], **places}
    template = {**spec["template"], "spec": pod}
    return {**obj, "spec": {**spec, "replicas": "@number .Values.replicas@", "template": template}}


def _variable(variable: dict[str, str], one: Installation) -> dict[str, str]:
    """The environment variable of the webhook Service, with the namespace of the release."""
    return {**variable, "value": f"{one.name}.{_NAMESPACE}"} if variable["name"] == SERVICE_VARIABLE else variable


def _write_whole(found: "re.Match[str]") -> str:
    """A whole map as an indented `toYaml` expression."""
    indent = found[1] + (" " * len(found[2] or ""))
    return f"{found[1]}{found[2] or ''}{found[3]}: {{{{- toYaml {found[4]} | nindent {len(indent) + 2} }}}}"


def _guarded(path: str, text: str) -> str:
    value = _OPTIONAL.get(path)
    return text if value is None else f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"


def _notes(one: Installation) -> str:
    shown = "".join(f"  kubectl get {definition['spec']['names']['plural']} -A\n" for definition in one.definitions)
    return f"{one.name} runs in {_NAMESPACE}. Its objects:\n{shown}"
