"""Modules from files: layouts, pictures, cut points, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import MNN
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN.errors import MNNError, ShapeError
from tests.api.models import classifier, two_in_two_out, write


@pytest.fixture(params=["onnx", "mnn"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return write(classifier(), tmp_path, request.param)


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((1, 3, 224, 224)).astype(np.float32)


def truth(folder: Path, image: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(str(folder / "model.onnx")).run(None, {"data": image})[0]


def test_every_layout_gives_the_same(model: str, image: np.ndarray, tmp_path: Path) -> None:
    net = MNN.nn.load_module_from_file(model, [], [])
    wanted = truth(tmp_path, image)
    nchw = F.const(image, list(image.shape), F.NCHW)
    nhwc = F.const(image.transpose(0, 2, 3, 1), [1, 224, 224, 3], F.NHWC)
    picture = F.const(image[0].transpose(1, 2, 0), [224, 224, 3], F.NHWC)
    planes = F.const(image[0], [3, 224, 224], F.NCHW)
    for var in (
        nchw, F.convert(nchw, F.NC4HW4), nhwc, F.convert(nhwc, F.NC4HW4), F.convert(nhwc, F.NCHW), picture,
        F.convert(picture, F.NC4HW4), F.convert(F.convert(picture, F.NCHW), F.NC4HW4), planes,
        F.convert(planes, F.NC4HW4), F.convert(planes, F.NHWC), image,
    ):  # fmt: skip
        found = net.forward(var)
        assert found.shape == [1, 7]
        assert found.data_format is F.NCHW
        np.testing.assert_allclose(found.read(), wanted, rtol=1e-4, atol=1e-6)


def test_one_var_or_a_list(model: str, image: np.ndarray) -> None:
    net = MNN.nn.load_module_from_file(model, ["data"], ["prob", "logits"])
    var = F.const(image, [1, 3, 224, 224])
    assert isinstance(net.forward(var), F.Var)
    for call in (net, net.forward, net.onForward):
        prob, logits = call([var])
        power = np.exp(logits.read() - logits.read().max())
        np.testing.assert_allclose(prob.read(), power / power.sum(), rtol=1e-4)


def test_a_part_of_a_model(model: str, image: np.ndarray, tmp_path: Path) -> None:
    first = MNN.nn.load_module_from_file(model, ["data"], ["r1"])
    second = MNN.nn.load_module_from_file(model, ["r1"], ["prob"])
    np.testing.assert_allclose(second(first(F.const(image, image.shape))).read(), truth(tmp_path, image), rtol=1e-4)
    with pytest.raises(MNNError, match="need the model's input 'data'"):
        MNN.nn.load_module_from_file(model, ["r2"], ["r1"])


def test_other_sizes_than_declared(model: str, tmp_path: Path) -> None:
    net = MNN.nn.load_module_from_file(model, [], [])
    assert net.forward(F.fill([1, 3, 64, 96], 0.5)).shape == [1, 7]
    assert net.forward(F.fill([2, 3, 224, 224], 0.5)).shape == [2, 7]


@pytest.mark.parametrize("shape", [[224, 224], [1, 1, 3, 224, 224], [1, 224, 224, 3], [224, 224, 3], []])
def test_shapes_that_cannot_match(model: str, shape: list[int]) -> None:
    net = MNN.nn.load_module_from_file(model, [], [])
    with pytest.raises(ShapeError) as error:
        net.forward(F.fill(shape, 0.5))
    assert "data" in str(error.value)


def test_misuse(model: str, image: np.ndarray, tmp_path: Path) -> None:
    net = MNN.nn.load_module_from_file(model, [], [])
    var = F.const(image, image.shape)
    with pytest.raises(ShapeError, match="2 input"):
        net.forward([var, var])
    with pytest.raises(ShapeError, match="takes f32"):
        net.forward(var.astype(F.int))
    with pytest.raises(MNNError, match="no tensor 'nope' to be an output; its outputs are prob"):
        MNN.nn.load_module_from_file(model, ["data"], ["nope"])
    with pytest.raises(MNNError, match=r"no such file|cannot"):
        MNN.nn.load_module_from_file(str(tmp_path / "absent.mnn"), [], [])
    with pytest.raises(TypeError, match="colour"):
        MNN.nn.load_module_from_file(model, [], [], colour="red")


def test_integers_of_any_width(tmp_path: Path) -> None:
    net = MNN.nn.load_module_from_file(write(two_in_two_out(), tmp_path, "onnx"), [], [])
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4), np.float32([[9, 0, 0, 0], [0, 9, 0, 0]])
    total, best = net([F.const(a, [2, 4]), F.const(b, [2, 4]), F.const([10], [1], F.NCHW, F.int)])
    np.testing.assert_array_equal(total.read(), a + b)
    assert best.dtype is F.int64
    assert best.read().tolist() == [10, 11]


def test_info_and_names(model: str) -> None:
    net = MNN.nn.load_module_from_file(model, [], [])
    info = net.get_info()
    assert (info["inputNames"], info["outputNames"]) == (["data"], ["prob"])
    assert info["inputs"][0]["shape"] == [1, 3, 224, 224]
    net.set_name("net")
    assert net.name == "net"
    net.train(False)
    assert not net.is_training


def test_runtime_manager(model: str, image: np.ndarray) -> None:
    manager = MNN.nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 2},))
    net = MNN.nn.load_module_from_file(model, [], [], runtime_manager=manager)
    plain = MNN.nn.load_module_from_file(model, [], [], thread_num=2, precision_mode=F.PrecisionMode.High)
    var = F.const(image, image.shape)
    np.testing.assert_array_equal(net(var).read(), plain(var).read())
    with pytest.raises(MNNError, match="precision"):
        MNN.nn.create_runtime_manager({"precision": "best"})
    with pytest.raises(MNNError, match="numThread"):
        MNN.nn.create_runtime_manager({"numThread": "two"})
    with pytest.warns(UserWarning, match="no backend OPENCL"):
        MNN.nn.create_runtime_manager({"backend": "OPENCL"})


def test_clones_of_modules_in_python() -> None:
    """Parameters of their own, found wherever the module keeps them; one that two modules share stays shared."""

    class Block(MNN.nn.Module):
        def __init__(self, shared: MNN.nn.Module) -> None:
            super().__init__()
            self.conv = MNN.nn.conv(3, 4, [3, 3])
            self.norm = MNN.nn.batch_norm(4)
            self.shared = shared
            self._layers = [self.conv, self.norm]

        def forward(self, x: F.Var) -> F.Var:
            for layer in self._layers:
                x = layer(x)
            return F.reduce_mean(x) + self.shared.bias

    class Net(MNN.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            linear = MNN.nn.linear(2, 1)
            self.one, self.two = Block(linear), Block(linear)

        def forward(self, x: F.Var) -> F.Var:
            return self.one(x) + self.two(x)

    net = Net()
    net.train(False)
    x = F.const(np.random.default_rng(3).random((1, 3, 6, 6), np.float32), [1, 3, 6, 6])
    before = net(x).read()
    own, same = net.clone(), net.clone(share=True)
    assert isinstance(own, Net)
    np.testing.assert_array_equal(own(x).read(), before)
    assert [p.name for p in own.parameters] == [p.name for p in net.parameters]
    assert own.one.shared.bias is own.two.shared.bias
    own.one.conv.weight.write(np.zeros(own.one.conv.weight.size))
    own.two.shared.bias.write([50.0])
    assert own(x).read().min() > 90
    np.testing.assert_array_equal(net(x).read(), before)
    same.two.shared.bias.write([50.0])
    assert net(x).read().min() > 90
    with pytest.raises(MNNError, match="load_module_from_file"):
        net.get_info()


def test_modules_in_python() -> None:
    class Inner(MNN.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = F.const([2.0, 3.0], [2])

        def forward(self, x: F.Var) -> F.Var:
            return x * self.weight

    class Outer(MNN.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()
            self.bias = F.const([1.0], [1])

        def forward(self, x: F.Var) -> F.Var:
            return self.inner(x) + self.bias

    net = Outer()
    assert [p.name for p in net.parameters] == ["bias", "weight"]
    y = net(F.const([1.0, 1.0], [2]))
    assert y.read().tolist() == [3.0, 4.0]
    assert net.load_parameters([F.const([0.0], [1]), F.const([1.0, 1.0], [2])])
    assert y.read().tolist() == [1.0, 1.0], "what was computed follows its parameters"
    assert not net.load_parameters([F.const([0.0], [1])])


def test_what_is_deleted_or_replaced_is_no_parameter() -> None:
    class Net(MNN.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = F.const([1.0], [1])
            self.head = MNN.nn.linear(2, 2)
            self.norm = MNN.nn.batch_norm(2, 2)
            self.count = self.register_statistic(np.zeros(1, np.float32))

    net = Net()
    del net.scale, net.head, net.count
    assert all(name.startswith("norm.") for name in net.named_parameters())
    assert not hasattr(net, "head")
    with pytest.raises(AttributeError):
        del net.head
    net = Net()
    net.norm = net.scale = net.head = net.count = None  # type: ignore[assignment]
    assert not net.parameters
    assert not net.statistics
