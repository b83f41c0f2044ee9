"""The models that every pass is put to: benchmark architectures, the onnx package's classifiers, trained models."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.architectures.catalog import ARCHITECTURES
from tests import zoo
from tests.models.answers import SINGLE
from tests.models.clips import clip, is_video, with_clip
from tests.models.light import LIGHT, SMALL, randomised
from tests.models.task import Feeds

LARGER = ("vit_b16",)
"""Networks of the structure of a smaller one: what passes do to vit_tiny they do to it."""
TOKENS = 24
"""Length of text for models that take any."""


@dataclass(frozen=True)
class Model:
    """A file (made in ``folder`` if need be) and inputs for it."""

    name: str
    path: Callable[[Path], Path]
    feeds: Callable[[], Feeds]


def architecture(name: str) -> Path:
    """From the folder ``MNN_TEST_ARCH`` where that is set, else exported (once) by torch."""
    folder = os.environ.get("MNN_TEST_ARCH")
    return Path(folder) / f"{name}.onnx" if folder else zoo.architecture(name)


def _architecture(name: str) -> Model:
    if is_video(name):
        return Model(name, lambda folder: with_clip(architecture(name), folder), lambda: clip(0))
    return Model(name, lambda folder: architecture(name), lambda: ARCHITECTURES[name].feeds(0, sequence=TOKENS))


def _light(name: str) -> Model:
    light = next(m for m in LIGHT if m.name == name)

    def path(folder: Path) -> Path:
        if name not in SMALL:
            return light.path
        file = folder / f"{name}.onnx"
        onnx.save(randomised(name), str(file))
        return file

    return Model(f"light_{name}", path, light.feeds)


def _trained(task) -> Model:  # type: ignore[no-untyped-def]
    return Model(task.name, lambda folder: zoo.path(task.models[0]), lambda: task.feeds()[0])


MODELS = (
    *(_architecture(name) for name in ARCHITECTURES if name not in LARGER),
    *(_light(m.name) for m in LIGHT),
    *(_trained(task) for task in SINGLE),
)
