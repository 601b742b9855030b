"""The public names of the package, which are imported on first use."""

import subprocess
import sys

import pytest

import levelset.codegen


def test_every_public_name_can_be_imported():
    assert all(getattr(levelset.codegen, name) is not None for name in levelset.codegen.__all__)
    assert set(levelset.codegen.__all__) <= set(dir(levelset.codegen))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        levelset.codegen.nothing  # noqa: B018 -- the access raises


def test_crds_do_not_import_helm_or_yaml():
    code = "import sys, levelset.codegen.crd; print([one for one in sys.modules if 'helm' in one or one == 'yaml'])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
