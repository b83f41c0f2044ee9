"""One picture through one network in all the ways that PyMNN's programs take: sessions, modules, expressions, pictures
read with ``MNN.cv`` or sampled into a session's tensor, parts of a network, several inputs, saved parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
import MNN.cv as cv
import MNN.numpy as mp

F, nn = MNN.expr, MNN.nn
SIDE, CLASSES = 32, 11
MEANS, SCALES = (103.94, 116.78, 123.68), (0.017, 0.017, 0.017)
INPUT, FEATURES, OUTPUT = "input", "features", "shares"


class Given:
    """A network's file, a picture's file, and the shares of classes that numpy's preprocessing and :func:`MNN.load`
    find."""

    def __init__(self, folder: Path, seed: int) -> None:
        nn.seed(seed)
        random = np.random.default_rng(seed)
        x = F.placeholder([1, 3, SIDE, SIDE], F.NCHW)
        x.name = INPUT
        y = F.relu(nn.conv(3, 8, [3, 3], stride=[2, 2], padding=[1, 1])(F.convert(x, F.NC4HW4)))
        y = F.avg_pool(y, [16, 16], [16, 16])
        y = F.reshape(F.convert(y, F.NCHW), [1, 8])
        y.name = FEATURES
        y = F.softmax(nn.linear(8, CLASSES)(y), 1)
        y.name = OUTPUT
        self.model = str(folder / "net.mnn")
        F.save([y], self.model)
        height, width = (int(n) for n in random.integers(40, 90, 2))
        pixels = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3)).repeat(8, 0).repeat(8, 1)
        self.picture = str(folder / "picture.png")
        cv.imwrite(self.picture, pixels[:height, :width].astype(np.uint8))
        self.pixels = np.array(cv.imread(self.picture))
        small = np.array(cv.resize(self.pixels[..., ::-1].copy(), (SIDE, SIDE)))
        self.image = ((small - MEANS) * SCALES).astype(np.float32)
        self.shares = MNN.load(self.model).run({INPUT: self.image.transpose(2, 0, 1)[None]})[OUTPUT].ravel()


@pytest.fixture(scope="module", params=[3, 8])
def given(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Given:
    return Given(tmp_path_factory.mktemp("ways"), request.param)


def _host(image: Any) -> MNN.Tensor:
    planes = image.transpose((2, 0, 1))
    return MNN.Tensor((1, 3, SIDE, SIDE), MNN.Halide_Type_Float, planes, MNN.Tensor_DimensionType_Caffe)


def _ended(net: MNN.Interpreter, session: Any) -> Any:
    net.runSession(session)
    output = net.getSessionOutput(session)
    ones = np.ones(output.getShape(), np.float32)
    copy = MNN.Tensor(output.getShape(), MNN.Halide_Type_Float, ones, MNN.Tensor_DimensionType_Caffe)
    output.copyToHostTensor(copy)
    return copy.getData()


def _session(g: Given, backend: str = "CPU") -> Any:
    net = MNN.Interpreter(g.model)
    net.setCacheFile(".cache")
    net.setSessionMode(9)
    net.setSessionHint(0, 20)
    fallback = pytest.warns(UserWarning, match="CPU") if backend != "CPU" else contextlib.nullcontext()
    with fallback:
        session = net.createSession({"backend": backend, "precision": "high"})
    assert net.getSessionInfo(session, 2) == 0
    tensor = net.getSessionInput(session)
    net.resizeTensor(tensor, (1, 3, SIDE, SIDE))
    net.resizeSession(session)
    tensor.copyFrom(_host(g.image))
    found = _ended(net, session)
    net.updateCacheFile(session, 0)
    return found


def _shared_runtime(g: Given) -> Any:
    net = MNN.Interpreter(g.model)
    runtime, exists = MNN.Interpreter.createRuntime(({"precision": "high"}, {"precision": "low"}))
    assert exists == (True, True)
    session = net.createSession({"precision": "high"}, runtime)
    assert net.getSessionInfo(session, 0) > 0
    assert net.getSessionInfo(session, 1) > 0
    net.getSessionInput(session).copyFrom(_host(g.image))
    return _ended(net, session)


def _parts(g: Given) -> Any:
    """The network in two sessions, one behind the other."""
    net = MNN.Interpreter(g.model)
    first = net.createSession({"precision": "high", "outputPaths": (FEATURES,)})
    net.getSessionInput(first).copyFrom(_host(g.image))
    features = np.array(_ended(net, first), np.float32).reshape(1, -1)
    second = net.createSession({"precision": "high", "inputPaths": (FEATURES,), "outputPaths": (OUTPUT,)})
    tensor = net.getSessionInput(second)
    tensor.copyFrom(MNN.Tensor(features.shape, MNN.Halide_Type_Float, features, MNN.Tensor_DimensionType_Caffe))
    return _ended(net, second)


def _sampled(g: Given) -> Any:
    """The picture's bytes are sampled, converted and scaled into the session's own tensor."""
    net = MNN.Interpreter(g.model)
    session = net.createSession({"precision": "high"})
    process = MNN.CVImageProcess({
        "filterType": MNN.CV_Filter_BILINEAL, "sourceFormat": MNN.CV_ImageFormat_BGR, "wrap": MNN.CV_Wrap_CLAMP_TO_EDGE,
        "destFormat": MNN.CV_ImageFormat_RGB, "mean": (*MEANS, 0.0), "normal": (*SCALES, 1.0),
    })  # fmt: skip
    height, width = g.pixels.shape[:2]
    matrix = MNN.CVMatrix()
    matrix.setScale(width / SIDE, height / SIDE)
    matrix.preTranslate(0.5, 0.5)
    matrix.postTranslate(-0.5, -0.5)
    process.setMatrix(matrix)
    tensor = net.getSessionInput(session)
    data = np.ascontiguousarray(g.pixels)
    assert process.convert(data.ctypes.data, width, height, 0, tensor) == 0
    assert np.abs(np.asarray(tensor.getNumpyData())[0].transpose(1, 2, 0) - g.image).max() <= 1.01 * SCALES[0]
    return _ended(net, session)


def _module(g: Given) -> Any:
    """With nothing but ``MNN``: arrays and pictures are Vars."""
    net = nn.load_module_from_file(g.model, [], [])
    image = cv.resize(cv.imread(g.picture)[..., ::-1], (SIDE, SIDE))
    image = ((image - MEANS) * SCALES).astype(mp.float32)
    output = net.forward(F.convert(mp.expand_dims(image, [0]), F.NC4HW4))
    output = F.convert(output, F.NHWC)
    assert mp.argmax(output) == np.argmax(g.shares)
    return output.read()


def _managed(g: Given) -> Any:
    manager = nn.create_runtime_manager(({"precision": "high", "backend": "CPU", "numThread": 2},))
    manager.set_cache(".cache")
    manager.set_mode(9)
    manager.set_hint(0, 20)
    net = nn.load_module_from_file(g.model, [INPUT], [OUTPUT], runtime_manager=manager)
    var = F.placeholder([1, SIDE, SIDE, 3], F.NHWC)
    var.write(g.image)
    found = net.forward([F.convert(var, F.NC4HW4)])[0]
    manager.update_cache()
    return F.convert(found, F.NHWC).read()


def _expression(g: Given) -> Any:
    variables = F.load_as_dict(g.model)
    variables[INPUT].write(g.image.transpose(2, 0, 1)[None].copy())
    first = np.array(variables[OUTPUT].read())
    inputs, outputs = F.get_inputs_and_outputs(variables)
    inputs[INPUT].write(np.zeros((1, 3, SIDE, SIDE), np.float32))
    assert np.abs(outputs[OUTPUT].read() - first).max() > 1e-4
    return first


WAYS: dict[str, Callable[[Given], Any]] = {
    "session": _session, "session on a GPU": lambda g: _session(g, "OPENCL"), "shared runtime": _shared_runtime,
    "paths": _parts, "sampled into the tensor": _sampled, "module": _module, "runtime manager": _managed,
    "expression": _expression,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same(way: str, given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = np.array(WAYS[way](given), np.float32).ravel()
    assert np.ptp(given.shares) > 0.01  # classes that are told apart
    np.testing.assert_allclose(found, given.shares, rtol=2e-2 if "sampled" in way else 1e-3, atol=1e-5)


def test_several_inputs(tmp_path: Path) -> None:
    x, y = F.placeholder([2, 3], F.NCHW), F.placeholder([3, 4], F.NCHW)
    x.name, y.name = "x", "y"
    product, total = F.matmul(x, y), F.reduce_sum(x, [1])
    product.name, total.name = "product", "total"
    path = str(tmp_path / "two.mnn")
    F.save([product, total], path)
    random = np.random.default_rng(0)
    one, two = (random.normal(size=s).astype(np.float32) for s in ((2, 3), (3, 4)))
    net = MNN.Interpreter(path)
    session = net.createSession()
    for name, tensor in net.getSessionInputAll(session).items():
        array = {"x": one, "y": two}[name]
        tensor.copyFrom(MNN.Tensor(array.shape, MNN.Halide_Type_Float, array, MNN.Tensor_DimensionType_Caffe))
    net.runSession(session)
    found = {name: np.array(t.getNumpyData()) for name, t in net.getSessionOutputAll(session).items()}
    module = nn.load_module_from_file(path, ["y", "x"], ["total", "product"])
    other = module.forward([F.const(a, list(a.shape), F.NCHW) for a in (two, one)])
    for product_, total_ in ((found["product"], found["total"]), (other[1].read(), other[0].read())):
        np.testing.assert_allclose(product_, one @ two, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total_, one.sum(1), rtol=1e-4, atol=1e-5)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.conv(1, 4, [3, 3])
        self.fc = nn.linear(16, 3)
        self.step, self.rate = F.const([10], [], F.NCHW, F.int), F.const([0.0004], [], F.NCHW, F.float)

    def forward(self, x: Any) -> Any:
        x = F.max_pool(F.relu(self.conv(x)), [2, 2], [2, 2])
        return F.softmax(self.fc(F.reshape(F.convert(x, F.NCHW), [0, -1])), 1)


def test_parameters_come_back(tmp_path: Path) -> None:
    one, two = _Net(), _Net()
    one.step.write([25])
    x = F.const(np.random.default_rng(1).normal(size=(2, 1, 6, 6)).astype(np.float32), [2, 1, 6, 6], F.NCHW)
    assert np.abs(one(x).read() - two(x).read()).max() > 1e-3
    F.save(one.parameters, str(tmp_path / "net.snapshot"))
    two.load_parameters(F.load_as_list(str(tmp_path / "net.snapshot")))
    np.testing.assert_array_equal(one(x).read(), two(x).read())
    assert int(two.step.read()) == 25
    assert float(two.rate.read()) == pytest.approx(0.0004)
