"""Compiled kernels of MNN.cv beside the numpy code they stand for: random sizes, types, filters, borders; threads."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import MNN.cv as mcv
from MNN import MNNError
from MNN.cv import _color
from MNN.cv.kernels import run
from MNN.cv.spaces import lab
from MNN.cv.spaces.numbers import body
from MNN.ir.dtype import DType
from MNN.reference.scalar import evaluate

BORDERS = (mcv.BORDER_CONSTANT, mcv.BORDER_REFLECT, mcv.BORDER_REFLECT_101)


def _picture(random: np.random.Generator) -> Any:
    height, width = (int(n) for n in random.integers(1, 90, 2))
    shape = (height, width, int(random.integers(1, 6)))[: int(random.integers(2, 4))]
    return (random.random(shape) * 256).astype(random.choice(["u1", "f4", "u2", "i2"]))


def _calls(random: np.random.Generator, im: Any) -> dict[str, Any]:
    b = int(random.choice(BORDERS))
    size = tuple(int(n) for n in random.integers(1, 12, 2))
    kernel = random.normal(size=size)
    element = (random.random(size) < 0.6).astype(np.uint8)
    element[0, 0] = 1
    depth, delta = int(random.choice([-1, 5])), float(random.choice([0, 3, 0.5]))
    wanted = tuple(int(n) for n in random.integers(1, 120, 2))
    resized = {
        f"resize {how}": lambda how=how: mcv.resize(im, wanted, interpolation=how)
        for how in range(7)  # INTER_*
    }
    turn = random.normal(size=(2, 3)) * [0.3, 0.3, 9] + [[0.8, 0, 5], [0, 0.8, 5]]
    tilt = np.vstack([turn, [2e-4, -3e-4, 1]])
    map_x, map_y = (random.random(wanted[::-1]).astype(np.float32) * 1.5 * n - 0.2 * n for n in im.shape[1::-1])
    sampled = {}
    for how in (mcv.INTER_NEAREST, mcv.INTER_LINEAR, mcv.INTER_CUBIC):
        sampled[f"warpAffine {how}"] = lambda how=how: mcv.warpAffine(im, turn, wanted, how, b, 7)
        sampled[f"warpPerspective {how}"] = lambda how=how: mcv.warpPerspective(im, tilt, wanted, how, b, 7)
        sampled[f"remap {how}"] = lambda how=how: mcv.remap(im, map_x, map_y, how, b, (7, 8))
    x, y = random.normal(size=size[0]), random.normal(size=size[1])
    kind = int(random.integers(5))  # THRESH_*
    other = im[::-1].copy()
    near = tuple(float(n) for n in random.random(2) * im.shape[1::-1])
    one = im.reshape(*im.shape[:2], -1)[:, :, 0].astype(np.uint8)
    again = tuple(2 * n + int(random.integers(-1, 2)) for n in im.shape[1::-1])
    half = tuple(max(n // 2, 1) for n in im.shape[1::-1])
    pyramids = {}
    if im.size < 1 << 13:  # numpy's are slow
        pyramids = {"pyrDown": lambda: mcv.pyrDown(im, None, b), "pyrDown size": lambda: mcv.pyrDown(im, half),
                    "pyrUp": lambda: mcv.pyrUp(im, again)}  # fmt: skip
    mask = (random.random(im.shape[:2]) < 0.4) * random.choice([1, 255], im.shape[:2]).astype(np.uint8)
    plain = im if im.dtype in (np.uint8, np.float32) and im.ndim == 2 else one
    if im.ndim == 3 and im.shape[2] > 2:
        plain = im[:, :, :3].astype(np.float32 if im.dtype.itemsize > 1 else np.uint8)
    return {
        **pyramids,
        "bilateralFilter": lambda: mcv.bilateralFilter(plain, size[0], 40, 2.5, b),
        **{f"flip {n}": lambda n=n: mcv.flip(im, n) for n in (-1, 0, 1)},
        **{f"rotate {n}": lambda n=n: mcv.rotate(im, n) for n in range(3)},
        "copyTo": lambda: mcv.copyTo(im, mask),
        "copyTo another": lambda: mcv.copyTo(im, mask > 0, other),
        "mean of some": lambda: mcv.mean(im, mask),
        "merge": lambda: mcv.merge([one, one[::-1], np.fliplr(one)][: 2 + kind % 2]),
        "split": lambda: np.concatenate([np.asarray(part)[..., None] for part in mcv.split(im)], 2),
        "sqrBoxFilter": lambda: mcv.sqrBoxFilter(im, 5, size, bool(delta), b),
        "getRectSubPix": lambda: mcv.getRectSubPix(im, size, near),
        "adaptiveThreshold": lambda: mcv.adaptiveThreshold(one, 200, kind % 2, kind // 4, 2 * size[0] + 1, delta - 2),
        "threshold": lambda: mcv.threshold(im, 77.5, 200, kind),
        "threshold beyond": lambda: mcv.threshold(im, 1e6 * (-1) ** kind, 200, kind),
        "addWeighted": lambda: mcv.addWeighted(im, 0.3, other, -0.9, delta),
        **{f"normalize {n}": lambda n=n: mcv.normalize(im, None, 3, 211, n) for n in (1, 2, 4, 32)},  # NORM_*
        **resized,
        **sampled,
        "GaussianBlur": lambda: mcv.GaussianBlur(im, (size[0] | 1, size[1] | 1), 1.3, 0, b),
        "GaussianBlur chosen": lambda: mcv.GaussianBlur(im, (5, 3), 0, 0, b),
        "boxFilter": lambda: mcv.boxFilter(im, depth, size, bool(delta), b),
        "Sobel": lambda: mcv.Sobel(im, depth, 1, 1, 5, 0.5, delta, b),
        "sepFilter2D": lambda: mcv.sepFilter2D(im, depth, x, y, delta, b),
        "filter2D": lambda: mcv.filter2D(im, depth, kernel, delta, b),
        "filter2D of zeros": lambda: mcv.filter2D(im, depth, np.zeros((2, 3)), delta, b),
        "erode": lambda: mcv.erode(im, element, 2, b),
        "dilate": lambda: mcv.dilate(im, np.ones(size), 2, b),
        "dilate, large": lambda: mcv.dilate(im, np.ones((5 * size[0], 4 * size[1])), 1, b),
        "boxFilter, large": lambda: mcv.boxFilter(im, depth, (5 * size[1], 6 * size[0]), bool(delta), b),
    }


def _colors(random: np.random.Generator, im: Any) -> dict[str, Any]:
    names = [n for n in dir(mcv) if n.startswith("COLOR_")]
    channels = im.shape[2] if im.ndim == 3 else 1
    found = {}
    for name in names:
        code = getattr(mcv, name)
        entry = _color._TABLE.get(code)
        if entry is None or channels not in entry[0]:
            continue
        scaled = im if im.dtype == np.uint8 else (im / 65536).astype(np.float32)
        if entry[2] is None:  # pixels share chroma: even sizes, a third of the rows may hold it
            scaled = im.astype(np.uint8)[: max(im.shape[0] // 6, 1) * 6, : im.shape[1] // 2 * 2]
        if scaled.shape[1] and (scaled.shape[0] % 6 == 0 if entry[2] is None else scaled.dtype in entry[2]):
            found[name] = lambda code=code, scaled=scaled: mcv.cvtColor(scaled, code)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_same_as_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    im = _picture(random)
    for name, function in (_calls(random, im) | _colors(random, im)).items():
        monkeypatch.setattr(run.Settings, "least", 1 << 62)
        want = np.asarray(function())
        monkeypatch.setattr(run.Settings, "least", 0)
        found = np.asarray(function())
        assert (found.dtype, found.shape) == (want.dtype, want.shape), name
        apart = np.abs(found.astype(np.float64) - want)
        if found.dtype.kind == "f":
            assert apart.max() <= 2e-4 * max(np.abs(want).max(), 256), name
        else:  # sums in another order differ in their last bit, which decides ties
            assert apart.max() <= 1, name
            assert (apart > 0).mean() <= (0.15 if name == "addWeighted" else 0.02), name


def test_threads_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    im = np.random.default_rng(0).integers(0, 256, (517, 300, 3)).astype(np.uint8)
    monkeypatch.setattr(run.Settings, "threads", 1)
    want = mcv.GaussianBlur(im, (7, 9), 2)
    assert run.bands(517, im.size) == 517
    monkeypatch.setattr(run.Settings, "threads", 2)
    assert run.bands(517, im.size) < 517
    np.testing.assert_array_equal(mcv.GaussianBlur(im, (7, 9), 2), want)


def test_python_threads_do_not_mix() -> None:
    ims = [np.random.default_rng(i).integers(0, 256, (90 + i, 200, 3)).astype(np.uint8) for i in range(4)]
    want = [mcv.blur(im, (5, 5)) for im in ims]
    wrong = []

    def work(number: int) -> None:
        for _ in range(50):
            if not np.array_equal(mcv.blur(ims[number], (5, 5)), want[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numbers_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.Settings, "threads", 0)
    mcv.setNumThreads(3)
    assert mcv.getNumThreads() == 3
    mcv.setNumThreads(0)
    assert mcv.getNumThreads() >= 1
    for count in (-1, 257):
        with pytest.raises(MNNError, match="nthreads"):
            mcv.setNumThreads(count)
    for processors in (5, 2):  # noticed after some calls, as asking takes as long as a small picture
        monkeypatch.setattr(run, "available_threads", lambda n=processors: n)
        assert [run.thread_count() for _ in range(200)][-1] == processors == mcv.getNumThreads()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_few_pixels_are_merged(kind: type) -> None:
    planes = [(np.arange(35).reshape(5, 7) * i).astype(kind) for i in (1, 2, 3)]
    wanted = np.dstack(planes)
    for given in (planes, [np.asfortranarray(p) for p in planes], [p[::-1][::-1] for p in planes]):
        np.testing.assert_array_equal(np.array(mcv.merge(given)), wanted)


def test_light_of_every_byte() -> None:
    """Bytes take sRGB's curve from a polynomial, rounded to steps of 1 / 2040 as the curve itself is."""
    one = body(lambda c, whole: [(lab._light(c[0] * (1 / 255), whole) * 2040).apply("round")], DType.F32, 1, True, [0])
    found = evaluate(one, [np.arange(256, dtype=np.float32)])[0]
    stored = np.arange(256) / 255
    light = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)
    np.testing.assert_array_equal(found, np.rint(light * 2040))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_maps_to_nowhere(value: float) -> None:
    x, y = np.zeros((2, 90, 90), np.float32)
    x[3, 4], x[5, 6] = value, -value
    with pytest.raises(MNNError, match="infinity"):
        mcv.remap(np.zeros((90, 90, 3), np.uint8), x, y, mcv.INTER_LINEAR)


