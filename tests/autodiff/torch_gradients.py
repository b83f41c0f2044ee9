"""Runs where torch is: ``torch_gradients.py JOBS.json ARRAYS.npz RESULTS.npz``.

A job is an operator of ONNX and how many operands it has. What is written are gradients of the sum of its result times
weights, which are the last array of the job."""

import json
import sys

import numpy as np
import torch
from torch.nn import functional

t = torch
ONE = {
    "Abs": t.abs, "Acos": t.acos, "Acosh": t.acosh, "Asin": t.asin, "Asinh": t.asinh, "Atan": t.atan, "Atanh": t.atanh,
    "Celu": functional.celu, "Cos": t.cos, "Cosh": t.cosh, "Elu": functional.elu, "Erf": t.erf, "Exp": t.exp,
    "Gelu": functional.gelu, "HardSwish": functional.hardswish, "Identity": lambda x: x * 1,
    "LeakyRelu": functional.leaky_relu, "Log": t.log, "Mish": functional.mish, "Neg": t.neg, "Reciprocal": t.reciprocal,
    "Relu": t.relu, "Selu": t.selu, "Sigmoid": t.sigmoid, "Sin": t.sin, "Sinh": t.sinh, "Softplus": functional.softplus,
    "Softsign": functional.softsign, "Sqrt": t.sqrt, "Tan": t.tan, "Tanh": t.tanh,
    "Softmax": lambda x: t.softmax(x, -1), "LogSoftmax": lambda x: t.log_softmax(x, -1),
    "ReduceSum": t.sum, "ReduceMean": t.mean, "ReduceMax": t.amax, "ReduceMin": t.amin, "ReduceProd": t.prod,
    "ReduceL1": lambda x: t.linalg.vector_norm(x, 1), "ReduceL2": t.linalg.vector_norm,
    "ReduceSumSquare": lambda x: (x * x).sum(), "ReduceLogSumExp": lambda x: t.logsumexp(x, (0, 1)),
    "ReduceLogSum": lambda x: t.log(x.sum()), "Transpose": lambda x: x.T * 1, "Det": t.det,
    "CumSum": lambda x: t.cumsum(x, 1), "CumProd": lambda x: t.cumprod(x, 1),
    "GlobalAveragePool": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "GlobalMaxPool": lambda x: functional.adaptive_max_pool2d(x, 1),
    "MaxPool": lambda x: functional.max_pool2d(x, 3, 2, 1), "AveragePool": lambda x: functional.avg_pool2d(x, 2),
    "DepthToSpace": lambda x: functional.pixel_shuffle(x, 2),
    "SpaceToDepth": lambda x: x.reshape(2, 3, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4),
    "LRN": lambda x: functional.local_response_norm(x, 3),
}  # fmt: skip
SEVERAL = {
    "Add": t.add, "Sub": t.sub, "Mul": t.mul, "Div": t.div, "Pow": t.pow, "Max": t.maximum, "Min": t.minimum,
    "Mod": t.fmod, "MatMul": t.matmul, "Gemm": lambda a, b, c: t.addmm(c, a, b),
    "PRelu": lambda x, s: t.where(x > 0, x, s * x),
    "Sum": lambda *x: sum(x), "Mean": lambda *x: sum(x) / len(x), "Concat": lambda *x: t.cat(x, 1),
    "Conv": lambda x, w, b: functional.conv2d(x, w, b, (2, 1), 1, (1, 2)),
    "ConvTranspose": lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1),
    "LayerNormalization": lambda x, g, b: functional.layer_norm(x, x.shape[-1:], g, b, 1e-5),
    "InstanceNormalization": lambda x, g, b: functional.instance_norm(x, None, None, g, b, True, 0.1, 1e-5),
    "GroupNormalization": lambda x, g, b: functional.group_norm(x, 2, g, b, 1e-5),
    "RMSNormalization": lambda x, g: functional.rms_norm(x, x.shape[-1:], g, 1e-5),
    "BatchNormalization": lambda x, *rest: normalized(x, *[r.reshape(1, -1, 1, 1) for r in rest]),
    "Attention": functional.scaled_dot_product_attention,
    "GridSample": lambda x, g: functional.grid_sample(x, g, "bilinear", "zeros", False),
}  # fmt: skip


def normalized(x, scale, bias, mean, variance):
    return (x - mean) / t.sqrt(variance + 1e-5) * scale + bias


def main(listed, given, result):
    with open(listed) as file:
        jobs = json.load(file)
    out = {}
    with np.load(given) as arrays:
        for i, (name, count) in enumerate(jobs):
            x = [torch.from_numpy(arrays[f"{i}.{k}"]).requires_grad_() for k in range(count)]
            y = (ONE.get(name) or SEVERAL[name])(*x)
            (y * torch.from_numpy(arrays[f"{i}.weight"]).reshape(y.shape)).sum().backward()
            for k, operand in enumerate(x):
                out[f"{i}.{k}"] = operand.grad.numpy()
    np.savez(result, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
