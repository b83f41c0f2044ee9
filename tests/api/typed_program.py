"""A program as users write them: ``mypy --strict`` finds nothing in it, and it runs."""

import sys
from importlib import resources

import numpy

import MNN
import MNN.cv as cv
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as np
from MNN import nn
from MNN.expr import NHWC, Padding_Mode, Var


def shortest(path: str, image: numpy.ndarray) -> numpy.ndarray:
    model = MNN.load(path, threads=2, precision="high")
    found: dict[str, numpy.ndarray] = model.run({"image": image})
    names: list[str] = [info.name for info in model.get_inputs()]
    print(model(image), names, MNN.version(), MNN.__version__)
    return found["probability"]


def expressions() -> Var:
    x = F.const([1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], F.NCHW)
    i: Var = F.const([1, 2], [2], F.NHWC, F.int)
    p = F.placeholder([1, 3, 8, 8], F.NC4HW4, F.float)
    w = F.const(numpy.ones((4, 3, 3, 3), numpy.float32), (4, 3, 3, 3))
    y = F.conv2d(p, w, F.const([0.0] * 4, [4]), (1, 1), (0, 0), (1, 1), 1, F.Padding_Mode.VALID)
    z = F.avg_pool(y, [2, 2], [2, 2], Padding_Mode.SAME)
    q = F.pad(x, [[0, 0], [0, 0], [1, 1], [1, 1]], F.PadValue_Mode.REFLECT)
    F.set_global_executor_config(F.CPU, F.High, 2)
    print(
        x.dtype == F.float, x.data_format == F.NCHW, F.dtype.uint8, F.data_format.NHWC, F.BILINEAR, F.MAXPOOL, F.uint8
    )
    p.write(numpy.zeros((1, 3, 8, 8), numpy.float32))
    total: Var = (x + 1) * 2 - x / 3
    shape: list[int] = total.shape
    numbers: numpy.ndarray = F.convert(z, NHWC).read()
    print(i, q, shape, numbers, -x, x > 1, x[0], F.cast(i, F.float), F.softmax(x, -1), F.concat([x, x], 0))
    return F.reshape(total, [-1])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = F.const([1.0, 2.0], [2])

    def forward(self, x: Var) -> Var:
        return x * self.weight


def modules(path: str) -> Var:
    manager = nn.create_runtime_manager(({"backend": "CPU", "numThread": 2},))
    module = nn.load_module_from_file(path, ["image"], ["probability"], runtime_manager=manager)
    out: Var = module.forward(F.const(numpy.zeros(64, numpy.float32), [1, 1, 8, 8]))
    print(module.get_info(), Net()(out[0, :2]), Net().parameters)
    return out


def arrays() -> Var:
    a = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    b = np.zeros((2, 2), dtype=np.float32) + np.ones([2, 2], np.int32)
    print(np.argmax(a), np.matmul(a, b), np.pi, np.newaxis, np.random.rand(2, 3), np.linalg.norm(a))
    return np.concatenate([a, b], 0)


def pictures(path: str) -> Var:
    image: Var = cv.imread(path)
    small = cv.resize(image, (224, 224), interpolation=cv.INTER_LINEAR)
    gray = cv.cvtColor(small, cv.COLOR_BGR2GRAY)
    return np.expand_dims(cv.blur(gray, (3, 3)).astype(np.float32), 0)


def sessions(path: str, image: numpy.ndarray) -> tuple[float, ...]:
    net = MNN.Interpreter(path)
    runtime, here = MNN.Interpreter.createRuntime(({"backend": "CPU"},))
    session = net.createSession({"numThread": 2}, runtime)
    given: MNN.Tensor = net.getSessionInput(session)
    host = MNN.Tensor(image.shape, MNN.Halide_Type_Float, image, MNN.Tensor_DimensionType_Caffe)
    given.copyFrom(host)
    net.runSession(session)
    print(here, net.getSessionOutput(session).getShape())
    return net.getSessionOutput(session).getData()


def main(picture: str) -> None:
    path = str(resources.files("MNN") / "assets" / "digits.onnx")
    image = numpy.zeros((1, 1, 8, 8), numpy.float32)
    cv.imwrite(picture, numpy.zeros((20, 30, 3), numpy.uint8))
    same = shortest(path, image)[0], modules(path).read()[0], numpy.array(sessions(path, image))
    for found in same:
        numpy.testing.assert_allclose(found, same[0], rtol=1e-5)
    assert expressions().shape == [4]
    assert arrays().shape == [4, 2]
    assert pictures(picture).shape == [1, 224, 224, 1]
    try:
        shortest(path, image[0])
    except MNN.MNNError as error:
        print(error)


if __name__ == "__main__":
    main(sys.argv[1])
