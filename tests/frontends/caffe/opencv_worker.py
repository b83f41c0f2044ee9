"""Runs networks with OpenCV: ``python opencv_worker.py FOLDER``. Imports nothing of this repository."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

for path in sorted(Path(sys.argv[1]).glob("*.prototxt")):
    stem = path.with_suffix("")
    try:
        weights = path.with_suffix(".caffemodel")
        net = cv2.dnn.readNetFromCaffe(str(path), str(weights) if weights.stat().st_size else "")
        net.enableFusion(False)
        net.enableWinograd(False)
        for name, array in np.load(path.with_suffix(".npz")).items():
            net.setInput(array, name)
        names = path.with_suffix(".outputs").read_text(encoding="utf-8").split("\n")
        np.savez(f"{stem}.out.npz", **dict(zip(names, net.forward(names), strict=True)))
    except Exception as error:  # noqa: BLE001  (whatever OpenCV says is the answer)
        Path(f"{stem}.error").write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
