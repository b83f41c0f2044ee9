"""Runs models with ncnn, in an environment of its own: ``python ncnn_worker.py FOLDER``.

For each ``NAME.param`` with ``NAME.bin`` and inputs ``NAME.npz`` (arrays called by blob) the outputs are written to
``NAME.out.npz``; what ncnn refuses, to ``NAME.error``. Imports nothing of this repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ncnn
import numpy as np


def run(path: Path) -> None:
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    net.opt.use_winograd_convolution = False
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{name}", False)
    load = net.load_param_bin if path.name.endswith(".binary.param") else net.load_param
    if load(str(path)) or net.load_model(str(path.with_suffix(".bin"))):
        raise RuntimeError("ncnn does not load it")
    feeds = np.load(path.with_suffix(".npz"))
    wanted = path.with_suffix(".outputs").read_text(encoding="utf-8").split()
    kept = {name: np.ascontiguousarray(feeds[name]) for name in feeds.files}
    extractor = net.create_extractor()
    for name, array in kept.items():
        place = int(name) if path.name.endswith(".binary.param") else name
        if extractor.input(place, ncnn.Mat(array).clone()):
            raise RuntimeError(f"ncnn has no input {name}")
    found = {}
    for name in wanted:
        place = int(name) if path.name.endswith(".binary.param") else name
        code, mat = extractor.extract(place)
        if code:
            raise RuntimeError(f"ncnn ends with {code}")
        found[name] = np.zeros((0, 6), np.float32) if mat.empty() else np.array(mat)
    np.savez(path.with_suffix(".out.npz"), **found)


for model_path in sorted(Path(sys.argv[1]).glob("*.param")):
    try:
        run(model_path)
    except Exception as error:  # noqa: BLE001 - whatever ncnn says of a model is handed on
        model_path.with_suffix(".error").write_text(f"{error}", encoding="utf-8")
