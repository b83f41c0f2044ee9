"""MNN.cv against results that OpenCV gave (opencv.npz, written by opencv_cases.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import MNN.cv
from MNN.cv.kernels.run import Settings
from tests.cv.case import Case
from tests.cv.opencv_cases import FILE, cases

_CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with np.load(FILE) as file:
        return dict(file)


def test_every_case_has_a_result(expected: dict[str, Any]) -> None:
    assert set(expected) - {"version"} == set(_CASES)


@pytest.mark.parametrize("by", ["numpy", "kernels"])
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_same_as_opencv(case: Case, by: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "least", 0 if by == "kernels" else 1 << 62)
    result, wanted = np.asarray(case.ours(MNN.cv)), expected[case.name]
    if result.ndim == wanted.ndim + 1 and result.shape[-1] == 1:  # pictures keep their channel axis here
        wanted = wanted[..., None]
    assert result.shape == wanted.shape
    if wanted.dtype != np.float64:
        assert result.dtype == wanted.dtype
    difference = np.abs(result.astype(np.float64) - wanted.astype(np.float64))
    assert (difference > case.most).mean() <= case.few, difference.max()


@pytest.mark.parametrize(("points", "column", "rows"), [
    ([[10, 29], [-3, 15], [0, 27]], 0, range(15, 28)),
    ([[38, 8], [38, 19], [15, 25], [20, 5], [32, 15]], 32, range(8, 21)),
])  # fmt: skip
def test_an_edge_of_which_the_picture_has_one_row(points: list[list[int]], column: int, rows: range) -> None:
    """It is upright in all of its rows, as both OpenCV 4.11 and 5 fill it, whose pixels these are."""
    image = np.zeros((31, 33), np.uint8)
    MNN.cv.fillPoly(image, [np.array(points, np.int32)], 255)
    found = np.flatnonzero(image[:, column])
    assert found.tolist() == list(rows)
