"""onnx's operator cases there and back: read, optimised, written as ONNX again, run by ONNX Runtime.

    python -m tests.onnx.export_cases [PART OF A NAME]

judges all of them; the tests judge a share.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnx
import onnxruntime

from MNN.errors import MNNError, UnsupportedError
from MNN.frontends.onnx import load
from MNN.frontends.onnx_export import onnx_model
from MNN.passes.manager import optimize
from tests.onnx.cases import _is_random, _plain, node_cases, same

LOOSE = 1e-3
"""ONNX Runtime rounds otherwise than onnx's reference in operators that are written as several here."""
LACKING = {
    "test_bitshift_right_int16": "ONNX Runtime has no Where of 16-bit integers",
    "test_onehot_without_axis": "ONNX Runtime has no OneHot of these types",
    "test_range_float16_type_positive_delta": "ONNX Runtime has no Range of half precision",
    "test_if_seq": "a list as the result of a branch",
}


def judge(name: str) -> str:
    """``right``, ``refused``, ``not run by ONNX Runtime`` (neither is the original), or what is wrong."""
    case = node_cases()[name]
    given = {t.name for t in case.model.graph.initializer}
    names = [v.name for v in case.model.graph.input if v.name not in given]
    inputs, outputs = case.data_sets[0]
    try:
        graph = load(case.model)
        optimize(graph)
        made = onnx_model(graph)
    except UnsupportedError:
        return "refused"
    except MNNError:
        return "not read"
    feeds = {n: _plain(v) for n, v in zip(names, inputs, strict=True)}
    try:
        onnx.checker.check_model(made)
        found = _run(made, feeds)
    except Exception as error:  # noqa: BLE001 - of whatever kind, from native code
        try:
            _run(case.model, feeds)
        except Exception:  # noqa: BLE001
            return "not run by ONNX Runtime"
        return str(error)
    kinds = [v.type for v in case.model.graph.output]
    wanted = [_plain(v) for v in outputs]
    problem = _difference(found, wanted, kinds, case)
    if problem:  # ONNX Runtime may have another opinion of the original too
        try:
            return "right" if not _difference(found, _run(case.model, feeds), kinds, case) else problem
        except Exception:  # noqa: BLE001
            return problem
    return "right"


def _run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()}))


def _difference(found: list[Any], wanted: list[Any], kinds: list[Any], case: Any) -> str:
    random = _is_random(case.model) or "dropout" in case.name
    try:
        for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
            same(a, b, max(case.rtol, LOOSE), max(case.atol, 1e-5), f"output {k}", random, kinds[k])
    except (AssertionError, ValueError) as error:
        return str(error)[:300] or "different"
    return ""


def main() -> None:
    counts: Counter[str] = Counter()
    for name in sorted(node_cases()):
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        found = judge(name)
        known = found in ("right", "refused", "not read", "not run by ONNX Runtime")
        counts[found if known else "wrong"] += 1
        if not known:
            print(name, found.replace("\n", " ")[:200])
    print(dict(counts))


if __name__ == "__main__":
    main()
