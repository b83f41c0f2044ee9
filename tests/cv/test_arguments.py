from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import MNN.cv as cv
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN.cv import _array
from MNN.cv.kernels.run import Settings
from MNN.errors import MNNError, ShapeError
from MNN.expr.build import picture
from MNN.expr.types import storable
from MNN.ir.dtype import DType
from tests.cv.opencv_cases import pictures

NOISE = pictures()["noise"]
GRAY = pictures()["gray"]


def test_normalisation_while_resizing() -> None:
    mean, norm = (103.94, 116.78, 123.68), (0.017, 0.018, 0.019)
    result = cv.resize(NOISE, (20, 10), code=cv.COLOR_BGR2RGB, mean=mean, norm=norm)
    plain = cv.resize(NOISE, (20, 10))[:, :, ::-1].astype(np.float32)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, (plain - np.float32(mean)) * np.float32(norm), rtol=1e-6)
    gray = cv.resize(GRAY, (20, 10), code=cv.COLOR_GRAY2BGR, mean=[1.0])
    np.testing.assert_allclose(gray[:, :, 1], cv.resize(GRAY, (20, 10))[:, :, 0] - np.float32(1))
    warped = cv.warpAffine(NOISE, [1, 0, 0, 0, 1, 0], (28, 20), mean=[0, 0, 0], norm=[2])
    np.testing.assert_allclose(warped, NOISE * np.float32(2))


def test_scale_factors_give_the_size() -> None:
    assert cv.resize(NOISE, None, fx=0.5, fy=2.0).shape == (40, 14, 3)
    assert cv.resize(GRAY, (5, 7)).shape == (7, 5, 1)
    assert cv.resize(GRAY[:, :, None], (5, 7)).shape == (7, 5, 1)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64", "bool"])
def test_types_are_kept(dtype: str) -> None:
    image = (GRAY > 100).astype(dtype) if dtype == "bool" else GRAY.astype(dtype)
    for result in (cv.resize(image, (9, 9)), cv.flip(image, 1), cv.resize(image, (9, 9), interpolation=0)):
        assert result.dtype == image.dtype


def test_anything_with_array_is_taken() -> None:
    class Holder:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return NOISE

    assert np.array_equal(cv.flip(Holder(), 0), NOISE[::-1])
    assert cv.flip([[1, 2], [3, 4]], 0).tolist() == [[3, 4], [1, 2]]


def test_masks_and_other_pictures() -> None:
    mask = GRAY > 128
    other = np.full_like(NOISE, 9)
    copied = cv.copyTo(NOISE, mask, other)
    assert (copied[mask] == NOISE[mask]).all()
    assert (copied[~mask] == 9).all()
    assert (cv.copyTo(NOISE, mask)[~mask] == 0).all()
    scaled = cv.normalize(GRAY.astype(np.float32), None, 1, 0, cv.NORM_MINMAX, mask=mask)
    assert scaled[mask].min() == 0
    assert scaled[mask].max() == 1
    assert (scaled[~mask] == GRAY[~mask]).all()


def test_two_plane_yuv_is_the_one_plane_conversion() -> None:
    yuv = pictures()["420"]
    one = cv.cvtColor(yuv, cv.COLOR_YUV2RGB_NV21)
    assert np.array_equal(cv.cvtColorTwoPlane(yuv[:16], yuv[16:], cv.COLOR_YUV2RGB_NV21), one)


def test_joining() -> None:
    assert cv.hconcat([NOISE, NOISE]).shape == (20, 56, 3)
    assert cv.vconcat([NOISE, NOISE]).shape == (40, 28, 3)
    assert cv.hconcat(NOISE).shape == (28, 20 * 3)
    assert np.array_equal(cv.merge(cv.split(NOISE)), NOISE)


@pytest.fixture
def wrapped() -> Iterator[type]:
    class Wrapped:
        def __init__(self, array: Any) -> None:
            assert isinstance(array, np.ndarray)
            self.array = array

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.array

    _array.set_wrapper(Wrapped)
    yield Wrapped
    _array.set_wrapper(lambda array: array)


