"""Pictures in files as tensors, through Pillow."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np

from MNN.errors import RunError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ops.arranging.selecting import array
from MNN.ops.core.base import EagerOperator, register
from MNN.ops.inference import infer

FORMATS = ("RGB", "BGR", "Grayscale")
MAX_PIXELS = 1 << 26
"""Pixels of a picture beyond which it is refused: a small file can claim any size."""


@register("ImageDecoder")
class ImageDecoder(EagerOperator):
    """The bytes of a picture's file (u8) to its pixels ``[h, w, 3]`` (u8), or ``[h, w, 1]`` of ``Grayscale``.

    Formats: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP. Raises :class:`RunError` for anything else.
    """

    in_mnn = False
    attributes = {"pixelFormat": "RGB"}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        from PIL import Image

        where, form = f"{node.op} '{node.name}'", self.str_attr(node, "pixelFormat")
        data = array(node, inputs, 0)
        if data.dtype != np.uint8 or form not in FORMATS:
            raise RunError(f"{where}: needs the bytes of a file and one of {', '.join(FORMATS)}, found {form}")
        kinds = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
        damage = (OSError, ValueError, SyntaxError, struct.error, EOFError, IndexError, KeyError)
        try:
            with Image.open(io.BytesIO(data.tobytes()), formats=kinds) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise RunError(f"{where}: a picture of {picture.width} x {picture.height} is too large")
                pixels = np.array(picture.convert("L" if form == "Grayscale" else "RGB"))
        except (*damage, Image.DecompressionBombError) as error:
            raise RunError(f"{where}: its input is no picture that can be read ({error})") from error
        return [pixels[:, :, None] if form == "Grayscale" else pixels[:, :, ::-1] if form == "BGR" else pixels]


@infer.rule(ImageDecoder)
def _infer_picture(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.U8, (None, None, 1 if node.attrs.get("pixelFormat") == "Grayscale" else 3))]
