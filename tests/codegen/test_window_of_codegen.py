"""The window of the room: everything is there when it is asked for, and not before."""

import subprocess
import sys

import pytest

import levelset.codegen


def test_every_name_is_there_when_it_is_asked_for():
    assert all(getattr(levelset.codegen, name) is not None for name in levelset.codegen.__all__)
    assert set(levelset.codegen.__all__) <= set(dir(levelset.codegen))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        levelset.codegen.nothing  # noqa: B018 -- it is the asking that fails


def test_whoever_wants_definitions_pays_for_no_more():
    code = "import sys, levelset.codegen.crd; print([one for one in sys.modules if 'helm' in one or one == 'yaml'])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
