"""What files hold besides layers that ncnn runs: weights beside them, open sizes, layers of users, trained networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.converter import convert
from MNN.errors import FormatError, MNNError
from MNN.frontends import load_graph
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.ncnn import load
from MNN.ir.dtype import DType
from MNN.ops import custom
from tests import zoo
from tests.frontends.ncnn.build import Model, Weight
from tests.frontends.ncnn.compare import ours
from tests.frontends.ncnn.peer import answers

NETWORKS = ("realesr_video_x2", "realesr_video_x3", "realesr_video_x4", "realesrgan_anime")


def _net(described: bool = True) -> Model:
    model, rng = Model(), np.random.default_rng(0)
    x = model.input(rng.random((3, 6, 7)).astype(np.float32), described=described)
    x = model.one("Convolution", [x], {0: 4, 1: 3, 4: 1, 6: 108}, [Weight(rng.random(108), "half")])
    model.one("ReLU", [x])
    return model


def _write(model: Model, folder: Path) -> Path:
    path = folder / "net.param"
    path.write_bytes(model.text())
    path.with_suffix(".bin").write_bytes(model.weights())
    return path


def test_weights_lie_beside(tmp_path: Path) -> None:
    path = _write(_net(), tmp_path)
    graph = load_graph(path)
    assert [v.name for v in graph.inputs] == ["in0"]
    assert graph.inputs[0].shape == (3, 6, 7)
    assert graph.outputs[0].shape == (4, 6, 7)
    binary = tmp_path / "net.param.bin"
    binary.write_bytes(_net().binary())
    assert load_graph(binary).outputs[0].shape == (4, 6, 7)
    path.with_suffix(".bin").unlink()
    with pytest.raises(MNNError, match=r"in net\.bin beside it"):
        load_graph(path)
    with pytest.raises(MNNError, match="weights="):
        load_graph(_net().text())


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    path = _write(_net(), tmp_path)
    data = path.with_suffix(".bin").read_bytes()
    path.with_suffix(".bin").write_bytes(data + bytes(8))
    with pytest.raises(FormatError, match="8 bytes more"):
        load_graph(path)
    path.with_suffix(".bin").write_bytes(data[:-8])
    with pytest.raises(FormatError, match=r"Convolution 'layer1'.*108 weights"):
        load_graph(path)


def test_open_sizes(tmp_path: Path) -> None:
    """Channels follow from the weights; what is given replaces what is open."""
    model = _net(described=False)
    path = _write(model, tmp_path)
    assert load(path).inputs[0].shape == (3, "in0.1", "in0.2")
    assert load(path, {"in0": "3,height,8"}).inputs[0].shape == (3, "height", 8)
    with pytest.raises(MNNError, match=r"its inputs are in0"):
        load(path, {"data": "3x4x4"})
    with pytest.raises(MNNError, match="without a batch"):
        load(path, {"in0": "1x3x4x4x4"})
    loaded = MNN.load(path)
    for height, width in ((5, 9), (12, 4)):
        found = next(iter(loaded.run({"in0": np.ones((3, height, width), np.float32)}).values()))
        assert found.shape == (4, height, width)


def test_converted_files_give_the_same(tmp_path: Path) -> None:
    model = _net()
    convert(_write(model, tmp_path), tmp_path / "net.mnn")
    found = next(iter(MNN.load(tmp_path / "net.mnn").run(model.feeds).values()))
    expected = answers({"net": model})["net"].outputs
    np.testing.assert_allclose(found, next(iter(expected.values())), rtol=1e-4, atol=1e-5)


def test_unknown_layers_are_listed_at_once() -> None:
    model = Model()
    x = model.input(np.zeros((1, 2, 2), np.float32))
    x = model.one("YoloV5Focus", [x])
    model.one("Other", [model.one("SPP", [x])])
    with pytest.raises(UnsupportedModelError, match=r"3 unsupported nodes") as caught:
        load(model.text())
    for said in ("YoloV5Focus", "Other", "SPP", "domain 'ncnn'", "adaptive pooling"):
        assert said in str(caught.value)


def test_layers_of_users() -> None:
    @custom.register_operator
    class Brighten(custom.CustomOperator):
        """``x * times + more``."""

        domain = "ncnn"
        attributes = {"times": 1, "more": 0.0}

        def infer(self, attributes, x):  # type: ignore[no-untyped-def]
            return custom.TensorType(DType.F32, x.shape)

        def compute(self, attributes, x):  # type: ignore[no-untyped-def]
            assert x.shape == (2, 3)
            return x * np.float32(attributes["times"]) + np.float32(attributes["more"])

    try:
        model = Model()
        model.one("Brighten", [model.input(np.ones((2, 3), np.float32))], {0: 3, 1: 0.5})
        (found,) = ours(model).values()
        assert (found == 3.5).all()
    finally:
        custom.unregister_operator("Brighten", "ncnn")


@pytest.mark.parametrize("values", [False, True])
def test_largest_numbers_and_their_places(values: bool) -> None:
    model, x = Model(), np.random.default_rng(1).random((2, 3, 4)).astype(np.float32)
    model.one("ArgMax", [model.input(x)], {0: int(values), 1: 3})
    (found,) = ours(model).values()
    order = np.argsort(-x.reshape(-1))[:3]
    expected = [x.reshape(-1)[order], order] if values else [order]
    np.testing.assert_array_equal(found, np.asarray(expected, np.float32))


def test_between_floats_and_integers() -> None:
    """Quantize, Dequantize and Requantize, one scale and one a channel, against numpy."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, (3, 4, 5)).astype(np.float32)
    scales = [rng.uniform(20, 60, 3).astype(np.float32) for _ in range(2)]
    bias = rng.uniform(-1, 1, 3).astype(np.float32)
    model = Model()
    q = model.one("Quantize", [model.input(x)], {0: 3}, [Weight(scales[0], "plain")])
    weights = [Weight(a, "plain") for a in (1 / scales[0], scales[1], bias)]
    r = model.one("Requantize", [q], {0: 3, 1: 3, 2: 3, 3: 1}, weights)
    model.one("Dequantize", [r], {0: 3, 1: 3}, [Weight(1 / scales[1], "plain"), Weight(bias, "plain")])
    (found,) = ours(model).values()
    line = [a.reshape(3, 1, 1) for a in (*scales, bias)]
    integers = np.clip(np.round(x * line[0]), -127, 127)
    again = np.clip(np.round(np.maximum(integers / line[0] + line[2], 0) * line[1]), -127, 127)
    assert np.abs(found - (again / line[1] + line[2])).max() <= 1.01 / scales[1].min()


