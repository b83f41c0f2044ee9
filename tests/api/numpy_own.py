"""numpy's own tests, from its wheel, with its functions replaced by those of ``MNN.numpy``.

``python -m tests.api.numpy_own`` runs them and writes into docs/coming-from-pymnn.md how many pass, by module: those
that call one of our functions. Tests are adapted where they are loaded, and nothing of them is copied: results are
arrays again (in the array that is given as ``out`` too), a refusal counts as numpy's whatever its class, and floats
have to be right to six digits, as a Var has
no doubles but where it is asked for them. ``--tell`` prints what fails, with its reason.
"""

from __future__ import annotations

import functools
import re
import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN.numpy
from MNN.errors import MNNError
from MNN.expr import Var

MODULES = (
    *(f"numpy.lib.tests.test_{name}" for name in (
        "arraypad", "arraysetops", "function_base", "histograms", "index_tricks", "nanfunctions", "packbits",
        "shape_base", "stride_tricks", "twodim_base", "type_check", "ufunclike",
    )),
    *(f"numpy._core.tests.test_{name}" for name in ("function_base", "numeric", "shape_base")),
    "numpy.linalg.tests.test_linalg",
)  # fmt: skip
MEMORY = 8 << 30
"""Bytes that the tests may take."""
PAGE = Path(__file__).parents[2] / "docs" / "coming-from-pymnn.md"
BEGIN, END = "<!-- numpy's tests: written by python -m tests.api.numpy_own -->", "<!-- end of numpy's tests -->"
_KEPT = {"array", "asarray", "copy", "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full",
         "full_like", "arange"}  # fmt: skip
"""Functions with which numpy's tests make their arguments; those stay numpy's."""


class Refused(np.exceptions.AxisError, TypeError):  # noqa: N818 - it stands for errors of any kind
    """What is raised for our refusals: an error of any of the kinds that numpy's tests expect."""

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class Calls:
    """How often functions of ours were called, by the tests that ran since it was last set to 0."""

    made = 0


def _plain(value: Any) -> Any:
    """Vars as arrays, as deep as they lie."""
    if isinstance(value, Var):
        return np.array(value)
    if type(value) in (list, tuple):
        return type(value)(_plain(v) for v in value)
    if type(value) in (bool, int, float):  # what functions over all axes give
        return np.asarray(value)[()]
    return value


REASONS = ("types that a Var lacks", "subclasses, objects", "parameters", "element types", "other numbers")
"""Why tests fail, as far as their last line tells."""


def reason(error: BaseException) -> int:
    """Which of the :data:`REASONS` it is."""
    text = f"{type(error).__name__}: {error}"
    if "unexpected keyword" in text or "positional argument" in text:
        return 2
    if re.search(r"complex|not numbers|timedelta|datetime|longdouble|float128|\bdate\b", text):
        return 0
    if re.search(
        r"object|isinstance|has no attribute| is array|writes into a Var|__array|shares_memory| is not ", text
    ):
        return 1
    return 3 if "dtype" in text or "DType" in text else 4


