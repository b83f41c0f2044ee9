"""Keras files among the models that are compared; their recorded answers say what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.frontends import load_graph
from tests.interop.framework_models import Converted
from tests.interop.models import Model
from tests.keras.coverage import RECORDED
from tests.keras.recorded import cases

NAMES = "Sequential NestedModels MultiHeadAttention LSTM SeparableConv2D ApplicationLayers".split()


@dataclass(frozen=True)
class KerasModel(Converted):
    """A file with Keras' answers, in the order of its outputs."""

    answers: tuple[np.ndarray, ...]

    def expected(self) -> dict[str, np.ndarray]:
        """Outputs by name, from Keras."""
        return dict(zip([v.name for v in load_graph(self.path).outputs], self.answers, strict=True))


def keras_models(folder: Path) -> Iterator[Model]:
    """Models of ``NAMES``, written to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases(RECORDED):
        name = case.name.partition("/")[0]
        if name not in NAMES or not case.file.endswith(".keras"):
            continue
        path = folder / f"{name}.keras"
        path.write_bytes(case.data)
        names = [v.name for v in load_graph(path).inputs]
        given = case.given if set(names) <= set(case.given) else dict(zip(names, case.given.values(), strict=True))
        yield KerasModel(f"keras/{name}", path, lambda given=given: given, tuple(case.wanted))  # type: ignore[misc]
