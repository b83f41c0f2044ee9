"""Runs models with LiteRT, in an environment of its own: ``python litert_worker.py FOLDER``.

For each ``NAME.tflite`` with inputs ``NAME.npz`` (arrays called ``run.position``) the outputs are written to
``NAME.out.npz``; what LiteRT refuses, to ``NAME.error``. Imports nothing of this repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def run(path: Path) -> None:
    feeds = np.load(path.with_suffix(".npz"), allow_pickle=True)
    plain = (path.with_suffix(".reference")).exists()
    kind = OpResolverType.BUILTIN_REF if plain else OpResolverType.AUTO
    model = Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kind)
    steps: dict[int, dict[int, np.ndarray]] = {}
    for key in feeds.files:
        step, _, place = key.rpartition(".")
        steps.setdefault(int(step or 0), {})[int(place)] = feeds[key]
    details = model.get_input_details()
    for place, array in steps.get(0, {}).items():
        if list(details[place]["shape"]) != list(array.shape):
            model.resize_tensor_input(details[place]["index"], array.shape)
    model.allocate_tensors()
    found = {}
    for step in range(max(steps, default=0) + 1):
        for place, array in steps.get(step, {}).items():
            model.set_tensor(details[place]["index"], array)
        model.invoke()
        for place, detail in enumerate(model.get_output_details()):
            found[f"{step}.{place}"] = np.array(model.get_tensor(detail["index"]))
    np.savez(path.with_suffix(".out.npz"), **found)


for model_path in sorted(Path(sys.argv[1]).glob("*.tflite")):
    try:
        run(model_path)
    except Exception as error:  # noqa: BLE001 - whatever LiteRT says of a model is handed on
        model_path.with_suffix(".error").write_text(str(error), encoding="utf-8")
