"""Every operator case that onnx generates, through load and the runner (``MNN_TEST_RUNNER`` names it)."""

from __future__ import annotations

import pytest

from MNN.errors import MNNError
from tests.harness import RUNNERS, default_runner
from tests.onnx.cases import node_cases, run_case
from tests.onnx.coverage import PAGE, expected, page, reason_of
from tests.onnx.model_cases import model_cases

EXPECTED = expected()


@pytest.mark.parametrize("name", sorted(node_cases()))
def test_case(name):
    runner = RUNNERS[default_runner()]
    if name not in EXPECTED:
        run_case(node_cases()[name], runner)
        return
    try:
        run_case(node_cases()[name], runner)
    except (MNNError, AssertionError) as error:
        found = reason_of(error)
    else:
        pytest.fail(f"{name} passes now: run python -m tests.onnx.coverage, which takes it off the list")
    assert EXPECTED[name].startswith("note: ") or found == EXPECTED[name]


def test_the_list_names_cases_only():
    assert set(EXPECTED) <= {*node_cases(), *model_cases()}
    assert len(node_cases()) - len(EXPECTED) >= 1844


def test_the_page_is_current():
    assert PAGE.read_text() == page(EXPECTED), "run python -m tests.onnx.coverage"
