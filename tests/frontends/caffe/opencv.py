"""OpenCV's dnn module, which reads Caffe's files by itself, in an environment of its own that is made once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests import export_env, kept, zoo

REQUIREMENTS = ("opencv-python-headless==4.11.0.86", "numpy>=2")
VARIABLE = "MNN_OPENCV_PYTHON"


@dataclass(frozen=True)
class Request:
    """A network, what goes in, and the names of what comes out."""

    prototxt: str
    caffemodel: bytes
    feeds: Mapping[str, np.ndarray]
    outputs: tuple[str, ...]


Answer = dict[str, np.ndarray] | str
"""Outputs by name, or why there are none."""


def python() -> Path:
    """The interpreter that has OpenCV: ``MNN_OPENCV_PYTHON``, or that of an environment in the test models' cache."""
    return export_env.environment(zoo.cache_folder(), "opencv-env", REQUIREMENTS, VARIABLE)


def answers(requests: Mapping[str, Request]) -> dict[str, Answer]:
    """What OpenCV gives, for all requests in one process."""
    with tempfile.TemporaryDirectory(prefix="opencv-") as name:
        folder = Path(name)
        for key, request in requests.items():
            (folder / f"{key}.prototxt").write_text(request.prototxt, encoding="utf-8")
            (folder / f"{key}.caffemodel").write_bytes(request.caffemodel)
            (folder / f"{key}.outputs").write_text("\n".join(request.outputs), encoding="utf-8")
            np.savez(folder / f"{key}.npz", **request.feeds)  # type: ignore[arg-type]
        kept.asked(python(), REQUIREMENTS, f"{__package__}.opencv_worker", folder, name)
        return {key: _answer(folder, key) for key in requests}


def _answer(folder: Path, key: str) -> Answer:
    error = folder / f"{key}.error"
    if error.exists():
        return error.read_text(encoding="utf-8") or "an error"
    with np.load(folder / f"{key}.out.npz") as found:
        return {name: found[name] for name in found.files}
