"""Runs where torch is, and needs nothing else: ``torch_driver.py JOBS.json ARRAYS.npz RESULTS.npz``.

A job is a function of this file by name, its parameters, and how many arrays it takes.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from torch.nn import functional


def _padding(begins, ends):
    """Begins and ends of all axes as torch has them: last axis first."""
    return [n for pair in reversed(list(zip(begins, ends, strict=True))) for n in pair]


def conv(x, w, bias=None, *, strides, dilations, pads, groups):
    count = len(strides)
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[count - 1]
    x = functional.pad(x, _padding(pads[:count], pads[count:]))
    return [function(x, w, bias, stride=strides, dilation=dilations, groups=groups)]


def conv_transpose(x, w, bias=None, *, strides, dilations, groups, begins, sizes):
    """Without padding, of which the wanted part is taken; what lies behind it is the bias alone."""
    count = len(strides)
    function = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[count - 1]
    whole = function(x, w, stride=strides, dilation=dilations, groups=groups)
    ends = [n + a - d for n, a, d in zip(sizes, begins, whole.shape[2:], strict=True)]
    part = functional.pad(whole, _padding([-a for a in begins], ends))
    return [part if bias is None else part + bias.reshape(-1, *[1] * count)]


def max_pool(x, *, kernel, strides, dilations, pads, ceil):
    count = len(kernel)
    function = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[count - 1]
    return list(function(x, kernel, strides, pads[:count], dilations, ceil, return_indices=True))


def average_pool(x, *, kernel, strides, pads, ceil, include):
    count = len(kernel)
    function = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[count - 1]
    return [function(x, kernel, strides, pads[:count], ceil, include)]


def main(listed, given, result):
    with open(listed) as file:
        jobs = json.load(file)
    out = {}
    with np.load(given) as arrays, torch.no_grad():
        for i, (name, parameters, count) in enumerate(jobs):
            operands = [torch.from_numpy(arrays[f"{i}.{k}"]) for k in range(count)]
            for k, found in enumerate(globals()[name](*operands, **parameters)):
                out[f"{i}.{k}"] = found.numpy()
    np.savez(result, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
