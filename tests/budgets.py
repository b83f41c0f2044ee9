"""How many seconds the tests of a folder may take, added up over its tests and over all workers.

Not a measurement: a budget is about four times what a machine of two cores needs, so that it is exceeded by a folder
whose tests have doubled twice, and not by a machine that does other things too. A folder that has earned more time gets
it here, in the change that needs it. A slow machine multiplies all of them: ``MNN_TEST_BUDGET=3 python -m pytest``; 0
means no budgets.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

VARIABLE = "MNN_TEST_BUDGET"
OTHER = 300
"""For folders that the table does not name, and for files beside the folders."""
SECONDS = {
    "api": 400,
    "autodiff": 300,
    "backends": 2400,
    "cli": 600,
    "compiler": 300,
    "converter": 800,
    "cv": 600,
    "docs": 600,
    "examples": 400,
    "frontends": 1200,
    "hostile": 1500,
    "llm": 1200,
    "models": 4000,
    "onnx": 1200,
    "passes": 1500,
    "processors": 800,
    "random": 600,
    "runtime": 530,
    "tensorflow": 600,
    "train": 400,
}
SLOWEST = 5
"""How many tests of a folder are named."""


def folder_of(test: str) -> str:
    """``tests/api/test_var.py::test_len`` belongs to ``api``; files that lie in no folder belong to ``.``."""
    parts = test.split("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "."


class Budgets:
    """A plugin that adds up what tests take, setup and teardown included, and fails a run with a folder over budget.

    Runs of several workers add up at the process that collects their reports."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.spent[folder_of(report.nodeid)][report.nodeid] += report.duration

    def exceeded(self) -> list[str]:
        """A sentence for each folder over its budget, with its slowest tests."""
        found = []
        for folder, tests in sorted(self.spent.items()):
            total, allowed = sum(tests.values()), SECONDS.get(folder, OTHER) * self.factor
            if total > allowed:
                slowest = sorted(tests, key=lambda test: -tests[test])[:SLOWEST]
                lines = "".join(f"\n  {tests[test]:8.1f} s  {test}" for test in slowest)
                found.append(
                    f"tests/{folder} took {total:.0f} s, its budget is {allowed:.0f} s (tests/budgets.py says how to "
                    f"raise it). Its slowest tests:{lines}"
                )
        return found

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.exceeded() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for text in self.exceeded():
            terminalreporter.section("over the time budget", red=True)
            terminalreporter.line(text)


def factor() -> float:
    """What all budgets are multiplied by. Raises :class:`pytest.UsageError` for what is no number."""
    text = os.environ.get(VARIABLE, "1")
    try:
        return float(text)
    except ValueError as error:
        raise pytest.UsageError(f"{VARIABLE} is {text!r}; set it to a number, such as 2.5, or to 0") from error


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin, once a run: workers report to the process that started them."""
    if not hasattr(config, "workerinput") and (found := factor()) > 0:
        config.pluginmanager.register(Budgets(found), "budgets")
