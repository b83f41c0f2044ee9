"""ncnn, the engine to compare with, in an environment of its own that is made once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests import export_env, kept, zoo
from tests.frontends.ncnn.build import Model

REQUIREMENTS = ("ncnn==1.0.20261020", "numpy>=2")
VARIABLE = "MNN_NCNN_PYTHON"


@dataclass(frozen=True)
class Answer:
    """Outputs by name, or why there are none."""

    outputs: dict[str, np.ndarray]
    error: str = ""


def python() -> Path:
    """The interpreter that has ncnn: ``MNN_NCNN_PYTHON``, or that of an environment in the test models' cache."""
    return export_env.environment(zoo.cache_folder(), "ncnn-env", REQUIREMENTS, VARIABLE)


def answers(models: Mapping[str, Model], binary: bool = False) -> dict[str, Answer]:
    """What ncnn gives, for all models in one process; ``binary`` has it read them as ``.param.bin``."""
    ending = ".binary.param" if binary else ".param"
    with tempfile.TemporaryDirectory(prefix="ncnn-") as name:
        paths = {key: Path(name) / f"{key}{ending}" for key in models}
        for key, path in paths.items():
            model = models[key]
            path.write_bytes(model.binary() if binary else model.text())
            path.with_suffix(".bin").write_bytes(model.weights())
            rename = model.numbers() if binary else {}
            feeds = {str(rename.get(n, n)): a for n, a in model.feeds.items()}
            np.savez(path.with_suffix(".npz"), **feeds)  # type: ignore[arg-type]
            wanted = [str(rename.get(n, n)) for n in model.outputs()]
            path.with_suffix(".outputs").write_text(" ".join(wanted), encoding="utf-8")
        kept.asked(python(), REQUIREMENTS, f"{__package__}.ncnn_worker", Path(name), name)
        return {key: _answer(path, models[key].outputs()) for key, path in paths.items()}


def _answer(path: Path, names: list[str]) -> Answer:
    error = path.with_suffix(".error")
    if error.exists():
        return Answer({}, error.read_text(encoding="utf-8") or "an error")
    with np.load(path.with_suffix(".out.npz")) as found:
        return Answer({name: found[key] for name, key in zip(names, found.files, strict=True)})
