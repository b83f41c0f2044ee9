"""Modules of a package are found as pkgutil finds them, whether they lie there as sources or compiled alone."""

from __future__ import annotations

import compileall
import pathlib
import pkgutil

import pytest

from MNN import discovery

NAMES = ["b.py", "a.py", "zoo/__init__.py", "zoo/inner.py", "a_more.py", "no_package/c.py", "notes.txt", "py.typed"]


@pytest.mark.parametrize("sources", [True, False])
def test_modules_are_those_of_pkgutil(tmp_path: pathlib.Path, sources: bool) -> None:
    for name in ["__init__.py", *NAMES]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    if not sources:
        assert compileall.compile_dir(tmp_path, quiet=1, legacy=True)
        for file in tmp_path.rglob("*.py"):
            file.unlink()
    wanted = [(info.name, info.ispkg) for info in pkgutil.iter_modules([str(tmp_path)])]
    assert discovery._modules([str(tmp_path)]) == wanted
    assert [name for name, _ in wanted] == ["a", "a_more", "b", "zoo"]
