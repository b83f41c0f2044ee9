"""Magika: kind of a file from its first and last 1,024 bytes; input bytes int32 [batch, 2048], 256 as padding."""

from __future__ import annotations

import json

import numpy as np

from tests import zoo
from tests.models.task import Array, Run, Task

BLOCK, PART, PADDING = 4096, 1024, 256
# key of a file in the zoo -> (its kind, least score)
FILES = {
    "efficientnet_lite_code": ("python", 0.98),
    "picture_chelsea": ("png", 0.99),
    "picture_rocket": ("jpeg", 0.99),
    "elf_library": ("elf", 0.99),
    "speech_beckett": ("wav", 0.99),
    "font_dejavu": ("ttf", 0.99),
    "swift_f0": ("onnx", 0.99),
    "digits": ("gzip", 0.99),
    "ssd_prototxt": ("textproto", 0.99),
    "minilm_tokenizer": ("json", 0.8),
}


def features(data: bytes) -> Array:
    """Model input [1, 2048] of a file's content: white space is stripped from the outer ends before cutting."""
    short = len(data) <= BLOCK
    first, last = data[:BLOCK], data[-BLOCK:]
    first = (first.strip() if short else first.lstrip())[:PART]
    last = (last.strip() if short else last.rstrip())[-PART:]
    row = np.full(2 * PART, PADDING, np.int32)
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[2 * PART - len(last) :] = np.frombuffer(last, np.uint8)
    return row[None]


def check(run: Run) -> None:
    labels = json.loads(zoo.path("magika_config").read_text(encoding="utf-8"))["target_labels_space"]
    for key, (kind, least) in FILES.items():
        scores = run({"bytes": features(zoo.path(key).read_bytes())})["target_label"][0]
        best = int(np.argmax(scores))
        assert labels[best] == kind, f"{key} taken for {labels[best]}"
        assert float(scores[best]) > least
    batch = np.concatenate([features(zoo.path(key).read_bytes()) for key in FILES])
    for size in (2, 3, len(batch)):  # the third size is one of a range
        kinds = [labels[int(k)] for k in np.argmax(run({"bytes": batch[-size:]})["target_label"], 1)]
        assert kinds == [kind for kind, _ in FILES.values()][-size:]


def feeds() -> list[dict[str, Array]]:
    rows = [features(zoo.path(key).read_bytes()) for key in FILES]
    return [{"bytes": rows[0]}, {"bytes": np.concatenate(rows[1:5])}]


TASK = Task("magika", ("magika",), check, feeds)
