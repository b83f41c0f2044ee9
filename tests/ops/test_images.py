"""Pictures in files as tensors: every pixel format, other kinds of pictures, and what is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

import MNN
from MNN.errors import RunError
from MNN.ops.images import decoding as images

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)


def decoder(form="RGB"):
    node = helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=form)
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, ["h", "w", "c"])
    graph = helper.make_graph([node], "g", [x], [y])
    return MNN.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())


def file_of(picture, kind="PNG"):
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def test_formats():
    data = file_of(Image.fromarray(PIXELS))
    np.testing.assert_array_equal(decoder()(data), PIXELS)
    np.testing.assert_array_equal(decoder("BGR")(data), PIXELS[:, :, ::-1])
    gray = np.array(Image.fromarray(PIXELS).convert("L"))[:, :, None]
    np.testing.assert_array_equal(decoder("Grayscale")(data), gray)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1"])
def test_all_kinds_have_three_channels(mode):
    picture = Image.fromarray(PIXELS).convert(mode)
    found = decoder()(file_of(picture))
    np.testing.assert_array_equal(found, np.array(picture.convert("RGB")))


def test_damage_is_told(monkeypatch):
    data = file_of(Image.fromarray(PIXELS))
    for bad in (data[:40], np.zeros(100, np.uint8), np.zeros(0, np.uint8)):
        with pytest.raises(RunError, match="ImageDecoder 'y': its input is no picture"):
            decoder()(bad)
    monkeypatch.setattr(images, "MAX_PIXELS", 34)
    with pytest.raises(RunError, match="a picture of 7 x 5 is too large"):
        decoder()(data)
