"""onnx's own model cases: those on disk in the onnx package that need nothing fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import TypeProto, numpy_helper

from tests.harness import Runner
from tests.onnx.cases import run_model

DATA = Path(onnx.backend.test.__file__).parent / "data"
KINDS = ("pytorch-converted", "pytorch-operator", "simple", "light")
RTOL, ATOL = 1e-3, 1e-7
"""onnx's tolerances where a case says nothing else."""


@dataclass(frozen=True)
class ModelCase:
    """A model's file and the folders (or, of light models, the one file) that hold what it must give."""

    kind: str
    model: Path

    def run(self, runner: Runner) -> None:
        """Raises for anything but the expected outputs."""
        model = onnx.load(self.model)
        if self.kind == "light":
            run_model(model, [self._light(model)], RTOL, ATOL, runner)
            return
        sets = sorted(self.model.parent.glob("test_data_set_*"))
        assert sets, f"{self.model.parent} holds no data"
        given = {t.name for t in model.graph.initializer}
        inputs = [v for v in model.graph.input if v.name not in given]
        data = [(_values(s, "input", inputs), _values(s, "output", model.graph.output)) for s in sets]
        run_model(model, data, RTOL, ATOL, runner)

    def _light(self, model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
        """Networks of constant weights; the input counts up from 0 to 1, as onnx's runner makes it."""
        (value,) = [v for v in model.graph.input if v.name not in {t.name for t in model.graph.initializer}]
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        ramp = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
        expected = onnx.TensorProto.FromString(self.model.with_name(f"{self.model.stem}_output_0.pb").read_bytes())
        return [ramp], [expected]


def model_cases() -> dict[str, ModelCase]:
    """All of them by name: kind/case."""
    found = {}
    for kind in KINDS:
        models = (DATA / kind).glob("*.onnx") if kind == "light" else (DATA / kind).glob("*/model.onnx")
        for model in models:
            name = model.stem if kind == "light" else model.parent.name
            found[f"{kind}/{name}"] = ModelCase(kind, model)
    return found


def _values(folder: Path, stem: str, infos: Any) -> list[Any]:
    return [_value((folder / f"{stem}_{i}.pb").read_bytes(), info.type) for i, info in enumerate(infos)]


def _value(data: bytes, kind: TypeProto) -> Any:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.TensorProto.FromString(data)
