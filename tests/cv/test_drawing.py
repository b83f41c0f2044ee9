"""Shapes drawn by kernels beside the same shapes drawn pixel by pixel in Python (:mod:`tests.cv.raster`): random
places, partly far outside, widths, kinds of lines, shifts, types, channels and arrays that are not contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.cv as mcv
from MNN import MNNError
from MNN.cv import _drawing as drawing
from MNN.cv.kernels.quick import shapes as quick
from MNN.expr.build import picture
from tests.cv import raster
from tests.cv.raster import FINE, SHIFT, Canvas

Drawn = tuple[Callable[[Any], Any], Callable[[Canvas], Any]]
TRIANGLE = np.array([[0, 0], [9, 1], [2, 8]], np.int32)
INK = (200, 90, 17, 3, 250)


def _picture(random: np.random.Generator) -> Any:
    """A picture, or a part of a larger one whose rows or pixels lie apart."""
    height, width = (int(n) for n in random.integers(1, 60, 2))
    channels = int(random.integers(0, 6))
    kind = random.choice(["u1", "f4", "u2", "i4", "f8"])
    apart = bool(channels) and random.random() < 0.3
    shape = (height + 3, width + 4, channels + 2 * apart)[: 3 if channels else 2]
    whole = random.integers(0, 9, shape).astype(kind)
    views = [whole[1:-2, 2:-2], whole[:-3, :-4].copy(), whole[::-1][3:, 4:], whole[:, ::2]]
    found = views[int(random.integers(len(views)))]
    return found[..., 1 : channels + 1] if apart else found


def _places(random: np.random.Generator, im: Any, count: int) -> list[tuple[int, int]]:
    """Most around a picture, some very far away."""
    low, high = -20, max(im.shape[:2]) + 20
    if random.random() < 0.25:
        low, high = -(10 ** int(random.integers(2, 6))), 10 ** int(random.integers(2, 6))
    return [(int(x), int(y)) for x, y in random.integers(low, high, (count, 2))]


def _drawings(random: np.random.Generator, im: Any) -> dict[str, Drawn]:
    shift = int(random.choice([0, 0, 1, 4]))
    kind, width = int(random.choice([0, 1, 4, 8])), int(random.integers(1, 9)) ** int(random.integers(1, 3))
    (a, b, c), radius = (_places(random, im, 3)), int(random.integers(0, 30))
    thin, within = {0: (8, FINE), 1: (4, 4), 4: (4, FINE), 8: (8, 8)}[kind]  # between pixels, or within them
    touching = within if shift else thin
    shapes = [_places(random, im, int(random.integers(1, 9))) for _ in range(int(random.integers(1, 4)))]
    wide = SHIFT - shift
    fixed = lambda p: (p[0] << wide, p[1] << wide)  # noqa: E731
    whole = lambda p: (p[0] << SHIFT, p[1] << SHIFT)  # noqa: E731
    corners = [fixed(p) for p in (a, (b[0], a[1]), b, (a[0], b[1]))]
    ring = raster.circle_points(*fixed(c), radius << wide)
    arrays = [np.array(s, np.int32).reshape(-1, 1, 2) for s in shapes]

    def contours(canvas: Canvas) -> None:
        for shape in shapes:
            canvas.path([whole(p) for p in shape], True, width, thin)

    return {
        "line": (lambda to: mcv.line(to, a, b, INK[: _channels(im)], width, kind, shift),
                 lambda canvas: canvas.thick(fixed(a), fixed(b), width, touching)),
        "circle": (lambda to: mcv.circle(to, a, radius, INK[: _channels(im)], 1),
                   lambda canvas: canvas.disc(*a, radius, False)),
        "disc": (lambda to: mcv.circle(to, a, radius, INK[: _channels(im)], -1),
                 lambda canvas: canvas.disc(*a, radius, True)),
        "ring": (lambda to: mcv.circle(to, c, radius, INK[: _channels(im)], width, 4, shift),
                 lambda canvas: canvas.path(ring, False, width, FINE)),
        "fine disc": (lambda to: mcv.circle(to, c, radius, INK[: _channels(im)], -1, 4, shift),
                      lambda canvas: canvas.convex(ring, 4, False)),
        "rectangle": (lambda to: mcv.rectangle(to, a, b, INK[: _channels(im)], width, kind, shift),
                      lambda canvas: canvas.path(corners, True, width, touching)),
        "filled rectangle": (lambda to: mcv.rectangle(to, a, b, INK[: _channels(im)], -1, kind, shift),
                             lambda canvas: canvas.convex(corners, thin, shift == 0)),
        "fillPoly": (lambda to: mcv.fillPoly(to, arrays, INK[: _channels(im)], kind, shift),
                     lambda canvas: canvas.polygons([[fixed(p) for p in s] for s in shapes], thin)),
        "drawContours": (lambda to: mcv.drawContours(to, arrays, -1, INK[: _channels(im)], width, kind), contours),
    }  # fmt: skip


def _channels(im: Any) -> int:
    return int(im.shape[2]) if im.ndim == 3 else 1


@pytest.mark.parametrize("seed", range(24))
def test_same_pixels(seed: int) -> None:
    random = np.random.default_rng([seed, 29])
    im = _picture(random)
    around = im.base if im.base is not None else im
    for name, (draw, oracle) in _drawings(random, im).items():
        canvas = Canvas(*im.shape[:2])
        oracle(canvas)
        want = around.copy()
        part = want if around is im else _same_part(want, around, im)
        part[canvas.mask] = np.array(INK[: _channels(im)]).astype(im.dtype)[: None if im.ndim == 3 else 1]
        draw(im)
        np.testing.assert_array_equal(around, want, err_msg=name)  # nothing beside the picture either


def _same_part(copy: Any, whole: Any, part: Any) -> Any:
    """What ``part`` is of ``whole``, of a copy of it."""
    assert copy.strides == whole.strides
    offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return np.ndarray(part.shape, part.dtype, copy, offset, part.strides)


@pytest.mark.parametrize("seed", range(6))
def test_smooth_edges_cover_what_samples_do(seed: int) -> None:
    random = np.random.default_rng([seed, 30])
    im = np.full((int(random.integers(1, 30)), int(random.integers(1, 30)), 3), 10, np.uint8)
    a, b = (tuple(int(n) for n in random.integers(-9, 39, 2)) for _ in range(2))
    canvas = Canvas(im.shape[0] * 8, im.shape[1] * 8)
    middle = 7 << (SHIFT - 1)
    canvas.thick(*((x * 8 * 65536 + middle, y * 8 * 65536 + middle) for x, y in (a, b)), 24, 16)
    share = canvas.mask.reshape(im.shape[0], 8, im.shape[1], 8).mean((1, 3), dtype=np.float32)[..., None]
    want = np.rint(im + (np.array([200, 100, 50], np.float32) - im) * share)
    mcv.line(im, a, b, (200, 100, 50), 3, mcv.LINE_AA)
    assert np.abs(im - want).max() <= 12  # 3 of 64 samples: lines are cut elsewhere
    np.testing.assert_array_equal(im[share[..., 0] == 0], 10)


def test_pixels_of_many_channels_and_vars() -> None:
    want = np.zeros((20, 30, 3), np.uint8)
    mcv.line(want, (2, 3), (25, 17), (5, 6, 7), 3)
    many = np.zeros((20, 30, 100), np.float32)
    mcv.line(many, (2, 3), (25, 17), tuple(range(5, 105)), 3)
    np.testing.assert_array_equal(many[..., :3], want)
    assert many[10, 13].tolist() == list(range(5, 105))
    var = picture(np.zeros((20, 30, 3), np.uint8))
    mcv.line(var, (2, 3), (25, 17), (5, 6, 7), 3)
    np.testing.assert_array_equal(np.asarray(var), want)


@pytest.mark.parametrize("points", [((-(2**31), 5), (2**31 - 1, 9)), ((3, -(2**31)), (8, 2**31 - 1))])
def test_ends_as_far_as_there_are(points: Any) -> None:
    im = np.zeros((30, 40), np.uint8)
    for width in (1, 3):
        mcv.line(im, *points, 255, width)
        assert 28 <= (im > 0).sum() <= 40 * 5
    mcv.rectangle(im, *points, 7, -1)
    assert (im == 7).sum() > 28
    mcv.fillPoly(im, [np.array([[-(2**31), -(2**31)], [2**31 - 1, -(2**31)], [20, 25]], np.int64)], 9)
    assert im[0, 20] == 9


@pytest.mark.parametrize("call", [
    lambda im: mcv.line(im, (0, 0), (2**31, 0), 1),
    lambda im: mcv.line(im, (0, 0), (1, 0), 1, 1 << 15),
    lambda im: mcv.circle(im, (0, 0), 1 << 31, 1),
    lambda im: mcv.fillPoly(im, [np.array([[0, 0], [1e12, 3]])], 1),
    lambda im: mcv.fillPoly(im, [TRIANGLE], 1, offset=(1 << 48, 0)),
    lambda im: mcv.fillPoly(im, [TRIANGLE], 1, offset=(np.nan, 0)),
    lambda im: mcv.fillPoly(im, [TRIANGLE], 1, offset=(1, 2, 3)),
    lambda im: mcv.line(im, (0, 0), (np.nan, 0), 1),
    lambda im: mcv.line(im, (0, 0), (1, 0), (1, 2, 3, 4, 5)),
    lambda im: mcv.line(np.broadcast_to(im[:1], im.shape), (0, 0), (1, 0), 1),
])  # fmt: skip
def test_what_cannot_be_drawn(call: Callable[[Any], Any]) -> None:
    im = np.zeros((4, 4), np.uint8)
    with pytest.raises(MNNError):
        call(im)
    assert not im.any()


@pytest.mark.parametrize("number", [int, float, np.int8, np.float32])
def test_any_number_says_how_lines_are(number: Any) -> None:
    want, found = np.zeros((2, 20, 30), np.uint8)
    mcv.line(want, (2, 3), (25, 17), 9, 3, mcv.LINE_4)
    mcv.line(found, (2, 3), (25, 17), 9, number(3), number(mcv.LINE_4))
    np.testing.assert_array_equal(found, want)


def test_every_thickness_below_0_fills() -> None:
    for draw in (
        lambda im, width: mcv.rectangle(im, (2, 3), (9, 8), 5, width),
        lambda im, width: mcv.circle(im, (9, 8), 6, 5, width, mcv.LINE_AA),
        lambda im, width: mcv.drawContours(im, [TRIANGLE], -1, 5, width),
    ):
        want, found = np.zeros((2, 20, 30), np.uint8)
        draw(want, -1)
        draw(found, -(1 << 70))
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("offset", [(3, -2), [3, -2], np.array([3, -2])])
def test_polygons_are_moved(offset: Any) -> None:
    want, found = np.zeros((2, 20, 30), np.uint8)
    mcv.fillPoly(want, [TRIANGLE + np.array([3, -2], np.int32)], 9)
    mcv.fillPoly(found, [TRIANGLE], 9, offset=offset)
    np.testing.assert_array_equal(found, want)


def test_smooth_edges_of_large_pictures_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> Any:
        im = np.zeros((90, 70), np.float32)
        mcv.rectangle(im, (5, 5), (60, 80), 0.5, -1, mcv.LINE_AA)
        mcv.line(im, (-30, 4), (66, 95), 1, 5, mcv.LINE_AA)
        mcv.fillPoly(im, [TRIANGLE * 8], 0.25, mcv.LINE_AA)
        mcv.circle(im, (35, 45), 30, 0.75, 2, mcv.LINE_AA)
        return im

    want, sizes, cover = drawn(), [0], drawing._cover
    monkeypatch.setattr(drawing, "_SAMPLES", 1 << 15)
    monkeypatch.setattr(drawing, "_cover", lambda mask, shape: (sizes.append(mask.size), cover(mask, shape)))
    apart = np.abs(drawn() - want)
    assert len(sizes) > 40
    assert max(sizes) <= 1 << 15
    assert apart.max() <= 1 / 8  # an edge that is cut elsewhere may be a sample beside
    assert apart.mean() < 1e-3


@pytest.fixture
def quickly() -> None:
    """Drawing often enough that generated code takes it over, for all pictures that it knows."""
    for kind in ("u1", "f4"):
        for channels in range(1, 5):
            im = np.zeros((9, 9, channels), kind)
            for _ in range(quick.SOONEST):
                quick.drawn(im.dtype, channels)
            quick.drawn(im.dtype, channels, True)
    assert quick.line(np.zeros((9, 9), np.uint8), (1, 1), (5, 6), 7, 1, 8, 0)


def _odd(random: np.random.Generator, usual: Any) -> Any:
    """An argument, rarely another one than most are: of another type, too large, or none at all."""
    if random.random() < 0.97:
        return usual
    others = [None, 2.5, np.int64(3), True, -1, 1 << 40, 1 << 80, -(1 << 80), "a", (1,), (1, 2, 3, 4, 5), [4, 5],
              (np.int32(2), 3), (1.5, 2.0), (1 << 70, 0), float("nan"), 1e300, 0, 16, 4, np.array([3, 4])]  # fmt: skip
    return others[int(random.integers(len(others)))]


def _result(draw: Callable[..., Any], im: Any, given: tuple[Any, ...]) -> tuple[Any, str]:
    image = im.copy() if im.flags.owndata else im.base.copy()
    part = image if im.flags.owndata else _same_part(image, im.base, im)
    try:
        with np.errstate(all="ignore"):
            draw(part, *given)
    except (MNNError, TypeError, ValueError, OverflowError) as error:
        return image, f"{type(error).__name__}: {error}"
    return image, ""


@pytest.mark.usefixtures("quickly")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_generated_code_draws_what_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    random, taken = np.random.default_rng(31), 0
    entries = {name: getattr(quick, name) for name in ("line", "rectangle", "circle")}
    for _ in range(300):
        im = _picture(random)
        if random.random() < 0.7:
            im = im[..., :4].astype(random.choice(["u1", "f4"]), order="C")
        a, b = _places(random, im, 2)
        name = str(random.choice(list(entries)))
        colours: list[Any] = [7, -3.5, 300.0, 2.5, (1.5, 300, -2), (2.5, 3.5), (9, 8, 7, 6), 1e20]
        colour = colours[int(random.integers(len(colours)))]
        usual = (a, int(random.integers(0, 40)) if name == "circle" else b, colour,
                 int(random.choice([-1, 0, 1, 1, 2, 5])), int(random.choice([8, 8, 4, 0, 1])),
                 int(random.choice([0, 0, 0, 2])))  # fmt: skip
        given = tuple(_odd(random, value) for value in usual)
        monkeypatch.setattr(quick, name, entries[name])
        found, told = _result(getattr(mcv, name), im, given)
        monkeypatch.setattr(quick, name, quick._never)
        want, wrong = _result(getattr(mcv, name), im, given)
        np.testing.assert_array_equal(found, want, err_msg=f"{name}{given} {im.dtype} {im.shape}")
        assert told == wrong
        if not told:
            taken += entries[name](np.ascontiguousarray(im).copy(), *given)
    assert taken > 40


def _polygons(random: np.random.Generator, im: Any) -> Any:
    """Polygons, mostly as generated code reads them."""
    many = 300 if random.random() < 0.1 else 12
    found: list[Any] = [
        np.array(_places(random, im, int(random.integers(1, many))), np.int32).reshape(shape)
        for shape in ([(-1, 2), (-1, 1, 2)] * 5)[: int(random.choice([1, 1, 2, 3, 10]))]
    ]
    form = int(random.integers(12))
    at = int(random.integers(len(found)))
    if form < 5:
        p = found[at]
        found[at] = (p[::-1], p.astype(np.int64), p.astype(">i4"), picture(p), p[:0])[form]
    return (found, tuple(found), np.concatenate([f.reshape(-1, 2) for f in found]))[max(form - 9, 0)]


@pytest.mark.usefixtures("quickly")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_generated_code_draws_polygons_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    random, taken, entry = np.random.default_rng(32), 0, quick.polygons
    for _ in range(150):
        im = _picture(random)
        if random.random() < 0.8:
            im = im[..., :4].astype(random.choice(["u1", "f4"]), order="C")
        contours, kind = _polygons(random, im), int(random.choice([8, 8, 4, 0, 1]))
        colour = [7, -3.5, (1.5, 300, -2), (9, 8, 7, 6)][int(random.integers(4))]
        given: tuple[Any, ...] = (contours, colour, kind, int(random.choice([0, 0, 2])),
                                  random.choice([(0, 0), (3, -2)]).tolist())  # fmt: skip
        name, index = "fillPoly", -1
        thickness = -1
        if random.random() < 0.5:
            name, index, thickness = (
                "drawContours",
                int(random.choice([-2, -1, 0, 1, 5])),
                int(random.choice([-1, 0, 1, 3])),
            )
            given = (contours, index, colour, thickness, kind)
        else:
            given = (*given[:4], (0, 0)) if random.random() < 0.7 else given
        given = tuple(_odd(random, value) for value in given)
        monkeypatch.setattr(quick, "polygons", entry)
        found, told = _result(getattr(mcv, name), im, given)
        monkeypatch.setattr(quick, "polygons", quick._never)
        want, wrong = _result(getattr(mcv, name), im, given)
        np.testing.assert_array_equal(found, want, err_msg=f"{name}{given} {im.dtype} {im.shape}")
        assert told == wrong
        if not told:
            taken += entry(np.ascontiguousarray(im).copy(), contours, index, colour, thickness, kind)
    assert taken > 15
