"""Writes a Helm chart: the same objects as the manifests, with the values that people change taken out.

The templates use very little of Helm's language, so that they can be read, and checked without Helm: a value of
`.Values` or `.Release` in place of a text or a number, `toYaml` for a whole map, and `if` around a file. Names are
those of the installation, whatever the release is called: a cluster has one program for its kinds. Definitions stand
in `crds/`, which Helm installs first and takes as they are.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from levelset.codegen.installation import Installation
from levelset.codegen.manifests import documents_of, split_image, write_file
from levelset.objects.json_tree import is_list, is_map
from levelset.runtime.webhook.client_config import SERVICE

__all__ = ["helm_chart"]

_NAMESPACE: Final = "{{ .Release.Namespace }}"
# Written in place of what is no text; the dumper would put quotes around the real thing.
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
        elif path != "namespace.yaml":  # Helm makes it, if it is asked to
            made[f"templates/{path}"] = _guarded(path, _template(objects, one))
    return {**made, "templates/NOTES.txt": _notes(one)}


_COMMENT: Final = "# What may be changed when the chart is installed: helm install --set replicas=2 ...\n"


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
    text = write_file([_opened(_placed(obj, one.namespace), one) for obj in objects])
    text = _NUMBER.sub(r"{{ \1 }}", text.replace("'@number", "@number").replace("@'\n", "@\n"))
    return _WHOLE.sub(_write_whole, text)


def _placed(tree: Any, namespace: str) -> Any:
    """The tree with the release's namespace in place of the installation's."""
    if is_map(tree):
        return {
            name: _NAMESPACE if name == "namespace" and value == namespace else _placed(value, namespace)
            for name, value in tree.items()
        }
    return [_placed(item, namespace) for item in tree] if is_list(tree) else tree


def _opened(obj: dict[str, Any], one: Installation) -> dict[str, Any]:
    """The Deployment with values of the chart in it; all else as it is."""
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
    """The variable of the environment that names the Service, with the release's namespace."""
    return {**variable, "value": f"{one.name}.{_NAMESPACE}"} if variable["name"] == SERVICE else variable


def _write_whole(found: "re.Match[str]") -> str:
    """`resources:` and below it, indented, whatever the value is."""
    indent = found[1] + (" " * len(found[2] or ""))
    return f"{found[1]}{found[2] or ''}{found[3]}: {{{{- toYaml {found[4]} | nindent {len(indent) + 2} }}}}"


def _guarded(path: str, text: str) -> str:
    value = _OPTIONAL.get(path)
    return text if value is None else f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"


def _notes(one: Installation) -> str:
    shown = "".join(f"  kubectl get {definition['spec']['names']['plural']} -A\n" for definition in one.definitions)
    return f"{one.name} runs in {_NAMESPACE}. Look at what it works for:\n{shown}"
