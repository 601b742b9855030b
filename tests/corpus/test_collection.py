"""What is taken of a module's files, and what the corpus is made of."""

import zipfile
from pathlib import Path
from typing import Any

from tests.corpus.collection import Contents, Document, Source, join, read_sources, read_zip, select

SOURCE = Source("example.com/module", "v1.0.0", "h1:x", ("config/crd", "charts"))
FILES = {
    "charts/crds.yaml": "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata: {name: a}",
    "samples/a.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {2: 2020-01-01, true: x}\n---\n- 1",
    "samples/template.yaml": "apiVersion: v1\nkind: {{ .Values.kind }}\nmetadata: {name: {{ a }}\n",
    "samples/unnamed.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
    "samples/infinite.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nspec: .inf\n",
    "vendor/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
}


def definition(group: str = "example.com", **metadata: Any) -> dict[str, Any]:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {}}]
    names = {"kind": "Thing", "plural": "things"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": {"name": f"things.{group}", **metadata}, "spec": spec}


def thing(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "x"}, **more}


def test_objects_are_read_from_yaml_as_json_and_templates_are_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "module.zip", "w") as archive:
        for name, text in FILES.items():
            archive.writestr(f"example.com/module@v1.0.0/{name}", text)
    found = list(read_zip(tmp_path / "module.zip", "example.com/module@v1.0.0/"))
    assert [one.where for one in found] == ["charts/crds.yaml#0", "samples/a.yaml#0"]
    assert found[1].body["data"] == {"2": "2020-01-01", "true": "x"}


def test_a_definition_is_taken_from_the_first_of_the_folders_that_has_it() -> None:
    places = {"charts/a.yaml#0": "charts", "config/crd/a.yaml#0": "bases", "other/a.yaml#0": "other"}
    documents = [Document(where, definition(labels={"from": word})) for where, word in places.items()]
    (found,) = select(SOURCE, documents).definitions.values()
    assert found["metadata"]["labels"] == {"from": "bases"}


def test_patches_of_definitions_are_left_out() -> None:
    patch = {**definition(), "spec": {"conversion": {"strategy": "Webhook"}}}
    assert select(SOURCE, [Document("charts/a.yaml#0", patch)]) == Contents({}, ())


def test_a_kind_has_a_limited_number_of_samples_and_none_twice() -> None:
    bodies = [thing("a"), thing("a"), *(thing(f"b{number}") for number in range(30))]
    found = select(SOURCE, [Document(f"{number}.yaml#0", body) for number, body in enumerate(bodies)])
    assert [one.body["metadata"]["name"] for one in found.objects] == ["a", *(f"b{number}" for number in range(19))]


def test_of_two_definitions_with_a_name_the_first_counts_and_samples_are_put_into_one_namespace() -> None:
    first, second = definition(labels={"from": "one"}), definition(labels={"from": "two"})
    unknown = {**thing("c"), "kind": "Unknown"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}}
    contents = [
        ("one", Contents({"things.example.com": first}, (Document("a#0", thing("a")), Document("u#0", unknown)))),
        ("two", Contents({"things.example.com": second}, (Document("b#0", thing("a")), Document("n#0", node)))),
    ]
    found = join(contents)
    assert found.definitions == {"things.example.com": ("one", first)}
    shown = [(one.source, one.where, one.resource.path, one.body["metadata"]) for one in found.samples]
    assert shown == [
        ("one", "a#0", "/apis/example.com/v1/namespaces/corpus/things", {"name": "a", "namespace": "corpus"}),
        ("two", "n#0", "/api/v1/nodes", {"name": "n"}),
    ]


def test_every_source_is_pinned() -> None:
    sources = read_sources()
    assert len({one.module for one in sources}) == len(sources)
    assert all(one.version.startswith("v") and one.sum.startswith("h1:") and one.definitions for one in sources)