def test_half_precision_rounds() -> None:
    model, x = Model(), np.linspace(-2, 2, 37, dtype=np.float32)
    model.one("Cast", [model.one("Cast", [model.input(x)], {0: 1, 1: 2})], {0: 2, 1: 1})
    (found,) = ours(model).values()
    np.testing.assert_array_equal(found, x.astype(np.float16).astype(np.float32))


def test_the_largest_numbers_of_a_region() -> None:
    model, x = Model(), np.random.default_rng(3).random((2, 8, 9)).astype(np.float32)
    box = np.asarray([2.2, 1.4, 5.6, 4.9], np.float32)
    model.one("ROIPooling", [model.input(x), model.input(box)], {0: 2, 1: 1, 2: 1.0})
    (found,) = ours(model).values()
    expected = [[[p[1:6, 2:5].max(), p[1:6, 4:7].max()]] for p in x]
    np.testing.assert_array_equal(found, np.asarray(expected, np.float32))


def test_caches_are_appended_to() -> None:
    """SDPA with keys and values of earlier runs, against numpy (ncnn 1.0.20261020 reads beyond its cache)."""
    rng = np.random.default_rng(4)
    q, k, v, past_k, past_v = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4), *[(2, 2, 4)] * 4))
    model = Model()
    model.layer("SDPA", [model.input(a) for a in (q, k, v, past_k, past_v)], {7: 1}, outputs=3)
    out, keys, values = (ours(model)[f"b5_{i}"] for i in range(3))
    np.testing.assert_array_equal(keys, np.concatenate([past_k, k], 1))
    np.testing.assert_array_equal(values, np.concatenate([past_v, v], 1))
    scores = np.exp(q @ keys.swapaxes(1, 2) / 2)
    np.testing.assert_allclose(out, scores / scores.sum(-1, keepdims=True) @ values, rtol=1e-5, atol=1e-6)


def test_floats_that_old_tools_wrote_as_integers() -> None:
    """Masks of YOLO networks: 1077936128 has the bits of 3.0."""
    model = Model()
    x = model.input(np.full((2, 2), -1, np.float32))
    model.one("BinaryOp", [x], {0: 2, 1: 1, 2: 1077936128})
    assert (next(iter(ours(model).values())) == -3).all()


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_weights_in_blocks(bits: int) -> None:
    """Weights of 4, 6 and 8 bits with a scale for each 32 neighbours, against numpy."""
    rng = np.random.default_rng(bits)
    n, k = 5, 64
    values = rng.integers(-(1 << bits - 1), 1 << bits - 1, (n, k))
    scales = rng.uniform(20, 40, (n, k // 32)).astype(np.float32)
    codes = np.unpackbits((values & 255).astype(np.uint8)[..., None], axis=2, bitorder="little")[..., :bits]
    packed = np.packbits(codes.reshape(n, -1), axis=1, bitorder="little").view(np.int8)
    model, x = Model(), rng.standard_normal((3, k)).astype(np.float32)
    params = {3: 1, 5: 1, 6: 1, 8: n, 9: k, 10: -1, 18: bits * 100}
    model.one("Gemm", [model.input(x)], params, [Weight(packed, "bytes"), Weight(scales, "plain")])
    (found,) = ours(model).values()
    expected = x @ (values / np.repeat(scales, 32, 1)).T
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("key", NETWORKS)
def test_trained_networks_give_what_ncnn_gives(key: str, tmp_path: Path) -> None:
    """Pictures enlarged by Real-ESRGAN, of sizes that no file tells."""
    param, weights = zoo.path(key), zoo.path(f"{key}_weights")
    x = np.random.default_rng(0).random((3, 20, 23)).astype(np.float32)
    model = Given(param.read_bytes(), weights.read_bytes(), {"data": x})
    expected = answers({"net": model})["net"].outputs["output"]
    found = MNN.load(param).run({"data": x})["output"]
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()


class Given(Model):
    """A model that is there already."""

    def __init__(self, param: bytes, weights: bytes, feeds: dict[str, np.ndarray]) -> None:
        super().__init__(feeds=feeds)
        self._param, self._weights = param, weights

    def text(self) -> bytes:
        return self._param

    def weights(self) -> bytes:
        return self._weights

    def outputs(self) -> list[str]:
        return ["output"]
