"""What is compared as one piece of work: a model, or a check that is no model's. Any process can do one by its name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tests.interop import caches, cases, checks, random_cases
from tests.interop.models import Model, models

#: Models on which compressed weights are compared (small ones of different make).
COMPRESSED = ("squeezenet1_1", "mobilenet_v2", "resnet18", "shufflenet_v2", "vit_tiny", "silero_vad_half", "ppocr_rec")

#: Comparisons that fail by a fault of the official engine, with the reason.
FAULTS = {
    ("written", "arch/x3d_m"): "groups of a convolution in 3 dimensions: it computes as if there were none",
    ("written, run there", "caffe/face_ssd"): "it looks at all candidates, not at the best nmsTopK of each class",
}

SUMMARIES = {"cases": cases.run, "random": random_cases.run, "caches": caches.run}
"""Checks that are no models', by name."""


ONNX_ALONE = ("nbits", "caffe", "torch", "tflite", "keras")
"""Kinds of models that are not converted there: they are no ONNX, or have operators that it does not know."""


@dataclass(frozen=True)
class Found:
    """What comparing a model, or a check that is no model's, has to say."""

    text: str
    total: int
    failed: int


def compared(model: Model, checked: Sequence[str]) -> Found:
    """All comparisons of a model."""
    kind, plain = model.name.split("/")
    lines, failed = [], 0
    for name in checked:
        if (name == "compressed" and plain not in COMPRESSED) or (name == "converted" and kind in ONNX_ALONE):
            continue
        for result in getattr(checks, name)(model):
            fault = FAULTS.get((name, model.name)) or FAULTS.get((result.check, model.name))
            lines.append(str(result) if fault is None else f"its fault, {fault}: {result}")
            failed += result.passed == (fault is not None)
    return Found("\n".join(lines), len(lines), failed)


def found_for(subject: str, checked: Sequence[str], only: str) -> Found:
    """One of :data:`SUMMARIES`, or the comparisons of the model of this name."""
    if subject in SUMMARIES:
        summary = SUMMARIES[subject](only)
        return Found(summary.text, summary.total, summary.unexpected)
    return compared(by_name()[subject], checked)


@functools.cache
def by_name() -> dict[str, Model]:
    return {model.name: model for model in models()}
