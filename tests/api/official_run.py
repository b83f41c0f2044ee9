"""Runs a model in PyMNN's Session and Module API on seeded inputs; needs only that engine and numpy.

official_run.py MODEL.mnn INPUT.npy RESULT.npz
"""

from __future__ import annotations

import sys

import numpy as np

import MNN
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it


def main(model: str, given: str, result: str) -> None:
    image = np.load(given)
    found = {}
    net = MNN.Interpreter(model)
    session = net.createSession()
    tensor = net.getSessionInput(session)
    net.resizeTensor(tensor, image.shape)
    net.resizeSession(session)
    tensor.copyFrom(MNN.Tensor(image.shape, MNN.Halide_Type_Float, image, MNN.Tensor_DimensionType_Caffe))
    net.runSession(session)
    out = net.getSessionOutput(session)
    found["session"] = np.array(out.getData(), np.float32).reshape(out.getShape())
    found["orders"] = np.array([tensor.getDimensionType(), out.getDimensionType()])
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    tensor.copyFrom(MNN.Tensor(last.shape, MNN.Halide_Type_Float, last, MNN.Tensor_DimensionType_Tensorflow))
    net.runSession(session)
    found["last"] = np.array(net.getSessionOutput(session).getData(), np.float32)
    module = MNN.nn.load_module_from_file(model, [], [])
    var = module.forward(F.convert(F.const(last, list(last.shape), F.NHWC), F.NC4HW4))
    found["module"] = np.array(var.read())
    found["what"] = np.array([str(var.dtype), str(var.data_format), type(var).__name__])
    ops = []
    net.runSessionWithCallBackInfo(session, lambda t, i: True, lambda t, i: not ops.append(i.getType()))
    found["ops"] = np.array(ops)
    np.savez(result, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
