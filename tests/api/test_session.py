"""The way of Interpreter, Session and Tensor."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import MNN
from MNN.errors import MNNError, ShapeError
from tests.api.models import classifier, two_in_two_out, write


@pytest.fixture(params=["onnx", "mnn"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return write(classifier(), tmp_path, request.param)


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((1, 3, 224, 224)).astype(np.float32)


def truth(folder: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(str(folder / "model.onnx")).run(None, feeds)


def test_flow(model: str, image: np.ndarray, tmp_path: Path) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession({"numThread": 2, "precision": "high", "backend": "CPU"})
    given = net.getSessionInput(session)
    assert given.getShape() == (1, 3, 224, 224)
    assert given.getDataType() is MNN.Halide_Type_Float
    assert given.getDimensionType() == MNN.Tensor_DimensionType_Caffe
    result = net.getSessionOutput(session)
    assert result.getShape() == (1, 7), "sizes are known before the first run"
    host = MNN.Tensor((1, 3, 224, 224), MNN.Halide_Type_Float, image, MNN.Tensor_DimensionType_Caffe)
    assert given.copyFrom(host)
    assert net.runSession(session) == 0
    wanted = truth(tmp_path, {"data": image})[0]
    np.testing.assert_allclose(result.getNumpyData(), wanted, rtol=1e-4, atol=1e-6)
    copy = MNN.Tensor((1, 7), MNN.Halide_Type_Float, (0.0,) * 7, MNN.Tensor_DimensionType_Caffe)
    assert result.copyToHostTensor(copy)
    assert copy.getData() == result.getData()
    assert set(net.getSessionInputAll(session)) == {"data"}
    assert net.getSessionOutputAll(session)["prob"] is result


@pytest.mark.parametrize("callbacks", [False, True])
def test_outputs_are_there_when_nothing_was_planned_before(tmp_path: Path, callbacks: bool) -> None:
    """Of models with open sizes, which are planned by the first run; and after another size without a resize."""
    net = MNN.Interpreter(write(two_in_two_out(), tmp_path, "onnx"))
    session = net.createSession()
    for rows in (1, 3):
        for name in ("a", "b"):
            tensor = net.getSessionInput(session, name)
            net.resizeTensor(tensor, (rows, 4))
            tensor.fromNumpy(np.full((rows, 4), rows, np.float32))
        if callbacks:
            assert net.runSessionWithCallBack(session, lambda *_: True, lambda *_: True) == 0
        else:
            net.runSession(session)
        assert net.getSessionOutput(session, "sum").getNumpyData().tolist() == [[2.0 * rows] * 4] * rows


def test_channels_last_host_tensor(model: str, image: np.ndarray, tmp_path: Path) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession()
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    host = MNN.Tensor((1, 224, 224, 3), MNN.Halide_Type_Float, last, MNN.Tensor_DimensionType_Tensorflow)
    net.getSessionInput(session, "data").copyFrom(host)
    net.runSession(session)
    found = net.getSessionOutput(session, "prob").getNumpyData()
    np.testing.assert_allclose(found, truth(tmp_path, {"data": image})[0], rtol=1e-4, atol=1e-6)
    back = MNN.Tensor(net.getSessionInput(session), MNN.Tensor_DimensionType_Tensorflow)
    assert back.getShape() == (1, 224, 224, 3)
    net.getSessionInput(session).copyToHostTensor(back)
    np.testing.assert_array_equal(back.getNumpyData(), last)


def test_resize(model: str) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession()
    given = net.getSessionInput(session)
    for shape in ((2, 3, 224, 224), (1, 3, 96, 64), (1, 3, 224, 224)):
        net.resizeTensor(given, shape)
        net.resizeSession(session)
        assert given.getShape() == shape
        assert net.getSessionOutput(session).getShape() == (shape[0], 7)
        net.runSession(session)
        assert abs(sum(net.getSessionOutput(session).getData()) - shape[0]) < 1e-4
    net.resizeTensor(given, (1, 4, 224, 224))
    with pytest.raises(ShapeError, match="1, 4, 224, 224"):
        net.resizeSession(session)
    net.resizeTensor(given, (1, 3, 64, 64))
    net.resizeSession(session)
    assert net.runSession(session) == 0, "a session recovers from a shape that did not fit"


def test_open_sizes_and_several_inputs(tmp_path: Path) -> None:
    net = MNN.Interpreter(write(two_in_two_out(), tmp_path, "onnx"))
    session = net.createSession()
    assert net.getSessionInput(session, "a").getShape() == (1, 4)
    feeds = {"a": np.float32([[1, 2, 3, 4]] * 3), "b": np.float32([[9, 0, 0, 0], [0, 9, 0, 0], [0, 0, 9, 0]])}
    for name, array in feeds.items():
        tensor = net.getSessionInput(session, name)
        net.resizeTensor(tensor, array.shape)
        tensor.fromNumpy(array)
    net.getSessionInput(session, "k").fromNumpy(np.array([5]))
    net.resizeSession(session)
    net.runSession(session)
    assert net.getSessionOutput(session, "best").getData() == (5, 6, 7)
    assert net.getSessionOutput(session, "best").getDataType() is MNN.Halide_Type_Int64
    np.testing.assert_array_equal(net.getSessionOutput(session, "sum").getNumpyData(), feeds["a"] + feeds["b"])


def test_tensors_between(model: str, image: np.ndarray) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession({"saveTensors": ("r1",)})
    net.getSessionInput(session).fromNumpy(image)
    net.runSession(session)
    kept = net.getSessionOutput(session, "r1").getNumpyData()
    fetched = MNN.load(model).run({"data": image}, fetch=["r1"])["r1"]
    np.testing.assert_allclose(kept, fetched, rtol=1e-5)
    only = net.createSession({"outputPaths": ("r1",)})
    assert set(net.getSessionOutputAll(only)) == {"r1"}


def test_callbacks(model: str, image: np.ndarray) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession()
    net.getSessionInput(session).fromNumpy(image)
    net.runSession(session)
    plain = net.getSessionOutput(session).getNumpyData().copy()
    seen: list[tuple[str, str, tuple[int, ...]]] = []

    def before(tensors: list[MNN.Tensor], name: str) -> bool:
        seen.append(("before", name, tensors[0].getShape()))
        return True

    def after(tensors: list[MNN.Tensor], name: str) -> bool:
        seen.append(("after", name, tensors[0].getShape()))
        return True

    assert net.runSessionWithCallBack(session, before, after) == 0
    np.testing.assert_allclose(net.getSessionOutput(session).getNumpyData(), plain, rtol=1e-5, atol=1e-7)
    assert seen[0][0] == "before"
    assert seen[0][2] == (1, 3, 224, 224)
    assert seen[-1][2] == (1, 7)
    assert [w for w, *_ in seen] == ["before", "after"] * (len(seen) // 2)

    infos: list[MNN.OpInfo] = []
    net.runSessionWithCallBackInfo(session, lambda t, i: not infos.append(i), lambda t, i: True)
    assert {i.getType() for i in infos} >= {"Convolution", "Softmax"}
    first = next(i for i in infos if i.getType() == "Convolution")
    assert first.getFlops() == pytest.approx(2 * 8 * 28 * 28 * 3 * 49 / 1e6, rel=0.05)


def test_callbacks_leave_out_stop_and_change(model: str, image: np.ndarray) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession()
    net.getSessionInput(session).fromNumpy(image)
    order: list[str] = []

    def record(tensors: list[MNN.Tensor], info: MNN.OpInfo) -> bool:
        order.append(info.getType())
        return True

    assert net.runSessionWithCallBackInfo(session, lambda t, i: i.getType() != "Softmax", record) == 0
    assert not np.any(net.getSessionOutput(session).getNumpyData()), "an operator left out gives zeros"
    assert order[-1] == "Softmax"
    count = len(order)
    order.clear()
    stop = net.runSessionWithCallBackInfo(
        session, lambda t, i: True, lambda t, i: record(t, i) and i.getType() != "Convolution"
    )
    assert stop == 4
    assert len(order) < count

    def zero(tensors: list[MNN.Tensor], info: MNN.OpInfo) -> bool:
        tensors[0].getNumpyData()[...] = 0
        return True

    net.runSessionWithCallBackInfo(session, lambda t, i: True, zero)
    assert not np.any(net.getSessionOutput(session).getNumpyData())

    def fail(tensors: list[MNN.Tensor], info: MNN.OpInfo) -> bool:
        raise RuntimeError("in a callback")

    with pytest.raises(RuntimeError, match="in a callback"):
        net.runSessionWithCallBackInfo(session, fail, zero)
    assert net.runSession(session) == 0


def test_information(model: str) -> None:
    net = MNN.Interpreter(model)
    session = net.createSession({"numThread": 2})
    memory, flops = net.getSessionInfo(session, 0), net.getSessionInfo(session, 1)
    assert 0 < memory < 10
    multiplications = 8 * 28 * 28 * 3 * 49 + 16 * 14 * 14 * 8 * 9
    assert flops == pytest.approx(2 * multiplications / 1e6, rel=0.1)
    assert [net.getSessionInfo(session, code) for code in (2, 3, 4)] == [0, 0, 2]
    with pytest.raises(MNNError):
        net.getSessionInfo(session, 9)
    net.setCacheFile("unused")
    assert net.updateCacheFile(session, 0) == 0


def test_settings_that_do_not_exist(model: str, tmp_path: Path) -> None:
    net = MNN.Interpreter(model)
    with pytest.raises(MNNError, match="precision"):
        net.createSession({"precision": "best"})
    with pytest.raises(MNNError, match="backend"):
        net.createSession({"backend": "ABACUS"})
    with pytest.warns(UserWarning, match="runs on the CPU"):
        net.createSession({"backend": "CUDA"})
    with pytest.raises(MNNError, match="dictionary"):
        net.createSession(5)  # type: ignore[arg-type]
    session = net.createSession()
    with pytest.raises(MNNError, match="no output 'nope'; it has prob"):
        net.getSessionOutput(session, "nope")
    with pytest.raises(MNNError):
        MNN.Interpreter(str(tmp_path / "absent.mnn"))
    broken = tmp_path / "broken.mnn"
    broken.write_bytes(b"no model at all")
    with pytest.raises(MNNError):
        MNN.Interpreter(str(broken))


def test_tensors() -> None:
    t = MNN.Tensor((2, 2), MNN.Halide_Type_Int, (1, 2, 3, 4), MNN.Tensor_DimensionType_Caffe)
    assert t.getData() == (1, 2, 3, 4)
    assert t.getNumpyData().dtype == np.int32
    t.getNumpyData()[0, 0] = 9
    assert t.getData()[0] == 9, "the array shares memory"
    assert MNN.Tensor((2, 3), MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Caffe).getData() == (0.0,) * 6
    raw = np.arange(4, dtype=np.uint8).tobytes()
    assert MNN.Tensor((4,), MNN.Halide_Type_Uint8, raw, 1).getData() == (0, 1, 2, 3)
    var = MNN.expr.const([1.0, 2.0], [2], MNN.expr.NHWC)
    assert MNN.Tensor(var).getDimensionType() == MNN.Tensor_DimensionType_Tensorflow
    with pytest.raises(ShapeError, match="3 numbers"):
        MNN.Tensor((2, 2), MNN.Halide_Type_Int, (1, 2, 3), MNN.Tensor_DimensionType_Caffe)
    with pytest.raises(ShapeError, match="does not fit"):
        t.copyFrom(MNN.Tensor((3, 2), MNN.Halide_Type_Int, 1))
    with pytest.raises(ShapeError):
        t.fromNumpy(np.zeros(5))
    with pytest.raises(TypeError):
        MNN.Tensor((2, 2), MNN.Halide_Type_Int)
    with pytest.raises(MNNError, match="dimension type"):
        MNN.Tensor((2, 2), MNN.Halide_Type_Int, 7)


def test_runtimes_are_made_without_an_interpreter(model: str, image: np.ndarray) -> None:
    runtime, here = MNN.Interpreter.createRuntime(({"backend": "CPU", "numThread": 2}, {"backend": "CUDA"}))
    assert here == (True, False)
    net = MNN.Interpreter(model)
    session = net.createSession({}, runtime)
    assert net.getSessionInfo(session, 4) == 2
    assert net.createRuntime([{"backend": 0}])[1] == (True,)
    assert MNN.Interpreter.createRuntime(())[1] == ()
    with pytest.raises(MNNError, match="a sequence of dictionaries"):
        MNN.Interpreter.createRuntime({"backend": "CPU"})
    with pytest.raises(MNNError, match=r"runtime comes from createRuntime\(\)"):
        net.createSession({}, 3)


def test_the_api_costs_little(tmp_path: Path) -> None:
    net = MNN.Interpreter(write(two_in_two_out(), tmp_path, "onnx"))
    session = net.createSession()
    net.runSession(session)
    native = session.plan.bound.native

    def best(run: object) -> float:
        times = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(50):
                run()  # type: ignore[operator]
            times.append((time.perf_counter() - start) / 50)
        return min(times)

    assert best(lambda: net.runSession(session)) - best(lambda: native.run(1)) < 2e-4


def test_the_model_of_a_session_is_written(tmp_path: Path, image: np.ndarray) -> None:
    path = write(classifier(), tmp_path, "mnn")
    net = MNN.Interpreter(path)
    session = net.createSession()
    net.updateSessionToModel(session)
    net.updateSessionToModel(session, str(tmp_path / "copy.mnn"))
    assert (tmp_path / "copy.mnn").read_bytes() == Path(path).read_bytes()
    other = MNN.Interpreter(write(classifier(), tmp_path, "onnx"))
    with pytest.raises(MNNError, match="convert"):
        other.updateSessionToModel(other.createSession(), str(tmp_path / "other.mnn"))
    with pytest.raises(MNNError, match="session"):
        net.updateSessionToModel(path)  # type: ignore[arg-type]
    assert not (tmp_path / "other.mnn").exists()


def test_what_no_session_is_and_interpreters_in_other_processes(model: str, image: np.ndarray) -> None:
    interpreter = MNN.Interpreter(model)
    session = interpreter.createSession()
    for call in (
        interpreter.runSession, interpreter.resizeSession, interpreter.getSessionInput, interpreter.getSessionInputAll,
        interpreter.getSessionOutput, interpreter.getSessionOutputAll, interpreter.updateSessionToModel,
    ):  # fmt: skip
        with pytest.raises(MNNError, match="comes from createSession"):
            call(None)  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="takes a tensor"):
        interpreter.resizeTensor(None, (1,))  # type: ignore[arg-type]
    for shape in ("abc", None, (1, None)):
        with pytest.raises(MNNError, match="whole numbers"):
            interpreter.resizeTensor(interpreter.getSessionInput(session), shape)  # type: ignore[arg-type]
        with pytest.raises(MNNError, match="whole numbers"):
            MNN.Tensor(shape, MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Caffe)
    with pytest.raises(MNNError, match="Tensor takes"):
        MNN.Tensor("x", 1, 2, 3)
    with pytest.raises(MNNError, match="cannot be pickled"):
        pickle.dumps(session)
    found = []
    for own in (interpreter, pickle.loads(pickle.dumps(interpreter))):
        session = own.createSession()
        tensor = own.getSessionInput(session)
        tensor.copyFrom(MNN.Tensor(tensor.getShape(), MNN.Halide_Type_Float, image, tensor.getDimensionType()))
        own.runSession(session)
        found.append(own.getSessionOutput(session).getNumpyData())
    np.testing.assert_array_equal(*found)
