"""Classes generated from CRDs of well-known projects: objects round-trip without loss."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from levelset.objects import Object, decode, decode_tree, definition_of, encode, encode_tree
from tests.codegen.public_crds import NAMES, document, modules, sources
from tests.codegen.random_objects import ObjectGenerator, lost

ROOT = Path(__file__).parents[3]


@cache
def versions(name: str) -> list[tuple[str, type[Object], dict[str, Any]]]:
    """The versions of a CRD, each with its class and schema."""
    spec = document(name)["spec"]
    schemas = {one["name"]: one["schema"]["openAPIV3Schema"] for one in spec["versions"]}
    kind = spec["names"]["kind"]
    return [
        (f"{spec['group']}/{version}", getattr(module, kind, None) or getattr(module, f"{kind}Kind"), schemas[version])
        for version, module in modules(name).items()
    ]


def fresh(obj: Object) -> Any:
    """The fields of the class alone, without unknown fields of the original."""
    values = {name: getattr(obj, name) for name in obj.__struct_fields__}
    return decode_tree(encode_tree(type(obj)(**values)))


@pytest.mark.parametrize("name", NAMES)
def test_every_object_of_a_public_crd_round_trips(name):
    for api, kind, schema in versions(name):
        for seed in range(3):
            data = encode_tree(ObjectGenerator(seed=seed).object(schema, api, definition_of(kind).gvk.kind))
            assert encode(decode(kind, data)) == data


@pytest.mark.parametrize("name", NAMES)
def test_a_class_has_every_member_of_its_public_crd(name):
    for api, kind, schema in versions(name):
        tree = ObjectGenerator(full=True).object(schema, api, definition_of(kind).gvk.kind)
        assert lost(tree, fresh(decode(kind, encode_tree(tree)))) == []


@pytest.mark.parametrize("name", NAMES)
def test_changing_one_member_changes_nothing_else(name):
    for api, kind, schema in versions(name):
        tree = ObjectGenerator(seed=7).object(schema, api, definition_of(kind).gvk.kind)
        changed = decode(kind, encode_tree(tree)).with_metadata(labels={"a": "c"})
        tree["metadata"]["labels"] = {"a": "c"}
        assert decode_tree(encode(changed)) == tree


@pytest.mark.parametrize("name", NAMES)
def test_a_class_has_the_names_of_its_public_crd(name):
    spec = document(name)["spec"]
    names = spec["names"]
    for _, kind, _ in versions(name):
        found = definition_of(kind)
        assert (found.gvk.group, found.gvk.kind, found.plural) == (spec["group"], names["kind"], names["plural"])
        assert found.singular == names.get("singular", names["kind"].lower())
        assert (found.scope, found.short_names) == (spec["scope"], tuple(names.get("shortNames", ())))
        version = next(one for one in spec["versions"] if one["name"] == found.gvk.version)
        assert [one.path for one in found.columns] == [
            one["jsonPath"] for one in version.get("additionalPrinterColumns", [])
        ]
        assert found.status == ("status" in version.get("subresources", {}))


def test_a_formatter_changes_nothing_in_generated_modules(tmp_path):
    for name in NAMES:
        for file, text in sources(name).items():
            (tmp_path / f"{name.replace('.', '_')}_{file}").write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "--no-cache"]
    options = ["--config", str(ROOT / "pyproject.toml")]
    outcome = subprocess.run([*command, *options, str(tmp_path)], check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