def test_every_result_goes_through_the_wrapper(wrapped: type) -> None:
    image = cv.imdecode(cv.imencode("png", NOISE)[1])
    results = [
        image, cv.resize(image, (4, 4), code=cv.COLOR_BGR2RGB), cv.cvtColor(image, cv.COLOR_BGR2GRAY),
        cv.blur(image, (3, 3)), cv.flip(image, 1), *cv.split(image), cv.mean(image),
        cv.warpAffine(image, cv.getRotationMatrix2D((1, 1), 2, 3), (5, 5)), cv.threshold(image, 3, 4, 0),
        cv.cvtColorTwoPlane(np.zeros((4, 4)), np.zeros(8), cv.COLOR_YUV2BGR_NV12),
    ]  # fmt: skip
    assert all(type(result) is wrapped for result in results)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cv.resize(NOISE),
        lambda: cv.resize(NOISE, (0, 5)),
        lambda: cv.resize(NOISE, (5,)),
        lambda: cv.resize(NOISE, (2.5, 3)),
        lambda: cv.resize(NOISE, None, fx=-1, fy=1),
        lambda: cv.resize(NOISE, (5, 5), interpolation=99),
        lambda: cv.resize(NOISE, (5, 5), mean=[1, 2]),
        lambda: cv.resize(np.zeros((0, 3, 3)), (5, 5)),
        lambda: cv.resize(np.zeros(5), (5, 5)),
        lambda: cv.resize("picture.jpg", (5, 5)),
        lambda: cv.cvtColor(NOISE, cv.COLOR_COLORCVT_MAX),
        lambda: cv.cvtColor(NOISE, 12345),
        lambda: cv.cvtColor(GRAY, cv.COLOR_BGR2RGB),
        lambda: cv.cvtColor(NOISE, cv.COLOR_YUV2BGR_NV12),
        lambda: cv.cvtColorTwoPlane(GRAY, GRAY, cv.COLOR_YUV2BGR_NV12),
        lambda: cv.rotate(NOISE, 7),
        lambda: cv.warpAffine(NOISE, np.zeros((2, 3)), (5, 5)),
        lambda: cv.warpAffine(NOISE, np.zeros((2, 2)), (5, 5)),
        lambda: cv.warpAffine(NOISE, [1, 0, 0, 0, 1, float("nan")], (5, 5)),
        lambda: cv.warpAffine(NOISE, [1, 0, 0, 0, 1, 0], (5, 5), 1, 9),
        lambda: cv.warpAffine(NOISE, [1, 0, 0, 0, 1, 0], (5, 5), cv.INTER_AREA),
        lambda: cv.getAffineTransform([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 3]),
        lambda: cv.getPerspectiveTransform([0, 0, 1, 1], [0, 0, 1, 1]),
        lambda: cv.getRotationMatrix2D((1, 2, 3), 0, 1),
        lambda: cv.remap(NOISE, np.zeros((3, 3)), np.zeros((3, 4)), 1),
        lambda: cv.GaussianBlur(NOISE, (4, 3), 1),
        lambda: cv.GaussianBlur(NOISE, (0, 0), 0),
        lambda: cv.filter2D(NOISE, -1, [1, 2]),
        lambda: cv.filter2D(NOISE, 77, [[1, 2]]),
        lambda: cv.copyMakeBorder(NOISE, -1, 0, 0, 0, 0),
        lambda: cv.copyMakeBorder(NOISE, 1, 0, 0, 0, 0, (1, 2, 3, 4, 5)),
        lambda: cv.threshold(NOISE, 1, 2, cv.THRESH_OTSU),
        lambda: cv.threshold(NOISE, 1, 2, 5),
        lambda: cv.normalize(NOISE, norm_type=3),
        lambda: cv.addWeighted(NOISE, 1, GRAY, 1, 0),
        lambda: cv.bitwise_and(NOISE * 1.0, NOISE * 1.0),
        lambda: cv.bitwise_or(NOISE, NOISE, mask=GRAY[:5]),
        lambda: cv.merge([NOISE, GRAY[:5]]),
        lambda: cv.imencode("jpg", NOISE, [1]),
        lambda: cv.imdecode([1, 2, 3], 55),
    ],
)
def test_misuse_is_an_error_of_the_user(call: Callable[[], Any]) -> None:
    with pytest.raises(MNNError):
        call()


