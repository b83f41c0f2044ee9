"""Options of ``mnnconvert`` whose effect is in the file, for models of every format."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from MNN.cli.mnnconvert import FRAMEWORKS, app
from MNN.frontends.mnn import load
from MNN.ir.graph import Graph
from MNN.ir.quant import QuantizedArray
from MNN.schema import read_net
from tests.cli.conftest import DIGITS, run_command
from tests.frontends.caffe.build import caffemodel, prototxt
from tests.frontends.caffe.networks import NETWORKS, Builder
from tests.frontends.ncnn import build as ncnn
from tests.frontends.tflite import build as tflite
from tests.frontends.torch.peer import written

KEPT = 64
"""Numbers of a constant that keeps its digits."""
SIZES = (3, 8, 8)
"""Channels, height and width of what is made here."""
ARCHIVE = Path(__file__).parents[1] / "tensorflow" / "models.zip"


def weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def _tflite(folder: Path) -> Path:
    """A convolution without padding, of any number of samples."""
    model = tflite.Model()
    x = model.graph.input([-1, 8, 8, 3], name="x")
    operands = [x, model.graph.const(weight(8, 3, 3, 3)), model.graph.const(weight(8))]
    options = {"options": "Conv2DOptions", "padding": "VALID", "stride_w": 1, "stride_h": 1}
    model.graph.outputs = [model.graph.made("CONV_2D", operands, [-1, 6, 6, 8], **options)]
    path = folder / "net.tflite"
    path.write_bytes(model.finish())
    return path


def _ncnn(folder: Path) -> Path:
    model = ncnn.Model()
    x = model.input(np.zeros(SIZES, np.float32))
    params = {0: 8, 1: 3, 5: 1, 6: 8 * 3 * 9}
    model.one("Convolution", [x], params, [ncnn.Weight(weight(8, 3, 3, 3)), ncnn.Weight(weight(8), "plain")])
    path = folder / "net.param"
    path.write_bytes(model.text())
    path.with_suffix(".bin").write_bytes(model.weights())
    return path


def _caffe(folder: Path) -> Path:
    net = NETWORKS["squeezenet"](Builder(3)).net
    path = folder / "net.caffemodel"
    path.write_bytes(caffemodel(net))
    path.with_suffix(".prototxt").write_text(prototxt(net), encoding="utf-8")
    return path


def _unpacked(name: str) -> Callable[[Path], Path]:
    def path(folder: Path) -> Path:
        with zipfile.ZipFile(ARCHIVE) as archive:
            archive.extractall(folder, [n for n in archive.namelist() if n.startswith(name)])
        return folder / name

    return path


def _torch(name: str) -> Callable[[Path], Path]:
    return lambda folder: written("program_cases") / f"cases-{name}"


def _mnn(folder: Path) -> Path:
    path = folder / "digits.mnn"
    assert official("-f", "ONNX", "--modelFile", DIGITS, "--MNNModel", path).code == 0
    return path


def _json(folder: Path) -> Path:
    path = folder / "digits.json"
    assert official("-f", "MNN", "--modelFile", _mnn(folder), "--JsonFile", path).code == 0
    return path


@dataclass(frozen=True)
class Format:
    """``flag``: what -f is given; ``channels_first``: how it takes pictures."""

    flag: str
    make: Callable[[Path], Path]
    channels_first: bool = True


FORMATS = {
    "onnx": Format("ONNX", lambda folder: DIGITS),
    "tensorflow": Format("TF", _unpacked("images/saved_model"), False),
    "keras": Format("KERAS", _unpacked("images/model.keras"), False),
    "hdf5": Format("KERAS", _unpacked("images/model.h5"), False),
    "tflite": Format("TFLITE", _tflite, False),
    "caffe": Format("CAFFE", _caffe),
    "torchscript": Format("TORCH", _torch("convolutions-traced.pt")),
    "exported program": Format("TORCH", _torch("convolutions.pt2")),
    "mnn": Format("MNN", _mnn),
    "json": Format("JSON", _json),
    "ncnn": Format("NCNN", _ncnn, False),  # of three dimensions, without samples
}


def official(*arguments: object):
    return run_command(*arguments, application=app)


@dataclass(frozen=True)
class Source:
    """A model of some format, and how it is converted."""

    kind: Format
    path: Path
    folder: Path

    def convert(self, *options: object) -> Path:
        target = self.folder / "out.mnn"
        target.unlink(missing_ok=True)
        result = official("-f", self.kind.flag, "--modelFile", self.path, "--MNNModel", target, *options)
        assert result.code == 0, result
        return target

    def graph(self, *options: object) -> Graph:
        return load(self.convert(*options))


@pytest.fixture(params=FORMATS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    return Source(FORMATS[request.param], FORMATS[request.param].make(tmp_path), tmp_path)


def weights(graph: Graph) -> list[np.ndarray | QuantizedArray]:
    """What convolutions and products multiply by, outputs first."""
    found = []
    for node in graph.nodes:
        held = node.inputs[1] if node.op in ("Convolution", "ConvolutionDepthwise", "MatMul") else None
        if held is not None and held.data is not None:
            turned = node.op == "MatMul" and not node.attrs.get("transposeB")
            found.append(np.asarray(held.data).T if turned else held.data)
    return found


def plain(data: np.ndarray | QuantizedArray) -> np.ndarray:
    return data.dequantize() if isinstance(data, QuantizedArray) else np.asarray(data)


def test_all_formats_are_here() -> None:
    assert {f.flag for f in FORMATS.values()} == set(FRAMEWORKS)


def test_weights_in_half_precision(source: Source) -> None:
    """Every weight is the nearest half, but for small constants, which keep their digits."""
    before, after = weights(source.graph()), weights(source.graph("--fp16"))
    halved = [np.asarray(data).astype(np.float16).astype(np.float32) for data in before]
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    for given, half, found in zip(before, halved, after, strict=True):
        np.testing.assert_array_equal(found, given if given.size <= KEPT and (found == given).all() else half)


@pytest.mark.parametrize("options", [["--weightQuantAsymmetric=0"], [], ["--hqq"], ["--weightQuantBlock", "2"]])
def test_weights_of_few_bits(source: Source, options: list[str]) -> None:
    before, after = weights(source.graph()), weights(source.graph("--weightQuantBits", "4", *options))
    assert len(before) == len(after) > 0
    for data, made in zip(before, after, strict=True):
        assert isinstance(made, QuantizedArray)
        assert made.bits == 4
        assert (made.offset is None) == (options == ["--weightQuantAsymmetric=0"])
        channels = made.shape[1]
        blocks = channels // 2 if "--weightQuantBlock" in options and channels % 2 == 0 else 1
        assert made.scale.shape[1] == blocks
        away = np.abs(made.dequantize() - plain(data).reshape(made.shape)).reshape(len(made.scale), blocks, -1)
        assert (away <= made.scale[:, :, None] * (8 if options == ["--hqq"] else 0.51)).all()


def test_each_layer_has_bits_of_its_own(source: Source) -> None:
    """The file is written where it is not there, and read where it is."""
    layers = source.folder / "layers.json"
    first = source.convert("--weightQuantBits", "4", "--compressionParamsFile", layers).read_bytes()
    told = json.loads(layers.read_text(encoding="utf-8"))
    listed = told["algo"][0]["quantParams"]["layer"]
    assert source.convert("--compressionParamsFile", layers).read_bytes() == first
    listed[0]["weight"][0]["bits"] = 0
    listed[-1]["weight"][0]["asymmetric" if len(listed) > 1 else "bits"] = False if len(listed) > 1 else 3
    layers.write_text(json.dumps(told), encoding="utf-8")
    found = weights(source.graph("--compressionParamsFile", layers))
    assert len(found) == len(listed)
    if len(listed) > 1:
        assert isinstance(found[0], np.ndarray)
        assert isinstance(found[-1], QuantizedArray)
        assert found[-1].offset is None
    else:
        assert isinstance(found[0], QuantizedArray)
        assert found[0].bits == 3


def test_marks(source: Source) -> None:
    net = read_net(source.convert("--bizCode", "shop", "--authCode", "secret"))
    assert (net.bizCode, net.extraInfo.name) == ("shop", "secret")


def test_external_weights(source: Source) -> None:
    whole = source.convert()
    size, before = whole.stat().st_size, weights(load(whole))
    target = source.convert("--saveExternalData")
    assert target.stat().st_size < size
    assert target.with_name("out.mnn.weight").stat().st_size > 0
    for data, found in zip(before, weights(load(target)), strict=True):
        np.testing.assert_array_equal(plain(found), plain(data))


def test_levels(source: Source) -> None:
    """Without passes all operators of the source are there; at level 2 products are convolutions."""
    none, usual, more = (source.graph("--optimizeLevel", n) for n in (0, 1, 2))
    dumped = source.kind.flag in ("MNN", "JSON")
    assert len(none.nodes) == len(usual.nodes) if dumped else len(none.nodes) >= len(usual.nodes)
    constant = [n for n in usual.nodes if n.op == "MatMul" and n.inputs[1] is not None and n.inputs[1].is_const]
    turned = source.graph("--convertMatmulToConv", "1")
    for graph in (more, turned, source.graph("--optimizePrefer", "2")):
        count = sum(n.op == "Convolution" for n in graph.nodes) - sum(n.op == "Convolution" for n in usual.nodes)
        assert count == len(constant)


def test_shapes_are_fixed(source: Source) -> None:
    inputs = {v.name: [2 if isinstance(d, str) else d for d in v.shape or ()] for v in source.graph().inputs}
    sizes = source.folder / "sizes.txt"
    dims = ",".join("x".join(map(str, shape)) for shape in inputs.values())
    sizes.write_text(f"input_names = {','.join(inputs)}\ninput_dims = {dims}\n", encoding="utf-8")
    graph = source.graph("--saveStaticModel", "--inputConfigFile", sizes)
    assert {v.name: list(v.shape or ()) for v in graph.inputs} == inputs


def test_formats_of_inputs(source: Source) -> None:
    """Pictures with channels first are packed for the official engine; others stay."""
    found = {}
    for value in "01":
        net = read_net(source.convert(f"--keepInputFormat={value}"))
        found[value] = [str(op.main.dformat) for op in net.oplists if op.type == "Input"]
    assert "NC4HW4" not in found["1"]
    assert ("NC4HW4" in found["0"]) == source.kind.channels_first
