"""PP-OCRv4: finding lines of text (detection), turning them upright (direction), reading them (recognition).

Inputs are pictures [batch, 3, height, width] scaled to -1..1 of any height and width (multiples of 32 for detection,
height 48 for the others).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from PIL import Image

from tests import zoo
from tests.models.media import page, picture, text_line
from tests.models.task import Array, Run, Task

DETECT, RECOGNISE, DIRECTION = "sigmoid_0.tmp_0", "softmax_11.tmp_0", "save_infer_model/scale_0.tmp_1"
LINES = ["The quick brown fox", "jumps over 12 lazy dogs", "at 09:45 on Friday."]
HEIGHT = 48


def scaled(image: Image.Image) -> Array:
    """[1, 3, height, width] in -1..1."""
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray(pixels / 127.5 - 1)[None]


def line_input(image: Image.Image, width: int | None = None) -> Array:
    """A line scaled to 48 rows; cut or padded with zeros on the right to ``width`` where one is given."""
    natural = max(1, round(image.width * HEIGHT / image.height))
    kept = natural if width is None else min(natural, width)
    data = scaled(image.resize((kept, HEIGHT), Image.Resampling.BILINEAR))
    return data if width is None else np.pad(data, ((0, 0), (0, 0), (0, 0), (0, width - kept)))


@cache
def characters() -> list[str]:
    """What each class of the recogniser stands for; class 0 is "nothing"."""
    model = onnx.load(str(zoo.path("ppocr_rec")), load_external_data=False)
    metadata = {p.key: p.value for p in model.metadata_props}
    return ["", *metadata["character"].splitlines(), " "]


def read_line(run: Run, image: Image.Image) -> tuple[str, float]:
    """Best class at each step, repeats and blanks dropped (Graves et al. 2006); text and mean probability."""
    steps = run({"x": line_input(image)})[RECOGNISE][0]
    best = np.argmax(steps, 1)
    kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    table = characters()
    return "".join(table[int(k)] for k in best[kept]), float(np.mean(np.max(steps, 1)[kept]))


def boxes(probability: Array, threshold: float = 0.3, grow: float = 1.6) -> list[tuple[int, int, int, int]]:
    """Upright boxes (left, top, right, bottom) of the connected areas above ``threshold``, top to bottom.

    A detected area is the shrunk core of a line; each side moves out by area * ``grow`` / perimeter (Liao et al. 2020).
    """
    found = []
    for left, top, right, bottom in _areas(probability > threshold):
        width, height = right - left, bottom - top
        if min(width, height) < 3 or float(np.mean(probability[top:bottom, left:right])) < 0.5:
            continue
        out = round(width * height * grow / (2 * (width + height)))
        limit_y, limit_x = probability.shape
        found.append((max(left - out, 0), max(top - out, 0), min(right + out, limit_x), min(bottom + out, limit_y)))
    return sorted(found, key=lambda box: box[1])


def _areas(mask: Array) -> list[tuple[int, int, int, int]]:
    """Bounding boxes of 4-connected areas: runs of each row, united with the runs that they touch in the row above."""
    parent: list[int] = []
    box: list[tuple[int, int, int, int]] = []

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    above: list[tuple[int, int, int]] = []
    for y, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]]))).tolist()
        here = []
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            label = len(parent)
            parent.append(label)
            box.append((start, y, end, y + 1))
            for other_start, other_end, other in above:
                if other_start < end and start < other_end:
                    a, b = root(other), root(label)
                    if a != b:
                        parent[b] = a
                        (l1, t1, r1, b1), (l2, t2, r2, b2) = box[a], box[b]
                        box[a] = (min(l1, l2), min(t1, t2), max(r1, r2), max(b1, b2))
            here.append((start, end, label))
        above = here
    return [box[k] for k in range(len(parent)) if parent[k] == k]


def check_reading(run: Run) -> None:
    for line in [*LINES, "E=mc2; 50% (x+y)"]:
        text, probability = read_line(run, text_line(line))
        assert text == line, f"read {text!r} for {line!r}"
        assert probability > 0.9


def check_detection(run: Run) -> None:
    for size in ((640, 480), (800, 320)):
        image = page(LINES, size)
        found = boxes(run({"x": scaled(image)})[DETECT][0, 0])
        assert len(found) == len(LINES)
        dark = np.asarray(image.convert("L")) < 128
        for left, top, right, bottom in found:
            assert dark[top:bottom, left:right].any()
            dark[top:bottom, left:right] = False
        assert not dark.any(), "text outside of the boxes"


def check_direction(run: Run) -> None:
    for line in LINES:
        image = text_line(line)
        for turned, picture_of_line in enumerate((image, image.rotate(180))):
            answer = run({"x": line_input(picture_of_line, 192)})[DIRECTION][0]
            assert int(np.argmax(answer)) == turned, f"{line!r} turned by {180 * turned}: {answer}"
            assert float(np.max(answer)) > 0.9


def check_page(detect: Run, direction: Run, recognise: Run) -> None:
    """The whole chain on a page whose lines are upside down, then on a photographed page."""
    upside_down = page(LINES).rotate(180)
    read = []
    for box in boxes(detect({"x": scaled(upside_down)})[DETECT][0, 0]):
        line = upside_down.crop(box)
        if int(np.argmax(direction({"x": line_input(line, 192)})[DIRECTION])) == 1:
            line = line.rotate(180)
        read.append(read_line(recognise, line)[0])
    assert read == LINES[::-1]

    photograph = picture("picture_page")
    photograph = photograph.resize((photograph.width // 32 * 64, photograph.height // 32 * 64))
    found = boxes(detect({"x": scaled(photograph)})[DETECT][0, 0])
    words = " ".join(read_line(recognise, photograph.crop(box))[0] for box in found)
    assert "segmentation" in words, words


def _detect_feeds() -> list[dict[str, Array]]:
    photograph = picture("picture_page")
    return [{"x": scaled(photograph.resize(size))} for size in ((384, 192), (768, 384))]


def _recognise_feeds() -> list[dict[str, Array]]:
    return [{"x": line_input(text_line(line))} for line in LINES[:2]]


def _direction_feeds() -> list[dict[str, Array]]:
    rows = [line_input(text_line(line), 192) for line in LINES]
    return [{"x": rows[0]}, {"x": np.concatenate(rows)}]


TASKS = (
    Task("ppocr_det", ("ppocr_det",), check_detection, _detect_feeds, steep=True),
    Task("ppocr_rec", ("ppocr_rec",), check_reading, _recognise_feeds),
    Task("ppocr_cls", ("ppocr_cls",), check_direction, _direction_feeds),
    Task("ppocr_chain", ("ppocr_det", "ppocr_cls", "ppocr_rec"), check_page, _detect_feeds),
)
