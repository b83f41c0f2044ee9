"""Single-shot detection."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.build import Word
from tests.frontends.caffe.cases.draw import Case, Draw, family


@family("PriorBox")
def prior_box(d: Draw) -> Case:
    """Whole sizes, as Caffe takes whole pixels of them and OpenCV does not."""
    d.input(1, 2, d.int(1, 5), d.int(1, 5))
    d.input(1, 3, d.int(20, 60), d.int(20, 60), name="image")
    count = d.int(1, 2)
    smallest = sorted(float(d.int(4, 20)) for _ in range(count))
    param: dict[str, object] = {
        "min_size": smallest, "max_size": [s + d.int(1, 20) for s in smallest] if count == 1 and d.flag() else None,
        "aspect_ratio": d.one([None, [2.0], [2.0, 3.0], [1.0, 2.0]]), "flip": d.one([None, True, False]),
        "clip": d.flag(), "variance": d.one([[0.1, 0.1, 0.2, 0.2], [0.5]]), "offset": d.one([None, 0.25]),
    }  # fmt: skip
    if d.flag():
        param["step"] = float(d.int(4, 12))
    d.add("PriorBox", ["data", "image"], prior_box_param=param)
    return d.case()


@family("DetectionOutput", "DetectionOutput general")
def detection_output(d: Draw, name: str) -> Case:
    """What OpenCV has too."""
    general = "general" in name
    samples, classes, count = (d.int(1, 3) if general else 1), d.int(2, 4), d.int(3, 30)
    shared = not general or d.flag()
    background = d.one([0, classes - 1, 0 if shared else -1]) if general else 0
    apart = 1 if shared else classes
    low = d.rng.random((count, 2)) * 0.7
    boxes = np.concatenate([low, low + 0.05 + d.rng.random((count, 2)) * 0.3], 1)
    variances = np.tile([0.1, 0.1, 0.2, 0.2], (count, 1))
    d.input(samples, count * apart * 4, name="location", low=-0.5, high=0.5)
    scores = d.rng.permutation(samples * count * classes).astype(np.float32) / (samples * count * classes)
    d.fed(scores.reshape(samples, -1), "confidence")
    d.fed(np.stack([boxes.reshape(-1), variances.reshape(-1)])[None], "priors")
    d.add("DetectionOutput", ["location", "confidence", "priors"], detection_output_param={
        "num_classes": classes, "share_location": shared, "background_label_id": background,
        "nms_param": {"nms_threshold": d.number(0.2, 0.7), "top_k": d.one([400, d.int(1, count)])},
        "code_type": Word(d.one(["CORNER", "CENTER_SIZE"]) if general else "CENTER_SIZE"),
        "keep_top_k": d.one([200, d.int(1, count)]), "confidence_threshold": d.number(0.05, 0.6),
    })  # fmt: skip
    return d.case(rows=True)