def test_maps_far_away() -> None:
    x = np.full((90, 90), 3e38, np.float32)
    found = np.asarray(mcv.remap(np.ones((90, 90, 3), np.uint8), x, -x, mcv.INTER_LINEAR, mcv.BORDER_CONSTANT, 7))
    assert (found == 7).all()


@pytest.mark.parametrize("by", ["numpy", "kernels"])
def test_where_an_element_sees_nothing_floats_stay_finite(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in OpenCV: the largest or smallest float, not an infinity."""
    monkeypatch.setattr(run.Settings, "least", 0 if by == "kernels" else 1 << 62)
    im = np.arange(12, dtype=np.float32).reshape(3, 4)
    above = np.array([[1], [0]], np.uint8)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(np.asarray(mcv.erode(im, above))[0].ravel(), [most] * 4)
    np.testing.assert_array_equal(np.asarray(mcv.dilate(im, above))[0].ravel(), [-most] * 4)


@pytest.mark.parametrize(
    "ends", [(0, 1e-40), (-3e38, 3e38), (0, 1e-38), (1e-30, 2e-30), (-1e35, 3), (5, 6e30)], ids=lambda e: f"{e[0]:g}"
)
def test_normalised_floats_of_any_size(ends: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences and factors beyond f32 are no infinities of the result, nor NaN."""
    im = np.linspace(*ends, 600).astype(np.float32).reshape(20, 30)
    monkeypatch.setattr(run.Settings, "least", 0)
    for span in ((0, 1), (0, 255), (-3, 1e4)):
        found = np.asarray(mcv.normalize(im, None, *span, mcv.NORM_MINMAX))
        low, high = float(im.min()), float(im.max())
        want = (im.astype(np.float64) - low) / (high - low) * (span[1] - span[0]) + span[0]
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * span[1])


