"""What a case must give: ONNX Runtime's word, and numpy's where there is an oracle. They must agree.

Where ONNX Runtime refuses an operator's form, or is wrong by ONNX's specification, the case says so in ``excuse`` and
only the oracle judges; a refusal without an excuse is a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnxruntime

from tests.random.case import Arrays, Case

#: How far ONNX Runtime's fp32 may lie from an oracle's float64, relative to the scale.
AGREE = 1e-5


@dataclass
class Verdict:
    """Outputs, what errors are relative to, the outputs' types, who was asked, and where they disagree."""

    outputs: list[np.ndarray]
    scales: list[np.ndarray]
    dtypes: list[np.dtype[np.generic]]
    judges: tuple[str, ...]
    dispute: str = ""


def expected(made: Case) -> Verdict:
    """Asks all judges. Raises what a judge raises."""
    answers: dict[str, Arrays] = {}
    if made.oracle is not None:
        answers["oracle"] = made.oracle(made.arrays)
    if not made.excuse:
        answers["onnxruntime"] = peer(made)
    if not answers:
        raise AssertionError(f"nobody judges {made}")
    outputs = [np.asarray(a) for a in next(iter(answers.values()))]
    dtypes = [np.asarray(a).dtype for a in answers.get("onnxruntime", outputs)]
    if "onnxruntime" not in answers:  # an oracle's float64 stands for the operand's own type
        first = next(a.dtype for a in made.arrays if a is not None)
        floats = first.kind == "f" or first == ml_dtypes.bfloat16
        dtypes = [first if d == np.float64 and floats else d for d in dtypes]
    scales = _scales(made, outputs, "oracle" in answers)
    return Verdict(outputs, scales, dtypes, tuple(answers), _dispute(made, answers, outputs, scales))


def peer(made: Case, arrays: Arrays | None = None) -> Arrays:
    """ONNX Runtime's outputs, its graph not optimised."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.model(arrays), options, providers=["CPUExecutionProvider"])
    return list(session.run(made.output_names, made.feeds(arrays)))


def _scales(made: Case, outputs: list[np.ndarray], oracle: bool) -> list[np.ndarray]:
    if made.sums is not None:
        return [np.abs(np.asarray(s, np.float64)) for s in made.sums(made.arrays)]
    if made.scale == "products":
        absolute: Arrays = [
            np.abs(a) if a is not None and a.dtype.kind == "f" and k not in made.keep else a
            for k, a in enumerate(made.arrays)
        ]
        assert made.oracle is not None or not oracle
        sums = made.oracle(absolute) if made.oracle is not None else peer(made, absolute)
        # fast products round sums of several neighbours: a share of the largest sum counts everywhere
        return [np.abs(np.asarray(s, np.float64)) + 0.25 * _largest(np.asarray(s)) for s in sums]
    return [np.full(a.shape, _largest(a)) if a.dtype.kind == "f" else np.ones(a.shape) for a in outputs]


def _largest(a: np.ndarray) -> float:
    wide = np.abs(a.astype(np.float64)) if a.dtype.kind in "fiu" else np.zeros(1)
    return float(wide[np.isfinite(wide)].max(initial=0))


def _dispute(made: Case, answers: dict[str, Arrays], outputs: list[np.ndarray], scales: list[np.ndarray]) -> str:
    from tests.random.runner import difference

    for name, found in answers.items():
        if len(found) != len(outputs):
            return f"{name} gives {len(found)} outputs, not {len(outputs)}"
        for k, (a, want, scale) in enumerate(zip(found, outputs, scales, strict=True)):
            got = np.asarray(a)
            if got.shape != want.shape:
                return f"output {k}: {name} gives {list(got.shape)}, not {list(want.shape)}"
            problem = difference(made.settled(k, got, want), want, scale, AGREE * made.slack, made.scale)
            if problem:
                return f"output {k}: {name} {problem}"
    return ""
