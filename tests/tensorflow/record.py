"""Records what TensorFlow answers to seeded random uses of its operators.

    python -m tests.tensorflow.record tests/tensorflow/operators.zip [--cases 1] [--seed 0] [--only OP ...]

Runs where tensorflow is (an environment of its own: ``pip install tensorflow-cpu==2.21.0``), with the repository as
the working directory. Each case is three files in the archive: the graph, what goes in and what comes out.
"""

from __future__ import annotations

import argparse
import io
import os
import zipfile
from typing import Any, Literal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

import tests.tensorflow.array_families
import tests.tensorflow.image_families
import tests.tensorflow.list_patterns
import tests.tensorflow.open_patterns  # noqa: F401 - enters its programs
from tests.tensorflow import function_families, matrix_families, signal_families
from tests.tensorflow.families import FAMILIES, Case
from tests.tensorflow.patterns import PATTERNS

SIZED = matrix_families.SIZED | signal_families.SIZED | function_families.SIZED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="these alone; programs are put into the archive beside what is there")
    parser.add_argument("--patterns", action="store_true", help="the programs of patterns.py instead")
    chosen = parser.parse_args()
    mode: Literal["a", "w"] = "a" if chosen.patterns and chosen.only else "w"
    with zipfile.ZipFile(chosen.out, mode, zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in (chosen.only or PATTERNS) if chosen.patterns else ():
            write_pattern(archive, name, PATTERNS[name])
        for op in () if chosen.patterns else sorted(chosen.only or FAMILIES):
            for k in range(chosen.cases):
                rng = np.random.default_rng([chosen.seed, k, *op.encode()])
                case = FAMILIES[op](rng)
                try:
                    graph, given, wanted = answer(case, open_sizes=(k + len(op)) % 3 == 2 and op not in SIZED)
                except (ValueError, tf.errors.InvalidArgumentError):  # some operators want to know their sizes
                    graph, given, wanted = answer(case, open_sizes=False)
                _write(archive, f"{op}/{k}.pb", graph)
                _write(archive, f"{op}/{k}.npz", _packed({**given, **wanted}))


def write_pattern(archive: zipfile.ZipFile, name: str, case: Case) -> None:
    """A program with sizes and without, where it can be made so; one that can be made neither way is a mistake."""
    refused = []
    for open_sizes in (False, True):
        try:
            graph, given, wanted = answer(case, open_sizes)
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            refused.append(error)
            continue
        _write(archive, f"{name}/{int(open_sizes)}.pb", graph)
        _write(archive, f"{name}/{int(open_sizes)}.npz", _packed({**given, **wanted}))
    if len(refused) > 1:
        raise ValueError(f"the program {name} tests nothing: {refused[0]}")


def answer(case: Case, open_sizes: bool) -> tuple[bytes, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A frozen graph, and arrays by the names of its inputs and outputs."""
    function, arrays = case
    if getattr(function, "graph_of_1", False):
        return _answer_of_1(function, arrays)
    specs = [
        tf.TensorSpec([None] * a.ndim if open_sizes else a.shape, a.dtype, name=f"in{i}") for i, a in enumerate(arrays)
    ]
    concrete = tf.function(lambda *v: _named(function(*v))).get_concrete_function(*specs)
    proto = concrete.graph.as_graph_def()
    found = concrete(*(tf.constant(a) for a in arrays))
    outs = [t.op.name for t in concrete.outputs]
    names = [t.op.name for t in concrete.inputs][: len(arrays)]
    return (
        proto.SerializeToString(deterministic=True),
        {f"in:{n}": a for n, a in zip(names, arrays, strict=True)},
        {f"out:{n}": np.asarray(v) for n, v in zip(outs, found, strict=True)},
    )


def _named(found: Any) -> list[Any]:
    return [
        tf.identity(v, name=f"result{i}")
        for i, v in enumerate(found if isinstance(found, list) else tf.nest.flatten(found))
    ]


def _answer_of_1(function: Any, arrays: list[np.ndarray]) -> tuple[bytes, dict[str, np.ndarray], dict[str, np.ndarray]]:
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            given = [tf.compat.v1.placeholder(a.dtype, a.shape, name=f"in{i}") for i, a in enumerate(arrays)]
            outs = _named(function(*given))
            with tf.compat.v1.Session(graph=graph) as session:
                found = session.run(outs, dict(zip(given, arrays, strict=True)))
    finally:
        tf.compat.v1.enable_control_flow_v2()
    return (
        graph.as_graph_def().SerializeToString(deterministic=True),
        {f"in:{t.op.name}": a for t, a in zip(given, arrays, strict=True)},
        {f"out:{t.op.name}": np.asarray(v) for t, v in zip(outs, found, strict=True)},
    )


def _packed(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


if __name__ == "__main__":
    main()