@pytest.mark.parametrize("size", [(5, 6), (80, 90)])
@pytest.mark.parametrize("kind", ["u1", "f4"])
def test_thresholds_beyond_their_pictures(size: tuple[int, int], kind: str) -> None:
    im = np.arange(size[0] * size[1]).reshape(size).astype(kind)
    for level, above in ((-1e300, True), (1e300, False), (-np.inf, True), (np.inf, False)):
        found = np.asarray(mcv.threshold(im, level, 9, mcv.THRESH_BINARY))
        np.testing.assert_array_equal(found, np.full(size, 9 * above, kind))
    for level, most in ((np.nan, 9), (3, np.nan)):
        with pytest.raises(MNNError, match="must be numbers"):
            mcv.threshold(im, level, most, mcv.THRESH_BINARY)


@pytest.mark.parametrize("how", [mcv.INTER_LINEAR, mcv.INTER_AREA])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int16])
def test_halves_of_pictures(kind: Any, how: int) -> None:
    """Which way they go was measured with OpenCV 4.11 and 5.0; it does not depend on the picture's size."""
    info = np.iinfo(kind)
    for channels, width in itertools.product((1, 2, 3, 4), (5, 90)):
        im = np.random.default_rng(width).integers(info.min, info.max + 1, (60, 2 * width, channels)).astype(kind)
        total = sum(im[i::2, j::2].astype(np.int64) for i in (0, 1) for j in (0, 1))
        up = channels != 2 and (kind is np.uint8 or how == mcv.INTER_AREA)
        found = np.asarray(mcv.resize(im, (width, 30), interpolation=how))
        np.testing.assert_array_equal(found, total + 2 >> 2 if up else np.rint(total / 4))


