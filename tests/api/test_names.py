"""Names of PyMNN: all are here, with their parameters and kinds."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from typing import Any

import pytest

from tests.api.missing import API, find, missing

ABSENT = {path: set(names) for path, names, _ in missing()}
FUNCTIONS = [
    (module, name, text)
    for module, names in API["names"].items()
    for name, text in names.items()
    if text.startswith("function(") and name not in ABSENT[module]
]
MEMBERS = [
    (path, member, kind)
    for path, members in API["members"].items()
    for member, kind in members.items()
    if path in ABSENT and member not in ABSENT[path]
]


def parameters(text: str) -> list[tuple[str, str | None]]:
    """Names and defaults of ``function(a, b=1)``."""
    inside = text[len("function(") : -1]
    parts = re.split(r",\s*(?![^\[(]*[\])])", inside) if inside else []
    return [(name.strip(), default if equals else None) for name, equals, default in (p.partition("=") for p in parts)]


def ours(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return stars.get(parameter.kind, "") + parameter.name


@pytest.mark.parametrize(("module", "name", "text"), FUNCTIONS, ids=[f"{m}.{n}" for m, n, _ in FUNCTIONS])
def test_parameters(module: str, name: str, text: str) -> None:
    """Same names in the same order; what may be left out there may be left out here, with the same meaning."""
    found = list(inspect.signature(find(module, name)).parameters.values())
    wanted = [(n, d) for n, d in parameters(text) if not n.startswith("**")]  # options have their names here
    assert [p.name for p in found[: len(wanted)]] == [n.lstrip("*") for n, _ in wanted]
    assert all(p.default is not p.empty or ours(p).startswith("*") for p in found[len(wanted) :])  # numpy's own
    for parameter, (_, default) in zip(found, wanted, strict=False):
        if default is not None:
            assert parameter.default is not parameter.empty
            assert _same_default(str(parameter.default), default), (parameter.name, parameter.default, default)


def _same_default(here: str, there: str) -> bool:
    strip = str.maketrans("()[]'", "     ")
    flags = {"None": "False"}  # keepdims=None
    a, b = (s.translate(strip).replace(" ", "").rstrip(",") for s in (here, there))
    return a == b or flags.get(b) == a


@pytest.mark.parametrize(("path", "member", "kind"), MEMBERS, ids=[f"{p}.{m}" for p, m, _ in MEMBERS])
def test_kinds_of_members(path: str, member: str, kind: str) -> None:
    module, _, name = path.rpartition(".")
    found: Any = inspect.getattr_static(find(module, name), member)
    kinds = {staticmethod: "static", classmethod: "class", property: "property"}
    assert kinds.get(type(found), "method") == kind


def test_there_is_something_to_compare() -> None:
    assert len(FUNCTIONS) > 200
    assert len(MEMBERS) > 80
    assert ("MNN.Interpreter", "createRuntime", "static") in MEMBERS


def test_nothing_is_missing() -> None:
    found = list(missing())
    assert [(path, absent) for path, absent, _ in found if absent] == []
    assert sum(count for _, _, count in found) > 1000


MODULES = ("MNN", "MNN.cv", "MNN.expr", "MNN.llm", "MNN.nn", "MNN.numpy")


@pytest.mark.parametrize("module", MODULES)
def test_names_that_nobody_has_are_no_promise(module: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'no_such_name'$"):
        find(module, "no_such_name")


PARTS = [m for m in API["names"] if m.count(".") == 1]


def test_what_is_not_for_programs_says_so() -> None:
    with pytest.raises(AttributeError, match=r"^MNN\.tools is part of PyMNN but not of this version yet$"):
        find("MNN", "tools")


def test_folders_are_packages() -> None:
    """A folder without ``__init__`` could be imported as an empty module."""
    assert all(spec.origin for m in PARTS if (spec := importlib.util.find_spec(m)) is not None)
