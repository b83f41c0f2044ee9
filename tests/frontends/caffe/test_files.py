"""Files of all ages and in all ways: what is read, what is left out, what is said of those that are not right."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends import Hints, kind_of, load_graph
from MNN.frontends.caffe import load, read_mean
from MNN.ops.custom import CustomOperator, TensorType, register_operator, unregister_operator
from MNN.runtime.session import Session
from MNN.runtime.storage.background import finish
from tests.frontends.caffe.build import Word, blob, caffemodel, inputs, layer, prototxt

RNG = np.random.default_rng(5)
WEIGHT, BIAS = (RNG.standard_normal(s).astype(np.float32) for s in ((4, 3, 3, 3), (4,)))
X = RNG.standard_normal((1, 3, 6, 6)).astype(np.float32)


def net(*more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A convolution, ReLU in place, and more."""
    first = [
        *inputs(data=X.shape),
        layer("Convolution", ["data"], ["conv"], [WEIGHT, BIAS], convolution_param={"num_output": 4, "kernel_size": 3}),
        layer("ReLU", ["conv"], ["conv"], name="relu"),
    ]
    return {"name": "net", **fields, "layer": [*first, *more]}


def convolved() -> np.ndarray:
    views = np.lib.stride_tricks.sliding_window_view(X.astype(np.float64), (3, 3), (2, 3))
    found: np.ndarray = np.einsum("nchwij,ocij->nohw", views, WEIGHT) + BIAS[:, None, None]
    return found


def run(path: Path | bytes, **more: Any) -> dict[str, np.ndarray]:
    found = Session(load(path, **more)).run({"data": X})
    return {name: np.asarray(a) for name, a in found.items()}


def written(folder: Path, net: dict[str, Any], text: str = "", stem: str = "net") -> Path:
    (folder / f"{stem}.caffemodel").write_bytes(caffemodel(net))
    (folder / f"{stem}.prototxt").write_text(text or prototxt(net), encoding="utf-8")
    return folder / f"{stem}.caffemodel"


# -- which files -------------------------------------------------------------------------------------------------------


def test_the_other_half_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, net())
    wanted = np.maximum(convolved(), 0)
    for given in (path, path.with_suffix(".prototxt"), caffemodel(net())):
        np.testing.assert_allclose(run(given)["conv"], wanted, atol=1e-5)
    (tmp_path / "net.prototxt").rename(tmp_path / "deploy.prototxt")
    np.testing.assert_allclose(run(path)["conv"], wanted, atol=1e-5)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(tmp_path / "deploy.prototxt", elsewhere / "a.prototxt")
    np.testing.assert_allclose(run(path, prototxt=elsewhere / "a.prototxt")["conv"], wanted, atol=1e-5)
    graph = load_graph(path, hints=Hints(prototxt=elsewhere / "a.prototxt"))
    assert str(graph.meta["description"]).endswith("a.prototxt")


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    path = written(tmp_path, net())
    assert kind_of(path) == kind_of(path.with_suffix(".prototxt")) == "caffe"
    for data in (
        caffemodel(net()),
        prototxt(net()).encode(),
        b"# comment\n\nlayers { name: 'x' }",
        caffemodel(old_net()),
    ):
        assert kind_of(data) == "caffe"


def test_the_model_runs_in_the_short_way(tmp_path: Path) -> None:
    path = written(tmp_path, net())
    found = MNN.load(path).run({"data": X})["conv"]
    np.testing.assert_allclose(found, np.maximum(convolved(), 0), atol=1e-4)


