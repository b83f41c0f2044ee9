"""LiteRT, the engine to compare with, in an environment of its own that is made once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests import export_env, kept, zoo

REQUIREMENTS = ("ai-edge-litert==2.3.0", "numpy>=2")
VARIABLE = "MNN_LITERT_PYTHON"


@dataclass(frozen=True)
class Request:
    """A model with the inputs of its runs, by position. ``reference``: with the kernels that define the numbers."""

    model: bytes
    runs: Sequence[Sequence[np.ndarray]]
    reference: bool = False


@dataclass(frozen=True)
class Answer:
    """Outputs of every run, or why there are none."""

    outputs: list[list[np.ndarray]]
    error: str = ""


def python() -> Path:
    """The interpreter that has LiteRT: ``MNN_LITERT_PYTHON``, or that of an environment in the test models' cache."""
    return export_env.environment(zoo.cache_folder(), "litert-env", REQUIREMENTS, VARIABLE)


def answers(requests: Mapping[str, Request]) -> dict[str, Answer]:
    """What LiteRT gives, for all requests in one process."""
    with tempfile.TemporaryDirectory(prefix="litert-") as name:
        folder = Path(name)
        for key, request in requests.items():
            (folder / f"{key}.tflite").write_bytes(request.model)
            if request.reference:
                (folder / f"{key}.reference").touch()
            arrays = {f"{i}.{k}": a for i, run in enumerate(request.runs) for k, a in enumerate(run)}
            np.savez(folder / f"{key}.npz", **arrays)  # type: ignore[arg-type]
        kept.asked(python(), REQUIREMENTS, f"{__package__}.litert_worker", Path(name), name)
        return {key: _answer(folder, key, request) for key, request in requests.items()}


def _answer(folder: Path, key: str, request: Request) -> Answer:
    error = folder / f"{key}.error"
    if error.exists():
        return Answer([], error.read_text(encoding="utf-8") or "an error")
    with np.load(folder / f"{key}.out.npz", allow_pickle=True) as found:
        runs = len(request.runs)
        outputs = sum(k.startswith("0.") for k in found.files)
        return Answer([[found[f"{i}.{k}"] for k in range(outputs)] for i in range(runs)])