@pytest.mark.parametrize("size", [(31, 31), (1, 90), (7, 140)])
def test_large_windows_on_threads(size: tuple[int, int]) -> None:
    """Sums of floats have the same bits on any number of threads."""
    im = np.random.default_rng(0).random((301, 700)).astype(np.float32)
    found = []
    for threads in (1, 2, 5):
        mcv.setNumThreads(threads)
        try:
            found.append(np.asarray(mcv.blur(im, size)))
        finally:
            mcv.setNumThreads(0)
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (15, 12)])
def test_what_is_no_number_does_not_count(size: tuple[int, int]) -> None:
    """In windows of taps, in those reduced by spans, and where numpy does it: small pictures and doubles."""
    im = np.random.default_rng(0).random((90, 90)).astype(np.float32)
    im[5:25, 3:40] = np.nan
    im[50, 60], border = np.nan, mcv.BORDER_REFLECT_101
    for element in (np.ones(size, np.uint8), np.eye(*size, dtype=np.uint8)):
        for function, nothing in ((mcv.erode, np.inf), (mcv.dilate, -np.inf)):
            want = np.asarray(function(np.where(np.isnan(im), np.float32(nothing), im), element, 1, border))
            for kind, least in ((np.float32, 1), (np.float32, 1 << 20), (np.float64, 1)):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(run.Settings, "least", least)
                    found = np.asarray(function(im.astype(kind), element, 1, border))
                np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("way", [mcv.INTER_NEAREST, mcv.INTER_LINEAR, mcv.INTER_CUBIC])
def test_warps_stay_within_their_scratch(way: int, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of a row's last pixels lie outside of the picture they are filled many at a time."""

    class Guarded:
        def room(self, nbytes: int) -> int:
            self.memory, self.size = np.full(nbytes + 4096, 0xA5, np.uint8), nbytes
            return int(run.address(self.memory))

    own = Guarded()
    monkeypatch.setattr(run, "_OWN", own)
    monkeypatch.setattr(run.Settings, "threads", 1)
    monkeypatch.setattr(run.Settings, "least", 0)
    image = np.ones((9, 9, channels), np.float32)
    for width in (1, 2, 3, 15, 16, 17, 19, 33):
        found = np.asarray(mcv.warpAffine(image, [1, 0, 99, 0, 1, 99], (width, 2), way, borderValue=7))
        assert (found[..., 0] == 7).all()
        if hasattr(own, "memory"):
            assert (own.memory[own.size :] == 0xA5).all()
    assert hasattr(own, "memory") or way == mcv.INTER_NEAREST