def _ours(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        Calls.made += 1
        out = named.get("out")
        if isinstance(out, np.ndarray):  # which a Var stands for, whose numbers are put there
            named["out"] = MNN.numpy.array(out)
        try:
            found = _plain(function(*args, **named))
            if isinstance(out, np.ndarray):
                np.copyto(out, np.array(named["out"]), casting="unsafe")
                return out
            return found
        except MNNError as error:
            raise Refused(str(error)) from error

    return call


FUNCTIONS = {
    name: _ours(found)
    for name in MNN.numpy.__all__
    if callable(found := getattr(MNN.numpy, name)) and not isinstance(found, type) and name not in _KEPT
    and hasattr(np, name)
}  # fmt: skip


class Numpy(types.ModuleType):
    """numpy with our functions in the place of its own."""

    def __getattr__(self, name: str) -> Any:
        return FUNCTIONS.get(name) or getattr(np, name)


def _near(check: Callable[..., Any]) -> Callable[..., Any]:
    """A check of equality that lets floats differ in the seventh digit."""

    def call(actual: Any, desired: Any, *rest: Any, **named: Any) -> Any:
        a, b = np.asarray(actual), np.asarray(desired)
        if "f" in a.dtype.kind + b.dtype.kind and a.dtype.kind in "biuf" and b.dtype.kind in "biuf":
            assert a.shape == b.shape or not a.ndim or not b.ndim
            return np.testing.assert_allclose(a, b, 2e-6, 1e-6)
        return check(actual, desired, *rest, **named)

    return call


CHECKS = ("assert_equal", "assert_array_equal", "assert_almost_equal", "assert_array_almost_equal", "assert_allclose")


def adapt(module: types.ModuleType) -> None:
    """Has a module of numpy's tests call our functions."""
    for name, value in list(vars(module).items()):
        if value is np:
            setattr(module, name, Numpy("numpy"))
        elif name in FUNCTIONS and value is getattr(np, name):
            setattr(module, name, FUNCTIONS[name])
        elif name in CHECKS:
            setattr(module, name, _near(value))


class Counting:
    """A plugin of pytest that adapts modules and counts their tests by module, and those that fail by reason."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()
        self.failed: Counter[tuple[str, int]] = Counter()
        self.told: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for module in {item.module for item in items if isinstance(item, pytest.Function)}:
            adapt(module)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        Calls.made = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong: BaseException | None = None
            try:
                return (yield)
            except (Exception, pytest.fail.Exception) as error:
                wrong = error
                raise
            finally:
                if Calls.made and isinstance(item, pytest.Function) and not isinstance(wrong, pytest.skip.Exception):
                    room, _, file = item.path.with_suffix("").parts[-3:]
                    group = f"{room.removeprefix('_')} {file.removeprefix('test_')}"
                    self.all[group] += 1
                    if wrong is not None:
                        self.failed[group, reason(wrong)] += 1
                        text = f"{type(wrong).__name__}: {wrong}".replace("\n", " ")[:200]
                        self.told.append(f"{item.nodeid.rpartition('/')[2]} ({REASONS[reason(wrong)]}) {text}")


def count(modules: Sequence[str] = MODULES) -> Counting:
    """Runs the tests of some modules."""
    found = Counting()
    with tempfile.TemporaryDirectory() as folder:
        ini = Path(folder) / "pytest.ini"
        ini.write_text("[pytest]\nmarkers =\n    slow\n    thread_unsafe\n    parallel_threads\n")
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--tb=no",
            "-c",
            str(ini),
            "--no-header",
            "-r",
            "N",
        ]
        pytest.main([*options, "--noconftest", "--pyargs", *modules], plugins=[found])
    return found


def table(found: Counting) -> str:
    """A row for each module."""
    rows = [f"| numpy's tests | call ours | pass | {' | '.join(REASONS)} |", f"| --- |{' ---: |' * (2 + len(REASONS))}"]
    totals: Counter[int] = Counter()
    for group in sorted(found.all):
        missed = [found.failed[group, i] for i in range(len(REASONS))]
        totals.update(dict(enumerate(missed)))
        numbers = " | ".join(map(str, (found.all[group], found.all[group] - sum(missed), *missed)))
        rows.append(f"| `{group}` | {numbers} |")
    every, missed = found.all.total(), totals.total()
    rest = " | ".join(str(totals[i]) for i in range(len(REASONS)))
    return "\n".join([*rows, f"| all | {every} | {every - missed} ({1 - missed / every:.0%}) | {rest} |"])


def main() -> None:
    if sys.platform == "linux":  # some tests ask for arrays beyond any memory
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    given = [a for a in sys.argv[1:] if a != "--tell"]
    found = count(given or MODULES)
    written = table(found)
    print("\n".join([*(found.told if "--tell" in sys.argv else []), written]), file=sys.stderr)
    if not given:
        text = PAGE.read_text(encoding="utf-8")
        start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        PAGE.write_text(f"{text[:start]}\n\n{written}\n\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
