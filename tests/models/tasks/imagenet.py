"""EfficientNet-Lite0 with ImageNet weights, exported from PyTorch; input [batch, 3, 224, 224] scaled to -1..1."""

from __future__ import annotations

import numpy as np
from PIL import Image

from tests.models.media import picture
from tests.models.task import Array, Run, Task

# 652 military uniform, 285 Egyptian cat, 967 espresso, 985 daisy, 657 missile
CLASSES = {
    "picture_hopper": 652,
    "picture_chelsea": 285,
    "picture_coffee": 967,
    "picture_flower": 985,
    "picture_rocket": 657,
}


def prepare(key: str, size: int = 224) -> Array:
    """Centre square of the picture, bicubic to ``size``, channels first, (x - 127) / 128."""
    image = picture(key)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC)
    pixels = np.asarray(square, np.float32)
    return np.ascontiguousarray((pixels.transpose(2, 0, 1) - 127) / 128)[None]


def check(run: Run) -> None:
    for key, expected in CLASSES.items():
        logits = run({"input": prepare(key)})["logits"]
        assert logits.shape == (1, 1000)
        assert int(np.argmax(logits)) == expected, f"{key}: class {int(np.argmax(logits))}"
    batch = np.concatenate([prepare(key) for key in CLASSES])
    assert np.argmax(run({"input": batch})["logits"], 1).tolist() == list(CLASSES.values())


def feeds() -> list[dict[str, Array]]:
    return [{"input": prepare("picture_chelsea")}]


TASK = Task("efficientnet_lite0", ("efficientnet_lite0",), check, feeds)
