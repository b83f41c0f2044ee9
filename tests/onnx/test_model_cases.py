"""onnx's model cases on disk: converted to a .mnn file in memory, read again, compiled, compared."""

from __future__ import annotations

import pytest

from MNN.errors import MNNError
from tests.harness import RUNNERS, default_runner
from tests.onnx.coverage import expected, reason_of
from tests.onnx.model_cases import model_cases

EXPECTED = expected()


@pytest.mark.parametrize("name", sorted(model_cases()))
def test_case(name):
    runner = RUNNERS[default_runner()]
    if name not in EXPECTED:
        model_cases()[name].run(runner)
        return
    with pytest.raises(MNNError) as caught:
        model_cases()[name].run(runner)
    assert reason_of(caught.value) == EXPECTED[name]


def test_all_cases_are_there():
    assert len(model_cases()) >= 149