def test_constants_do_not_clash() -> None:
    assert len(cv.__all__) == len(set(cv.__all__))
    assert all(hasattr(cv, name) for name in cv.__all__)
    assert cv.COLOR_BGR2RGB == 4
    assert cv.BORDER_DEFAULT == cv.BORDER_REFLECT_101 == 1


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NC4HW4"])
def test_a_batch_of_one_is_a_picture(layout: str) -> None:
    four = F.convert(F.const(NOISE, [1, *NOISE.shape], F.NHWC, F.uint8), F.data_format[layout])
    kernel = np.ones((3, 3), np.float32) / 9
    for change in (
        lambda p: cv.resize(p, (5, 7)), lambda p: cv.flip(p, 1), lambda p: cv.rotate(p, cv.ROTATE_180),
        lambda p: cv.cvtColor(p, cv.COLOR_BGR2GRAY), lambda p: cv.mean(p),
        lambda p: cv.blur(p, (3, 3)), lambda p: cv.GaussianBlur(p, (3, 3), 1.0), lambda p: cv.filter2D(p, -1, kernel),
        lambda p: cv.warpAffine(p, [1, 0, 2, 0, 1, 1], (9, 8)), lambda p: cv.warpPerspective(p, np.eye(3), (9, 8)),
        lambda p: cv.copyMakeBorder(p, 1, 2, 3, 4, cv.BORDER_REFLECT),
    ):  # fmt: skip
        np.testing.assert_array_equal(np.asarray(change(four)), np.asarray(change(NOISE)))


