"""ncnn files that are damaged: a clear error, soon, in little memory, or a model that runs."""

from __future__ import annotations

import contextlib
import os
import time

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.frontends.ncnn import load
from MNN.passes.manager import optimize
from tests.frontends.ncnn.trial import made

MUTATIONS = int(os.environ.get("MNN_NCNN_MUTATIONS", "60"))
SECONDS = 10.0
FAMILIES = ("Convolution", "Reshape expression", "LSTM", "Gemm", "Crop", "PriorBox", "MultiHeadAttention", "Interp")


def _opened(param: bytes, weights: bytes) -> None:
    start = time.perf_counter()
    with contextlib.suppress(MNNError):
        optimize(load(param, weights=weights))
    assert time.perf_counter() - start < SECONDS


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_damaged_files_are_refused_or_read(name: str, binary: bool) -> None:
    model = made(name, 3).model
    param, weights = (model.binary() if binary else model.text()), model.weights()
    rng = np.random.default_rng(len(name))
    for part in range(20):
        _opened(param[: len(param) * part // 20], weights)
    for _ in range(MUTATIONS):
        damaged = bytearray(param)
        for at in rng.integers(0, len(damaged), int(rng.integers(1, 6))):
            damaged[at] = (
                int(rng.integers(256)) if binary or rng.integers(3) == 0 else int(rng.choice(list(b"0123456789=-,. e")))
            )
        _opened(bytes(damaged), weights[: int(rng.integers(len(weights) + 1))] if rng.integers(4) == 0 else weights)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with the line 7767517"),
        ("7767517\n", "two counts"),
        ("7767517\n2 2\nInput a 0 1 a\n", "2 layers, found 1"),
        ("7767517\n999999999999 1\nInput a 0 1 a\n", "no count"),
        ("7767517\n1 1\nInput a 0 5 a\n", "0 inputs and 5 outputs"),
        ("7767517\n1 1\nReLU a 1 1 x y\n", "nothing before it makes its input 'x'"),
        ("7767517\n2 2\nInput a 0 1 a\nInput b 0 1 a\n", "made twice"),
        ("7767517\n2 2\nInput a 0 1 a\nReLU b 1 1 a b 77=1\n", "ids are 0 to 31"),
        ("7767517\n2 2\nInput a 0 1 a\nReLU b 1 1 a b 0=one\n", "parameter 0 is 'one'"),
        ("7767517\n2 2\nInput a 0 1 a\nSlice b 1 1 a b -23300=1000000,1\n", "has 1"),
        ("7767517\n2 2\nInput a 0 1 a\nPReLU b 1 1 a b 0=1000000000\n", "takes 1000000000 weights"),
        ("7767517\n2 2\nInput a 0 1 a\nConvolution b 1 1 a b 0=4 1=3 6=-5\n", "takes -5 weights"),
        ("7767517\n2 2\nInput a 0 1 a 0=4 1=s\nReLU b 1 1 a b\n", "parameter 1 is 's'"),
        ("7767517\n1 1\nInput a 0 1 a\n", "no layers that make an output"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(MNNError) as caught:
        load(text.encode(), weights=b"")
    assert said in str(caught.value)


def test_a_tensor_too_large_is_not_made() -> None:
    text = "7767517\n1 1\nMemoryData a 0 1 a 0=100000 1=100000 2=100000\n"
    with pytest.raises(FormatError, match="has 16 bytes left"):
        load(text.encode(), weights=bytes(16))
