"""Models of every front end as ONNX: read, optimised, written, checked, and run by ONNX Runtime.

    python -m tests.onnx.way_back [--seeds N] [--only PART OF A NAME]

judges all of them; the tests judge a share. Answers are those of the model's own framework where these are recorded,
else this engine's, which other tests hold to the framework's.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from MNN.errors import MNNError, UnsupportedError
from MNN.frontends import load_graph
from MNN.frontends.onnx_export import onnx_model
from MNN.frontends.tensorflow import load as load_tensorflow
from MNN.ir.graph import Graph, Value
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.caffe import trial as caffe_trial
from tests.frontends.caffe.compare import graph_of
from tests.frontends.ncnn import trial as ncnn_trial
from tests.frontends.tflite import trial as tflite_trial
from tests.frontends.torch import test_programs
from tests.keras import recorded as keras
from tests.tensorflow import recorded as tensorflow

TESTS = Path(__file__).parents[1]
TOLERANCE = 1e-3
"""Of the largest number: ONNX Runtime sums in other orders, and some operators are written as several."""


@dataclass(frozen=True)
class Case:
    """``graph`` reads the model; ``given`` are inputs by name, or in order; ``wanted`` outputs likewise."""

    name: str
    graph: Callable[[], Graph]
    given: Mapping[str, np.ndarray] | list[np.ndarray]
    wanted: Mapping[str, np.ndarray] | list[np.ndarray] | None


def judge(case: Case) -> str:
    """``right``, ``refused: ...``, ``not read``, or what is wrong."""
    try:
        graph = case.graph()
        optimize(graph)
    except MNNError:
        return "not read"
    states = graph.meta.get("states", {})
    assert isinstance(states, dict)
    inputs = [v.name for v in graph.inputs if not v.is_const and v.name not in states]
    given = case.given
    feeds = {n: given[n] for n in inputs} if isinstance(given, Mapping) else dict(zip(inputs, given, strict=True))
    feeds |= {v.name: _zeros(v) for v in graph.inputs if v.name in states}
    wanted = case.wanted
    if wanted is None:
        wanted = {k: np.asarray(v) for k, v in Session(graph, Config(precision="high")).run(feeds).items()}
    try:
        made = onnx_model(graph)
    except UnsupportedError as error:
        return f"refused: {error}"
    if all(v.type.HasField("sequence_type") or v.type.tensor_type.HasField("shape") for v in made.graph.output):
        onnx.checker.check_model(made, full_check=True)  # it takes no outputs of unknown rank
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, {i.name: np.asarray(feeds[i.name]) for i in session.get_inputs()})
    except Exception as error:  # noqa: BLE001 - of whatever kind, from native code
        return f"not run: {str(error)[:300]}"
    named = dict(zip((o.name for o in session.get_outputs()), results, strict=True))
    found = {n: a for n, a in named.items() if n not in states.values()}
    by_name = wanted if isinstance(wanted, Mapping) else dict(zip(found, wanted, strict=True))
    pairs = [(k, found[k], v) for k, v in by_name.items() if k not in states.values()]
    return next((f"{k}: {said}" for k, a, b in pairs if (said := _difference(np.asarray(a), np.asarray(b)))), "right")


def _zeros(value: Value) -> np.ndarray:
    """What a state is before the first run."""
    assert value.dtype is not None
    return np.zeros([int(d) for d in value.shape or ()], value.dtype.numpy)


def _difference(found: np.ndarray, wanted: np.ndarray) -> str:
    if found.shape != wanted.shape or found.dtype.kind != wanted.dtype.kind:
        return f"{found.dtype}{list(found.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind not in "fc":
        if wanted.dtype.kind in "iu" and wanted.size:  # quantised numbers may be a step apart
            away = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
            return "" if away <= (1 if wanted.dtype.itemsize == 1 else 0) else f"off by {away:g}"
        return "" if np.array_equal(found, wanted) else "different"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if not (np.isfinite(a) == finite).all():
        return "other numbers are finite"
    away = np.abs(np.where(finite, a - b, 0)).max(initial=0)
    scale = max(np.abs(b[finite]).max(initial=0), 1e-3)
    return "" if away <= TOLERANCE * scale else f"off by {away / scale:.1e}"


def _tensorflow() -> Iterator[Case]:
    for archive in ("operators", "patterns"):
        for case in tensorflow.cases(TESTS / "tensorflow" / f"{archive}.zip"):
            yield Case(
                f"tensorflow/{archive}/{case.name}", lambda c=case: load_tensorflow(c.graph), case.given, case.wanted
            )


def _unpacked(archive: Path) -> Iterator[tuple[str, Path, dict[str, np.ndarray]]]:
    """Folders of an archive with their answers; they lie there until the next is asked for."""
    with zipfile.ZipFile(archive) as opened:
        for folder in sorted({n.split("/")[0] for n in opened.namelist()}):
            with tempfile.TemporaryDirectory() as target:
                opened.extractall(target, [n for n in opened.namelist() if n.startswith(f"{folder}/")])
                arrays = np.load(io.BytesIO(opened.read(f"{folder}/answers.npz")))
                yield folder, Path(target) / folder, {k: arrays[k] for k in arrays.files}


def _loops() -> Iterator[Case]:
    for name, folder, answers in _unpacked(TESTS / "tensorflow" / "loops.zip"):
        given = [answers[k] for k in sorted(answers) if k.startswith("in")]
        wanted = {k: v for k, v in answers.items() if k.startswith("out")}
        yield Case(f"loops/{name}/saved model", lambda f=folder: load_graph(f), given, wanted)
        if (folder / "model.tflite").exists():
            yield Case(
                f"loops/{name}/tflite", lambda f=folder: load_graph(f / "model.tflite"), given, list(wanted.values())
            )


def _keras() -> Iterator[Case]:
    for case in keras.cases(TESTS / "keras" / "layers.zip"):
        yield Case(
            f"keras/{case.name}/{case.file}",
            lambda c=case: load_graph(c.data, "keras"),
            list(case.given.values()),
            case.wanted,
        )


def _tflite(seeds: range) -> Iterator[Case]:
    for family in (f for f in tflite_trial.FAMILIES if not f.startswith(("RANDOM", "MULTINOMIAL"))):
        for seed in seeds:
            case = tflite_trial.made(family, seed)
            yield Case(f"tflite/{family}/{seed}", lambda c=case: load_graph(c.model.finish()), list(case.runs[0]), None)


def _caffe(seeds: range) -> Iterator[Case]:
    for family in caffe_trial.FAMILIES:
        for seed in seeds:
            case = caffe_trial.made(family, seed)
            yield Case(f"caffe/{family}/{seed}", lambda c=case: graph_of(c), case.feeds, None)


def _ncnn(seeds: range) -> Iterator[Case]:

    for family in ncnn_trial.FAMILIES:
        for seed in seeds:
            case = ncnn_trial.made(family, seed)
            yield Case(f"ncnn/{family}/{seed}", lambda c=case: _ncnn_graph(c.model), dict(case.model.feeds), None)


def _ncnn_graph(model: Any) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.param"
        path.write_bytes(model.text())
        path.with_suffix(".bin").write_bytes(model.weights())
        return load_graph(path)


def _torch() -> Iterator[Case]:
    for forms, names in ((".pt2", test_programs.EXPORTED), ("-traced.pt", test_programs.TRACED)):
        for name in names:
            inputs, wanted = test_programs.runs(name)[0]
            path = Path(f"{test_programs.file(name)}{forms}")
            yield Case(f"torch/{name}{forms}", lambda p=path: load_graph(p), inputs, wanted)


FRONT_ENDS: dict[str, Callable[[range], Iterator[Case]]] = {
    "torch": lambda seeds: _torch(),
    "loops": lambda seeds: _loops(),
    "keras": lambda seeds: _keras(),
    "tensorflow": lambda seeds: _tensorflow(),
    "tflite": _tflite,
    "caffe": _caffe,
    "ncnn": _ncnn,
}
"""Their models; random ones are of the seeds given. The loops are of TensorFlow and TensorFlow Lite."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for case in (case for cases in FRONT_ENDS.values() for case in cases(range(options.seeds))):
        if options.only not in case.name:
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                said = judge(case)
        except Exception as error:  # noqa: BLE001 - a fault is what is looked for
            said = f"{type(error).__name__}: {error}"
        first = said.split(":")[0]
        kind = first if first in ("right", "refused", "not read", "not run") else "wrong"
        counts[case.name.split("/")[0], kind] += 1
        if kind not in ("right", "not read"):
            print(case.name, said.replace("\n", " ")[:260], flush=True)
    for key, count in sorted(counts.items()):
        print(*key, count)


if __name__ == "__main__":
    main()