def test_batches_stay_batches_where_pixels_do_not_meet() -> None:
    four = np.stack([NOISE, NOISE[::-1]])
    mask = GRAY > 100
    for change in (
        lambda p: cv.addWeighted(p, 0.5, p, 0.25, 3), lambda p: cv.bitwise_xor(p, p // 2), lambda p: cv.copyTo(p, mask),
        lambda p: cv.threshold(p, 90, 255, cv.THRESH_BINARY), lambda p: cv.bitwise_or(p, p // 2, p, mask),
    ):  # fmt: skip
        wanted = np.stack([np.asarray(change(p)) for p in four])
        np.testing.assert_array_equal(np.asarray(change(four)), wanted)
    with pytest.raises(ShapeError, match=r"a batch of 2 pictures, .* one by one"):
        cv.resize(four, (5, 7))
    with pytest.raises(ShapeError, match="mask has shape"):
        cv.copyTo(four, mask[:3])


def test_element_types_have_the_names_of_vars() -> None:
    for kind in (F.float, np.float32, float):
        found = cv.normalize(NOISE, None, 0.0, 1.0, cv.NORM_MINMAX, kind)
        assert np.asarray(found).dtype == np.float32
        np.testing.assert_allclose(np.asarray(found).max(), 1)


@pytest.mark.parametrize("seed", range(5))
def test_poses_by_points_that_the_lens_does_not_show(seed: int) -> None:
    """A lens of these bends shows nothing beyond 1.8 from the middle; one point is said to be there."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(12, 3))
    turn, shift = random.normal(size=3) * 0.3, np.array([0.1, -0.2, 9.0])
    camera, bends = np.array([[500.0, 0, 300], [0, 480.0, 250], [0, 0, 1]]), [0.02, -0.01, 0.001, 0.002, 0.0]
    points[0] = np.linalg.solve(_rotation(turn), np.array([-19.0, 9.0, 9.0]) - shift)
    placed = points @ _rotation(turn).T + shift
    plain = placed[:, :2] / placed[:, 2:]
    found, *pose = cv.solvePnP(points, plain * [500, 480] + [300, 250], camera, bends, cv.SOLVEPNP_SQPNP)
    assert found
    assert all(np.isfinite(np.asarray(p)).all() for p in pose)
    np.testing.assert_allclose(np.asarray(pose[0]).ravel(), turn, atol=0.2)
    np.testing.assert_allclose(np.asarray(pose[1]).ravel(), shift, atol=1.5)


def _rotation(turn: Any) -> Any:
    return np.asarray(cv.Rodrigues(turn), np.float64)


@pytest.mark.parametrize("shape", [(5, 1, 3), (1, 5, 4), (1, 1, 3), (1, 4), (4, 6, 3)])
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_turned_pictures_are_no_views(shape: tuple[int, ...], kind: Any) -> None:
    given = np.random.default_rng(0).integers(0, 256, shape).astype(kind)
    calls = [lambda im, c=c: cv.flip(im, c) for c in (0, 1, -1)] + [lambda im, m=m: cv.rotate(im, m) for m in range(3)]
    wanted = [given[::-1], given[:, ::-1], given[::-1, ::-1], *(np.rot90(given, n) for n in (3, 2, 1))]
    for call, right in zip(calls, wanted, strict=True):
        image, expected = given.copy(), right.copy()
        found = call(image)
        image[...] = 7
        np.testing.assert_array_equal(np.asarray(found).reshape(expected.shape), expected)


def test_drawing_into_a_part_of_an_array_leaves_the_rest() -> None:
    whole = np.zeros((40, 50, 3), np.uint8)
    cv.circle(whole[1:39:2, 5:-5], (12, 9), 6, (1, 2, 3), -1)
    alone = np.zeros((19, 40, 3), np.uint8)
    cv.circle(alone, (12, 9), 6, (1, 2, 3), -1)
    np.testing.assert_array_equal(whole[1:39:2, 5:-5], alone)
    whole[1:39:2, 5:-5] = 0
    assert alone.any()
    assert not whole.any()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_means_of_channels(kind: Any) -> None:
    rng = np.random.default_rng(1)
    for shape in ((31, 17), (31, 17, 1), (300, 41, 3), (5, 3, 4)):
        image = rng.integers(0, 256, shape).astype(kind)
        mask = (rng.random(shape[:2]) < 0.4).astype(np.uint8)
        planes = image.reshape(*shape[:2], -1).astype(np.float64)
        for found, chosen in ((cv.mean(image), planes.reshape(-1, planes.shape[2])),
                              (cv.mean(image, mask), planes[mask > 0])):  # fmt: skip
            np.testing.assert_allclose(np.asarray(found)[: planes.shape[2]], chosen.mean(0), 1e-6)


@pytest.mark.parametrize("code", ["YUV2GRAY_420", "YUV2GRAY_UYVY", "GRAY2BGR", "BGR2GRAY", "BGR2RGB"])
def test_colours_are_no_views(code: str) -> None:
    shape = {"YUV2GRAY_420": (6, 8), "YUV2GRAY_UYVY": (6, 8, 2), "GRAY2BGR": (6, 8, 1)}.get(code, (6, 8, 3))
    im = np.full(shape, 7, np.uint8)
    found = cv.cvtColor(im, getattr(cv, f"COLOR_{code}"))
    want = np.array(found)
    im[:] = 200
    np.testing.assert_array_equal(np.asarray(found), want)


@pytest.mark.parametrize("size", [3, 700])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "i4", "i8", "f4", "f8", "?"])
def test_results_are_of_types_that_vars_have(kind: str, size: int) -> None:
    array = (np.arange(size * size).reshape(size, size) % 100).astype(kind)
    found = picture(array)
    assert DType.of(found._array()) is DType.of(np.asarray(found)) is storable(DType.of(array))
    assert found.shape == [size, size]
    np.testing.assert_array_equal(np.asarray(found), array)


@pytest.mark.parametrize("least", [0, 1 << 62])
@pytest.mark.parametrize(("kind", "want"), [("u1", (255, 0, 2, 2)), ("i1", (127, -5, 2, 2)), ("f4", (300, -5, 1.5, 2))])
def test_border_values_are_rounded_and_saturate(
    kind: str, want: Any, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "least", least)
    image, value = np.ones((2, 3, 4), kind), (300, -5, 1.5, 2)
    away = np.full((2, 3), -9, np.float32)
    for found in (
        cv.copyMakeBorder(image, 1, 0, 0, 0, cv.BORDER_CONSTANT, value)[0],
        cv.copyMakeBorder(image, 1, 0, 0, 0, cv.BORDER_CONSTANT, list(value))[0],
        cv.warpAffine(image, [1, 0, 9, 0, 1, 9], (3, 2), borderValue=value),
        cv.remap(image, away, away, cv.INTER_LINEAR, cv.BORDER_CONSTANT, value),
    ):
        np.testing.assert_array_equal(found, np.broadcast_to(np.array(want, kind), found.shape))


@pytest.mark.parametrize("least", [0, 1 << 62])
@pytest.mark.parametrize("kind", ["u1", "f4"])
def test_values_between_two_bins_are_where_opencv_counts_them(
    kind: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "least", least)
    image = np.arange(256).astype(kind)[None]
    found = cv.calcHist([image], [0], None, [17], [61, 163])
    assert found.tolist() == [6, 6, 6, 6, 6, 7, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5]
    both = cv.calcHist([image, image], [0, 1], None, [15, 2], [28, 138, 0, 256]).sum(1)
    assert both.tolist() == [8, 7, 8, 7, 7, 8, 7, 7, 8, 7, 7, 8, 7, 7, 7]


def test_colours_of_16_bits() -> None:
    image = np.random.default_rng(5).integers(0, 65536, (7, 9, 3)).astype(np.uint16)
    gray = cv.cvtColor(image, cv.COLOR_BGR2GRAY)
    assert gray.dtype == np.uint16
    np.testing.assert_allclose(gray[..., 0], image @ np.array([0.114, 0.587, 0.299]), atol=1.5)
    opaque = cv.cvtColor(image, cv.COLOR_BGR2RGBA)
    np.testing.assert_array_equal(opaque, np.dstack([image[..., ::-1], np.full((7, 9), 65535)]))
    back = cv.cvtColor(cv.cvtColor(image, cv.COLOR_BGR2YUV), cv.COLOR_YUV2BGR)
    middle = (image > 20000).all(2) & (image < 45000).all(2)  # chroma of others is beyond 16 bits
    assert middle.any()
    np.testing.assert_allclose(back[middle].astype(int), image[middle].astype(int), atol=60)
    with pytest.raises(ShapeError, match="uint16"):
        cv.cvtColor(image, cv.COLOR_BGR2HSV)


@pytest.mark.parametrize("kind", ["u1", "u2", "f4", "f8"])
def test_planes_of_any_form_are_merged(kind: str) -> None:
    planes = [np.random.default_rng(n).integers(0, 99, (12, 15)).astype(kind) for n in range(3)]
    want = np.stack(planes, 2)
    apart = [np.dstack([p, p])[..., 0] for p in planes]
    for given in (planes, tuple(planes), apart, [p[..., None] for p in planes], [planes[0], *apart[1:]]):
        found = np.asarray(cv.merge(given))
        np.testing.assert_array_equal(found, want)
        assert found.dtype == want.dtype
    with pytest.raises(MNNError):
        cv.merge([planes[0], planes[1][:5]])
    with pytest.raises(MNNError):
        cv.merge([planes[0], None])
