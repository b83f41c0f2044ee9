"""Kernels as functions that Python calls straight, beside the same calls by ``ctypes``."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from MNN.backends.cpu.image.arrange import MirrorSpec
from MNN.backends.cpu.image.runs import BoundsSpec
from MNN.cv.kernels import run


def _mirror(height: int, width: int, upside: bool) -> run.Call:
    row = 3 * width
    args = {"src_row": -row if upside else row, "width": width, "height": height, "band": height}
    return run.call_of(MirrorSpec.of(3), args, ({"src": (height - 1) * row if upside else 0}, "out"), 1, object())


@pytest.fixture(params=["straight", "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "ctypes":
        monkeypatch.setattr(run, "maker", lambda library: None)
    else:
        assert run.maker(run.library()) is not None
    return str(request.param)


@pytest.mark.parametrize("upside", [False, True])
def test_arrays_of_any_class_and_addresses(way: str, upside: bool) -> None:
    image = np.random.default_rng(1).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    wanted = image[::-1, ::-1] if upside else image[:, ::-1]
    call = _mirror(5, 7, upside)
    gc.collect()  # what the call holds stays
    locked = image.copy()
    locked.setflags(write=False)
    for given in (image, locked, image.view(np.ma.MaskedArray), run.address(image)):
        out = np.zeros_like(image)
        call(given, out)
        assert (out == wanted).all()
    out = np.zeros_like(image)
    call(image, run.address(out))
    assert (out == wanted).all()
    assert way


@pytest.mark.parametrize("given", [(), (np.zeros(3),), (np.zeros(3),) * 3, (np.zeros(3), "text"), (None, np.zeros(3))])
def test_what_is_no_array_or_number_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        _mirror(5, 7, False)(*given)


def test_threads_call_one_kernel_at_once(way: str) -> None:
    kernel = run.alone.__wrapped__(BoundsSpec.of())
    found: list[bool] = []

    def look(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(200):
            left, top = (int(n) for n in random.integers(0, 30, 2))
            filled, result = np.zeros((40, 40), np.uint8), np.zeros(4, np.int64)
            filled[top : top + 5, left : left + 6] = 1
            kernel(filled, 40, 40, 40, result)
            found.append(result.tolist() == [left, left + 5, top, top + 4])

    threads = [threading.Thread(target=look, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 800
    assert all(found)
    assert way