def test_what_is_stored_follows_the_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are stored for later are of both files: also when one is written again, or gone."""
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    path = written(tmp_path, net())
    text = path.with_suffix(".prototxt")

    def check(wanted: np.ndarray) -> None:
        time.sleep(0.1)  # of files that are newer no program is stored
        np.testing.assert_allclose(MNN.load(path).run({"data": X})["conv"], wanted, atol=1e-4)
        finish()

    check(np.maximum(convolved(), 0))
    text.write_text(prototxt(net()).replace('type: "ReLU"', 'type: "AbsVal"'))
    check(np.abs(convolved()))
    text.unlink()
    check(np.maximum(convolved(), 0))


def test_weights_that_are_missing_are_all_named(tmp_path: Path) -> None:
    dense = layer(
        "InnerProduct", ["conv"], ["fc"], [np.zeros((2, 64))], inner_product_param={"num_output": 2, "bias_term": False}
    )
    whole = net(dense)
    (tmp_path / "net.prototxt").write_text(prototxt(whole))
    with pytest.raises(FormatError, match=r"Convolution 'conv', InnerProduct 'fc'.*net\.caffemodel"):
        load(tmp_path / "net.prototxt")
    path = written(tmp_path, net(), prototxt(whole))
    with pytest.raises(FormatError, match=r"no weights for InnerProduct 'fc'.*belong together"):
        load(path)
    path = written(tmp_path, net(), prototxt(net()).replace("num_output: 4", "num_output: 5"))
    with pytest.raises(FormatError, match=r"Convolution 'conv'.*\[4, 3, 3, 3\].*\[5, 3, 3, 3\]"):
        load(path)


# -- which layers ------------------------------------------------------------------------------------------------------


def test_layers_of_the_test_phase_are_taken(tmp_path: Path) -> None:
    def scaled(name: str, factor: float, **rules: Any) -> dict[str, Any]:
        return layer("Power", ["conv"], ["conv"], name=name, power_param={"scale": factor}, **rules)

    more = [
        scaled("train", 100.0, include=[{"phase": Word("TRAIN")}]),
        scaled("test", 2.0, include=[{"phase": Word("TEST")}]),
        scaled("not-test", 100.0, exclude=[{"phase": Word("TEST")}]),
        scaled("level", 3.0, include=[{"min_level": 1, "max_level": 3}]),
        scaled("deep", 100.0, include=[{"min_level": 4}]),
        scaled("stage", 5.0, include=[{"stage": ["a"], "not_stage": ["c"]}, {"stage": ["z"]}]),
        scaled("no-stage", 100.0, include=[{"stage": ["a", "c"]}]),
    ]
    whole = net(*more, state={"level": 2, "stage": ["a", "b"]})
    wanted = np.maximum(convolved(), 0) * 30
    np.testing.assert_allclose(run(written(tmp_path, whole))["conv"], wanted, rtol=1e-4, atol=1e-4)
    both = net(scaled("both", 2.0, include=[{}], exclude=[{}]))
    with pytest.raises(FormatError, match="include and to exclude"):
        load(written(tmp_path, both))


def test_training_networks_end_in_probabilities(tmp_path: Path) -> None:
    """Data layers become inputs whose shape follows from crops and weights; labels and measures are left out."""
    layers = net()["layer"][1:]
    data = layer(
        "Data", [], ["data", "label"], transform_param={"crop_size": 6}, data_param={"batch_size": 1, "source": "x"}
    )
    layers += [
        layer("SoftmaxWithLoss", ["conv", "label"], ["loss"]),
        layer("Accuracy", ["conv", "label"], ["accuracy"]),
    ]
    path = written(tmp_path, {"name": "net", "layer": [data, *layers]})
    graph = load(path)
    assert [(v.name, v.shape) for v in graph.inputs] == [("data", X.shape)]
    assert [v.name for v in graph.outputs] == ["loss"]
    power = np.exp(np.maximum(convolved(), 0))
    np.testing.assert_allclose(run(path)["loss"], power / power.sum(1, keepdims=True), atol=1e-5)


def test_shapes_may_be_given(tmp_path: Path) -> None:
    text = prototxt(net()).replace("input_param", "unknown_param")
    path = written(tmp_path, net(), text)
    with pytest.raises(FormatError, match=r"--input-shape data=1x3x227x227"):
        load(path)
    np.testing.assert_allclose(run(path, inputs={"data": "1x3x6x6"})["conv"], np.maximum(convolved(), 0), atol=1e-5)
    with pytest.raises(MNNError, match="has the inputs data"):
        load(path, {"date": "1x3x6x6"})


def test_inputs_that_are_not_listed_may_be_given(tmp_path: Path) -> None:
    """Networks in caffemodels seldom list them."""
    bare = {**net(), "layer": net()["layer"][1:]}
    with pytest.raises(FormatError, match=r"reads the blob 'data'.*--input-shape data="):
        load(caffemodel(bare))
    found = run(caffemodel(bare), inputs={"data": "1x3x6x6"})["conv"]
    np.testing.assert_allclose(found, np.maximum(convolved(), 0), atol=1e-5)


# -- older forms -------------------------------------------------------------------------------------------------------


def old_net() -> dict[str, Any]:
    """V1: ``layers`` with types of an enumeration, ``input_dim``, weights with four sizes."""
    return {
        "name": "net", "input": ["data"], "input_dim": list(X.shape),
        "layers": [
            {
                "name": "conv", "type": Word("CONVOLUTION"), "bottom": ["data"], "top": ["conv"],
                "convolution_param": {"num_output": 4, "kernel_size": 3},
                "blobs": [blob(WEIGHT, True), blob(BIAS, True)],
            },
            {"name": "relu", "type": Word("RELU"), "bottom": ["conv"], "top": ["conv"]},
        ],
    }  # fmt: skip


def oldest_net() -> dict[str, Any]:
    """V0: parameters of all kinds of layers in one message, padding as a layer."""
    return {
        "name": "net", "input": ["data"], "input_dim": list(X.shape),
        "layers": [
            {"layer": {"name": "pad", "type": "padding", "pad": 1}, "bottom": ["data"], "top": ["padded"]},
            {
                "layer": {
                    "name": "conv", "type": "conv", "num_output": 4, "kernelsize": 3, "stride": 2,
                    "blobs": [blob(WEIGHT, True), blob(BIAS, True)],
                },
                "bottom": ["padded"], "top": ["conv"],
            },
            {"layer": {"name": "relu", "type": "relu"}, "bottom": ["conv"], "top": ["conv"]},
            {
                "layer": {"name": "pool", "type": "pool", "pool": Word("MAX"), "kernelsize": 2, "stride": 2},
                "bottom": ["conv"], "top": ["pool"],
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize("packed", [True, False])
def test_layers_of_the_second_form(tmp_path: Path, packed: bool) -> None:
    (tmp_path / "net.prototxt").write_text(prototxt(old_net()))
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(old_net(), packed=packed))
    np.testing.assert_allclose(run(tmp_path / "net.caffemodel")["conv"], np.maximum(convolved(), 0), atol=1e-5)
    assert run(caffemodel(old_net(), packed=packed))["conv"].shape == (1, 4, 4, 4)


def test_new_descriptions_take_old_weights(tmp_path: Path) -> None:
    path = written(tmp_path, old_net(), prototxt(net()))
    np.testing.assert_allclose(run(path)["conv"], np.maximum(convolved(), 0), atol=1e-5)


def test_layers_of_the_oldest_form(tmp_path: Path) -> None:
    padded = np.pad(X.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    conv = np.maximum(np.einsum("nchwij,ocij->nohw", views, WEIGHT) + BIAS[:, None, None], 0)
    wanted = np.stack(
        [
            conv[:, :, :2, :2].max((2, 3)),
            conv[:, :, :2, 2:].max((2, 3)),
            conv[:, :, 2:, :2].max((2, 3)),
            conv[:, :, 2:, 2:].max((2, 3)),
        ],
        -1,
    )
    for given in (written(tmp_path, oldest_net()), caffemodel(oldest_net())):
        np.testing.assert_allclose(run(given)["pool"], wanted.reshape(1, 4, 2, 2), atol=1e-5)


def test_weights_of_other_types(tmp_path: Path) -> None:
    """f64, and NVIDIA's half precision."""
    whole = net()
    conv = whole["layer"][1]
    conv["blobs"] = [
        {"shape": {"dim": list(WEIGHT.shape)}, "raw_data_type": 2, "raw_data": WEIGHT.astype("<f2").tobytes()},
        {"shape": {"dim": [4]}, "double_data": [float(b) for b in BIAS]},
    ]
    np.testing.assert_allclose(run(caffemodel(whole))["conv"], np.maximum(convolved(), 0), atol=2e-2)


