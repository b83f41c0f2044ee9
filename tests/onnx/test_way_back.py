"""Models of every front end as ONNX, run by ONNX Runtime (see ``way_back.py``)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.onnx.way_back import FRONT_ENDS, Case, judge

SHARE = int(os.environ.get("MNN_EXPORT_SHARE", "8"))
"""Every so many-th model is judged; 1 judges all."""
SEEDS = range(1)
_MATRICES = (
    "Cholesky", "LogMatrixDeterminant", "MatrixInverse", "MatrixSolve", "MatrixSolveLs", "MatrixTriangularSolve", "Qr",
    "SelfAdjointEigV2", "Svd", "TridiagonalSolve",
)  # fmt: skip
LACKING = (
    "ncnn/Pooling3D/",
    "keras/MixedBfloat16/",
    *(f"tensorflow/operators/{name}/" for name in _MATRICES),
)
"""ONNX Runtime takes no padding as wide as the window, and multiplies no matrices of bfloat16. ONNX has no operator for
what LAPACK does with matrices."""
FOUND = (
    "SPLIT_V",
    "TRANSPOSE_CONV",
    "SCATTER_ND",
    "UNIQUE",
    "SHAPE",
    "FULLY_CONNECTED",
    "CONV_2D quantised",
    "RESIZE_BILINEAR quantised",
    "Pooling",
    "IRFFT",
    "SpaceToBatchND",
    "BatchToSpaceND",
)
"""Families that were wrong once are judged whole."""
LEAST = {"torch": 1.0, "loops": 1.0, "keras": 1.0, "tensorflow": 0.95, "tflite": 0.85, "caffe": 0.8, "ncnn": 0.95}
"""The share of models that ONNX has a form for."""


def chosen(front_end: str) -> Iterator[Case]:
    for i, case in enumerate(FRONT_ENDS[front_end](SEEDS)):
        if i % SHARE == 0 or case.name.split("/")[1] in FOUND:
            yield case


@pytest.mark.parametrize("front_end", LEAST)
def test_models_are_written_and_answer_the_same(front_end: str) -> None:
    found = {case.name: judge(case) for case in chosen(front_end)}
    wrong = {n: said for n, said in found.items() if said.split(":")[0] not in ("right", "refused", "not read")}
    assert not {n: said for n, said in wrong.items() if not n.startswith(LACKING)}
    kinds = Counter(said.split(":")[0] for n, said in found.items() if not n.startswith(LACKING))
    assert kinds["right"] >= LEAST[front_end] * (kinds.total() - kinds["not read"]), kinds
