"""The page of Keras's layers in the docs: ``python -m tests.keras.coverage`` writes it anew."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from MNN.frontends.keras.part import described
from MNN.frontends.keras.registry import table
from tests.keras.recorded import cases

HERE = Path(__file__).parent
RECORDED = HERE / "layers.zip"
PAGE = HERE.parents[1] / "docs" / "keras-coverage.md"
MODELS = ("Functional", "Model", "Sequential", "InputLayer")


def used(spec: Any) -> Iterator[str]:
    """The classes of all layers and operations in a configuration."""
    if isinstance(spec, dict):
        if isinstance(spec.get("class_name"), str) and not spec["class_name"].startswith("__"):
            yield described(spec)[0]
        for value in spec.values():
            yield from used(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from used(value)


def compared() -> set[str]:
    """What the recorded models are made of."""
    found: set[str] = set()
    with zipfile.ZipFile(RECORDED) as archive:
        for name in archive.namelist():
            if name.endswith(".keras"):
                with archive.open(name) as file, zipfile.ZipFile(file) as model:
                    found.update(used(json.loads(model.read("config.json"))))
    return found


def page() -> str:
    """The page in the docs."""
    known, tried = table.known(), compared()
    layers = [k for k in known if not k.startswith("ops.") and k not in MODELS]
    operations = [k for k in known if k.startswith("ops.")]
    count = len({case.name for case in cases(RECORDED)})

    def listed(names: list[str]) -> str:
        return ", ".join(n.removeprefix("ops.") if n in tried else f"*{n.removeprefix('ops.')}*" for n in names) + "."

    return "\n".join(
        [
            "# Keras layers",
            "",
            "<!-- written by python -m tests.keras.coverage; do not edit -->",
            "",
            "`mnn convert`, `mnn run` and `MNN.load` take whole models of Keras 3 and Keras 2, without Keras and",
            "without TensorFlow: `.keras` archives and `.h5` files. Their numbers are HDF5; an extra reads it:",
            "",
            "```text",
            'pip install "mnn-py[keras]"',
            "```",
            "",
            f"**{len(layers)} layers and {len(operations)} operations** are read. {count} families of random models",
            "are compared with what Keras answers (`tests/keras/`); what is in italics is read, and not in them. What",
            "a model uses beyond them is listed all at once, before anything is written.",
            "",
            "## Models",
            "",
            "Rows of layers (`Sequential`) and graphs of calls (`Functional`): shared layers, models within models,",
            "several inputs and outputs, lists and dictionaries of them. Inputs are called after their input layers,",
            "outputs after the layers that give them, or as the dictionary has it that the model gives. The first",
            "axis of all inputs is called `batch` where it is open.",
            "",
            "Masks (`mask_zero`, `Masking`) reach the layers that they reach in Keras, whatever steps they leave out.",
            "Models in mixed precision compute as their policies say. Layers that matter in training alone do nothing.",
            "",
            "`Dense`, `EinsumDense` and `Embedding` may be quantised (`model.quantize('int8')`, `'int4'`): products of",
            "integers are as exact as in Keras. LoRA is added up, as `.keras` files have it. `stateful` layers keep",
            "[states](states.md) from run to run; their input layer has a batch size.",
            "",
            "Refused, with a sentence: `Lambda` and classes of the program's own (their Python code is never run),",
            "other quantised layers, layers for texts, and models that are classes of their own.",
            "For these, `model.export('folder')` in Keras writes a [SavedModel](tensorflow-coverage.md).",
            "",
            "## Layers",
            "",
            listed(layers),
            "",
            "## Operations (`keras.ops`)",
            "",
            listed(operations),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