# -- what is not supported, and what is the user's own -----------------------------------------------------------------


def test_everything_unsupported_is_listed(tmp_path: Path) -> None:
    more = [
        layer("Wavelet", ["conv"], ["a"], name="w1"),
        layer("Wavelet", ["a"], ["b"], name="w2"),
        layer("Pooling", ["conv"], ["c"], pooling_param={"pool": Word("STOCHASTIC"), "kernel_size": 2}),
        layer("ReLU", ["c"], ["d"], relu_param={"negative_slope": 0.1, "mystery": 3}),
    ]
    with pytest.raises(UnsupportedError) as caught:
        load(written(tmp_path, net(*more)))
    for text in ("w1, w2", "domain 'caffe'", "pool: STOCHASTIC", "relu_param.mystery"):
        assert text in str(caught.value)


class Wavelet(CustomOperator):
    """``x * gain + weights``."""

    domain = "caffe"
    attributes = {"gain": 1.0, "levels": ...}

    def infer(self, attributes: dict[str, Any], x: TensorType, weight: TensorType) -> TensorType:
        return x

    def compute(self, attributes: dict[str, Any], x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        assert attributes["levels"] == 3
        found: np.ndarray = x * np.float32(attributes["gain"]) + weight.reshape(1, -1, 1, 1)
        return found


@pytest.mark.parametrize("python", [False, True])
def test_layers_of_ones_own(tmp_path: Path, python: bool) -> None:
    shift = np.arange(4, dtype=np.float32)
    params = {"wavelet_param": {"gain": 2.0, "levels": 3}}
    if python:
        params["python_param"] = {"module": "wavelets", "layer": "Wavelet"}
    more = layer("Python" if python else "Wavelet", ["conv"], ["out"], [shift], **params)
    register_operator(Wavelet)
    try:
        found = run(written(tmp_path, net(more)))["out"]
    finally:
        unregister_operator("Wavelet", "caffe")
    np.testing.assert_allclose(found, 2 * np.maximum(convolved(), 0) + shift[:, None, None], atol=1e-4)


def test_blobs_in_place_keep_their_name_after_the_last_change(tmp_path: Path) -> None:
    graph = load(written(tmp_path, net(layer("Power", ["data"], ["data"], name="p", power_param={"scale": 2.0}))))
    assert [v.name for v in graph.inputs] == ["data"]
    assert {v.name for v in graph.outputs} == {"conv", "data/p"}


def test_fillers_make_what_is_bilinear(tmp_path: Path) -> None:
    """FCN's networks have no weights for what enlarges them."""
    up = layer("Deconvolution", ["conv"], ["up"], convolution_param={
        "num_output": 4, "group": 4, "kernel_size": 4, "stride": 2, "pad": 1, "bias_term": False,
        "weight_filler": {"type": "bilinear"},
    })  # fmt: skip
    found = run(written(tmp_path, net(up)))["up"]
    small = np.maximum(convolved(), 0)
    rows = np.pad(small, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.array([0.25, 0.75])
    line = np.stack(
        [rows[..., 1:-1] * taps[1] + rows[..., :-2] * taps[0], rows[..., 1:-1] * taps[1] + rows[..., 2:] * taps[0]], -1
    )
    line = line.reshape(*rows.shape[:3], -1)
    whole = np.stack(
        [line[:, :, 1:-1] * taps[1] + line[:, :, :-2] * taps[0], line[:, :, 1:-1] * taps[1] + line[:, :, 2:] * taps[0]],
        3,
    )
    np.testing.assert_allclose(found, whole.reshape(1, 4, 8, 8), atol=1e-5)


def test_mean_files(tmp_path: Path) -> None:
    mean = RNG.random((3, 4, 5)).astype(np.float32)
    (tmp_path / "mean.binaryproto").write_bytes(caffemodel(blob(mean, True), "BlobProto"))
    np.testing.assert_array_equal(read_mean(tmp_path / "mean.binaryproto"), mean[None])
    with pytest.raises(FormatError):
        read_mean(b"no mean file")
