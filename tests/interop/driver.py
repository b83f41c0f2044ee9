"""Runs inside the official engine's own environment; needs only that engine and numpy.

    driver.py convert SOURCE.onnx TARGET.mnn [FLAG ...]
    driver.py many JOBS.json FIRST
    driver.py decode FOLDER PROGRAM.json RESULT.npy
    driver.py run MODEL.mnn FEEDS.npz RESULT.npz INPUT,... OUTPUT,... FORMAT,...

Its engine prints success for empty files and does not raise when a run fails, so this prints ``ok`` only when results
were written.
"""

from __future__ import annotations

import sys

import numpy as np

import MNN


def convert(source: str, target: str, *flags: str) -> None:
    import _tools

    _tools.mnnconvert(["x", "-f", "ONNX", "--modelFile", source, "--MNNModel", target, "--bizCode", "b", *flags])


def run(model: str, feeds_path: str, result_path: str, inputs: str, outputs: str, formats: str) -> None:
    import MNN.expr as expr
    import MNN.nn as nn

    feeds = np.load(feeds_path)
    names, wanted = inputs.split("\x1f"), outputs.split("\x1f")
    module = nn.load_module_from_file(model, names, wanted)
    given = [_variable(expr, feeds[f"in{i}"], form) for i, form in enumerate(formats.split("\x1f"))]
    results = module.forward(given)
    if not isinstance(results, (list, tuple)):
        results = [results]
    arrays = {}
    for i, result in enumerate(results):
        if len(result.shape) > 1 and result.data_format == expr.NC4HW4:
            result = expr.convert(result, expr.NCHW)
        arrays[f"out{i}"] = np.array(result.read())
    if len(arrays) != len(wanted):
        raise SystemExit(f"{len(arrays)} results for {len(wanted)} outputs")
    np.savez(result_path, **arrays)


def _variable(expr, array, form):
    if array.dtype.kind in "iub":
        array = array.astype(np.int32)
    elif array.dtype.kind == "f":
        array = array.astype(np.float32)
    array = np.ascontiguousarray(array)
    order = expr.NHWC if form == "NHWC" else expr.NCHW
    variable = expr.const(array, list(array.shape), order, expr.int if array.dtype.kind == "i" else expr.float)
    return expr.convert(variable, expr.NC4HW4) if form == "NC4HW4" else variable


def decode(folder: str, program: str, result: str) -> None:
    import json

    import MNN.llm

    with open(program) as file:
        steps = json.load(file)
    model = MNN.llm.create(folder + "/config.json")
    model.load()
    found = []
    for kind, value in steps:
        if kind == "reset":
            model.reset()
        elif kind == "keep":
            model._c_obj.erase_history(value, 0)
        else:
            found.append(np.array(model.forward(value).read()).ravel())
    np.save(result, np.array(found))


def many(listed: str, start: str) -> None:
    import json

    with open(listed) as file:
        jobs = json.load(file)
    for i, job in list(enumerate(jobs))[int(start) :]:
        print("AT", i, flush=True)
        try:
            run(*job)
        except BaseException as error:  # noqa: BLE001 - one bad model must not end the list
            print(type(error).__name__, str(error)[:200], flush=True)


if __name__ == "__main__":
    {"convert": convert, "run": run, "many": many, "decode": decode}[sys.argv[1]](*sys.argv[2:])
    print(f"{MNN.version()} ok" if hasattr(MNN, "version") else "ok")
