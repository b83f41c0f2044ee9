"""Winograd convolutions against numpy in float64: tiles, edges, tails, chunks, blocks, epilogues, weights, errors."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from MNN.backends.cpu.inner_product.iteration import HEAD
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec
from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.winograd.cost import plans
from MNN.backends.cpu.winograd.int16 import pack_transformed
from MNN.backends.cpu.winograd.points import filtering, supported
from MNN.backends.cpu.winograd.spec import WinogradSpec, WinogradWeightsSpec
from MNN.backends.cpu.winograd.sums import Work, partial_sums
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from MNN.reference import scalar as reference_scalar
from tests.backends.cpu import util

F32, F16 = DType.F32, DType.F16
TARGETS = pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
PLAIN = WinogradSpec(4, 4, 3, 3, 4, 2, False, True, True)


@pytest.mark.parametrize(
    ("m", "r"), [(1, 1), (2, 3), (4, 3), (6, 3), (2, 5), (4, 5), (2, 7), (3, 7), (4, 7), (3, 2), (3, 3), (3, 5)]
)
def test_matrices(m: int, r: int) -> None:
    """The identity holds exactly in rational numbers."""
    f = filtering(m, r)
    d = [3 * i * i - 7 * i + 2 for i in range(m + r - 1)]
    g = [5 - 2 * k * k for k in range(r)]
    left = [sum(c * x for c, x in zip(row, g, strict=True)) for row in f.g]
    right = [sum(c * x for c, x in zip(row, d, strict=True)) for row in f.bt]
    found = [sum(c * x * y for c, x, y in zip(row, left, right, strict=True)) for row in f.at]
    assert found == [sum(g[k] * d[i + k] for k in range(r)) for i in range(m)]


@pytest.mark.parametrize(("m", "r"), [(1, 1), (2, 3), (3, 3), (4, 3), (5, 3), (3, 5), (2, 7)])
def test_matrices_with_stride(m: int, r: int) -> None:
    f = filtering(m, r, 2)
    assert f.inputs == 2 * m + r - 2
    assert f.positions == (2 * m + r - 2 if r > 1 else 1)
    assert all(row == f.g[-1] for row in f.g[f.factors - 1 :])
    d = [3 * i * i - 7 * i + 2 for i in range(f.inputs)]
    g = [5 - 2 * k * k for k in range(r)]
    left = [sum(c * x for c, x in zip(row, g, strict=True)) for row in f.g]
    right = [sum(c * x for c, x in zip(row, d, strict=True)) for row in f.bt]
    found = [sum(c * x * y for c, x, y in zip(row, left, right, strict=True)) for row in f.at]
    assert found == [sum(g[k] * d[2 * i + k] for k in range(r)) for i in range(m)]


def test_unknown_sizes_are_refused() -> None:
    assert not supported(9, 3)
    assert not supported(3, 3, 3)
    assert not supported(2, 2, 2)  # two filters of one tap: nothing is saved
    with pytest.raises(ValueError, match=r"no points for F\(9, 3\)"):
        filtering(9, 3)


def transformed(
    weights: np.ndarray, spec: WinogradSpec, target: Target, step: int = 5, checked: bool = True
) -> np.ndarray:
    """U of weights ``[n, c, rh, rw]``."""
    nr = spec.nr(target)
    made = WinogradWeightsSpec(spec.mh, spec.mw, spec.rh, spec.rw, nr, spec.stride)
    n, c = weights.shape[:2]
    head = HEAD if spec.inner_product else 0
    u = np.full(made.size(c, n, head), np.nan, np.float32)
    slots = {"w": weights.ctypes.data, "u": u.ctypes.data, "c": c, "n": n, "head": head, "step": step}
    slots |= dict(zip(("w_n", "w_c", "w_h", "w_w"), util.element_strides(weights), strict=True))
    util.call(made, target, slots, made.blocks(c, n, step), [weights, u], checked)
    if spec.inner_product:
        numbers = {"b": u.ctypes.data, "k": c, "vectors": spec.nv}
        util.call(InnerProductPackSpec(), target, numbers, made.panels(n) * spec.nv, [u], checked)
    return u.reshape(math.prod(f.factors for f in spec.filterings), -1, c + head, nr)


@TARGETS
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("mh", "mw", "rh", "rw"), [(2, 2, 3, 3), (4, 4, 3, 3), (6, 6, 3, 3), (1, 4, 1, 3), (3, 1, 7, 1)]
)
def test_weights(target: Target, mh: int, mw: int, rh: int, rw: int, stride: int) -> None:
    if not (supported(mh, rh, stride) and supported(mw, rw, stride)):
        mh, mw = min(mh, 2), min(mw, 2)
    spec = WinogradSpec(mh, mw, rh, rw, 2, 2, False, True, True, stride=stride)
    nr = spec.nr(target)
    n, c = nr + 3, 7
    w = np.random.default_rng(1).normal(size=(n, c, rh, rw)).astype(np.float32)
    u = transformed(w, spec, target)
    g_h, g_w = (np.array(f.g[: f.factors], float) for f in spec.filterings)
    exact = np.einsum("ia,jb,ncab->ijcn", g_h, g_w, w.astype(np.float64)).reshape(len(u), c, n)
    found = u.transpose(0, 2, 1, 3).reshape(len(u), c, -1)
    np.testing.assert_allclose(found[..., :n], exact, rtol=1e-6, atol=1e-7)
    assert np.isfinite(found).all()


def run(
    spec: WinogradSpec,
    target: Target,
    shape: tuple[int, int, int, int],
    n: int,
    group: int = 3,
    panels: int = 1,
    chunk: int = 8,
    checked: bool = True,
    x: np.ndarray | None = None,
    scale: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's outputs for ``shape`` = images, rows, columns of outputs and channels, and those in float64;
    ``scale``: what the epilogue's first operand reaches up to."""
    images, oh, ow, c = shape
    rng = np.random.default_rng(oh * 100 + ow + c)
    step = spec.stride
    h, w = (oh - 1) * step + spec.rh, (ow - 1) * step + spec.rw
    words = spec.acc is DType.I32
    if words:
        least, most = {DType.U8: (0, 255), DType.I8: (-128, 127)}.get(spec.x, (-128, 255))
        x = rng.integers(least, most + 1, (images, h, w, c + 3)).astype(spec.x.numpy)
        x[:, : h // 2], x[:, h // 2, : w // 2] = most, least
        largest = 127 if 4 in (spec.mh, spec.mw) else 255
        weights = rng.integers(-largest, largest + 1, (n, c, spec.rh, spec.rw)).astype(np.int16)
        weights[: n // 2] = -largest
    else:
        weights = (rng.normal(size=(n, c, spec.rh, spec.rw)) / np.sqrt(c * spec.rh * spec.rw)).astype(np.float32)
    if x is None:
        x = rng.normal(size=(images, h, w, c + 3)).astype(np.float32)  # pixels further apart than their channels
    y = np.full((images, oh, ow, n + 1), 5, spec.out.numpy)
    operands, mn = [], []
    for i, kind in enumerate(spec.operands):
        assert spec.epilogue is not None
        size = {"n": (n,), "1": (1,), "mn": (images, oh, ow, n + 2), "m": (images, oh, ow, 1)}[kind]
        reach = scale if i == 0 else 1.0
        operands.append(rng.uniform(-reach, reach, size).astype(spec.epilogue.args[1 + i].numpy))
        mn.append(kind in ("mn", "m"))
    xs, ys = util.element_strides(x), util.element_strides(y)
    table = []
    for z in range(images):
        for i in range(0, oh, spec.mh):
            for j in range(0, ow, spec.mw):
                entry = [z * xs[0] + (i * xs[1] + j * xs[2]) * step, h - 1 - i * step, w - 1 - j * step]
                entry += [z * ys[0] + i * ys[1] + j * ys[2], min(spec.mh, oh - i), min(spec.mw, ow - j)]
                for tensor, varies in zip(operands, mn, strict=True):
                    s = util.element_strides(tensor)
                    entry.append(z * s[0] + i * s[1] + j * s[2] if varies else 0)
                table.append(entry)
    tiles = np.array(table, np.int32)
    nr = spec.nr(target)
    u = pack_transformed(weights, nr, spec.mh, spec.mw) if words else transformed(weights, spec, target)
    slots = {
        "x": x.ctypes.data, "u": u.ctypes.data, "y": y.ctypes.data, "tiles": tiles.ctypes.data, "n_tiles": len(tiles),
        "group": group, "c": c, "n": n, "n_block": panels * nr, "chunk": chunk, "row_x": xs[1], "col_x": xs[2],
        "row_y": ys[1], "col_y": ys[2],
    }  # fmt: skip
    for i, tensor in enumerate(operands):
        slots[f"op{i}"] = tensor.ctypes.data
        if mn[i]:
            slots[f"row{i}"], slots[f"col{i}"] = util.element_strides(tensor)[1:3]
    blocks = spec.blocks(len(tiles), group, n, panels * nr)
    util.call(spec, target, slots, blocks, [x, u, y, tiles, *operands], checked)
    assert (y[..., n:] == 5).all(), "wrote past the channels"
    exact = np.zeros((images, oh, ow, n))
    for i in range(spec.rh):
        for j in range(spec.rw):
            seen = x[:, i : i + oh * step : step, j : j + ow * step : step, :c][:, :oh, :ow]
            exact += seen.astype(np.float64) @ weights[:, :, i, j].T.astype(np.float64)
    if spec.epilogue is not None:
        given = [o[..., :n] if varies else o for o, varies in zip(operands, mn, strict=True)]
        exact = reference_scalar.evaluate(spec.epilogue, [exact.astype(spec.acc.numpy), *given])[0].astype(np.float64)
    return y[..., :n].astype(np.float64), exact


def check(
    spec: WinogradSpec, target: Target, shape: tuple[int, int, int, int], n: int, tolerance: float = 2e-5, **kw: int
) -> None:
    found, exact = run(spec, target, shape, n, **kw)
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@TARGETS
@pytest.mark.parametrize(("m", "oh", "ow"), [(2, 1, 1), (2, 5, 4), (4, 7, 9), (4, 8, 8), (6, 13, 6), (6, 2, 17)])
def test_tiles_and_edges(target: Target, m: int, oh: int, ow: int) -> None:
    check(dataclasses.replace(PLAIN, mh=m, mw=m), target, (2, oh, ow, 19), 21)


@TARGETS
@pytest.mark.parametrize(
    ("mh", "mw", "rh", "rw"),
    [
        (1, 2, 1, 3),
        (1, 4, 1, 3),
        (4, 1, 3, 1),
        (1, 2, 1, 7),
        (2, 1, 7, 1),
        (3, 1, 7, 1),
        (1, 3, 1, 7),
        (1, 4, 1, 5),
        (4, 1, 7, 1),
        (2, 2, 5, 5),
        (3, 3, 5, 5),
        (3, 3, 3, 3),
        (2, 4, 3, 3),
    ],
)
def test_other_windows(target: Target, mh: int, mw: int, rh: int, rw: int) -> None:
    check(dataclasses.replace(PLAIN, mh=mh, mw=mw, rh=rh, rw=rw), target, (1, 6, 7, 17), 18)


@TARGETS
@pytest.mark.parametrize(
    ("mh", "mw", "rh", "rw", "oh", "ow"),
    [
        (2, 2, 3, 3, 1, 1),
        (2, 2, 3, 3, 6, 7),
        (3, 3, 3, 3, 7, 10),
        (1, 3, 1, 3, 3, 8),
        (5, 1, 3, 1, 12, 2),
        (4, 4, 3, 3, 9, 5),
        (3, 3, 5, 5, 4, 7),
        (2, 1, 7, 1, 5, 3),
    ],
)
def test_stride_2(target: Target, mh: int, mw: int, rh: int, rw: int, oh: int, ow: int) -> None:
    spec = dataclasses.replace(PLAIN, mh=mh, mw=mw, rh=rh, rw=rw, stride=2)
    check(spec, target, (2, oh, ow, 17), 18)
    residual = body_of([F32] * 3, lambda b, s, bias, other: b("add", b("add", s, bias), other))
    check(dataclasses.replace(spec, epilogue=residual, operands=("n", "mn")), target, (1, oh, ow, 17), 18)


@TARGETS
@pytest.mark.parametrize("c", [1, 8, 16, 32, 37])
@pytest.mark.parametrize("n", [1, 16, 32, 70])
def test_channels(target: Target, c: int, n: int) -> None:
    lanes = target.lanes(F32)
    spec = dataclasses.replace(PLAIN, c_tail=c % lanes != 0, n_tail=n % lanes != 0)
    check(spec, target, (1, 5, 6, c), n)


@TARGETS
@pytest.mark.parametrize(("mr", "nv"), [(1, 1), (2, 3), (4, 2), (6, 1), (8, 2), (4, 3)])
@pytest.mark.parametrize(("group", "panels", "chunk"), [(1, 1, 0), (2, 2, 5), (7, 1, 16), (100, 9, 64)])
def test_blocks(target: Target, mr: int, nv: int, group: int, panels: int, chunk: int) -> None:
    spec = dataclasses.replace(PLAIN, mh=2, mw=2, mr=mr, nv=nv, chunked=chunk > 0)
    check(spec, target, (2, 5, 6, 34), 75, group=group, panels=panels, chunk=chunk)


@TARGETS
@pytest.mark.parametrize("fetches", [False, True])
def test_with_and_without_asking_ahead(target: Target, fetches: bool) -> None:
    spec = dataclasses.replace(PLAIN, chunked=True)
    check(spec, dataclasses.replace(target, fetches_ahead=fetches), (2, 9, 6, 34), 75, group=8, panels=2, chunk=16)


@TARGETS
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "plain"])
@pytest.mark.parametrize("n", [32, 35])
def test_epilogues(target: Target, checked: bool, n: int) -> None:
    short = body_of(
        [F32, F32, F32],
        lambda b, s, bias, rest: b("max", b("add", b("add", s, bias), rest), b.const(0, F32)),
    )
    long = body_of(
        [F32, F32, F32, F32],
        lambda b, s, bias, rest, one: b(
            "div", b("mul", b("add", s, bias), one), b("add", b("exp", b("neg", rest)), b.const(1.0, F32))
        ),
    )
    tail = n % target.lanes(F32) != 0
    for body, kinds in ((short, ("n", "mn")), (short, ("n", "m")), (long, ("n", "mn", "1"))):
        spec = dataclasses.replace(PLAIN, epilogue=body, operands=kinds, n_tail=tail)
        check(spec, target, (2, 6, 9, 20), n, checked=checked)
    half = body_of([F32, F32], lambda b, s, bias: b.cast(b("add", s, bias), F16))
    spec = dataclasses.replace(PLAIN, epilogue=half, operands=("n",), out=F16, n_tail=tail)
    check(spec, target, (1, 6, 9, 20), n, tolerance=2e-3, checked=checked)


def test_error_of_f4_with_partial_sums() -> None:
    """F(4, 3) with sums over 32 channels stays within twice the error of plain fp32 sums, F(2, 3) within it."""
    target = util.TARGETS[-1]
    for c in (64, 192):
        x = np.maximum(np.random.default_rng(c).normal(size=(1, 18, 18, c)), 0).astype(np.float32)
        spec = dataclasses.replace(PLAIN, chunked=True)
        found, exact = run(spec, target, (1, 16, 16, c), 32, group=4, panels=2, chunk=32, checked=False, x=x)
        two, _ = run(dataclasses.replace(PLAIN, mh=2, mw=2), target, (1, 16, 16, c), 32, checked=False, x=x)
        rng = np.random.default_rng(1600 + 16 + c)
        weights = (rng.normal(size=(32, c, 3, 3)) / np.sqrt(c * 9)).astype(np.float32)
        plain = np.zeros((1, 16, 16, 32), np.float32)
        for i in range(3):
            for j in range(3):
                for ch in range(c):
                    plain += x[:, i : i + 16, j : j + 16, ch, None] * weights[:, ch, i, j]
        direct = np.sqrt(np.mean((plain - exact) ** 2))
        assert np.sqrt(np.mean((found - exact) ** 2)) < 2 * direct
        assert np.sqrt(np.mean((two - exact) ** 2)) < direct


@pytest.mark.parametrize(
    ("m", "rh", "rw", "c", "chunk"),
    [(3, 1, 7, 128, 32), (3, 1, 7, 192, 32), (3, 3, 3, 16, 0), (3, 3, 3, 31, 0), (3, 5, 5, 48, 16), (3, 5, 5, 96, 32)],
)
def test_error_of_odd_numbers_of_positions(m: int, rh: int, rw: int, c: int, chunk: int) -> None:
    """With the partial sums that ``high`` takes, they stay within 2.2 times the error of plain fp32 sums."""
    size, n = 18, 32
    assert partial_sums(Work(1, size, size, c, n, rh, rw), m + rw - 1, True) == chunk
    x = np.maximum(np.random.default_rng(c).normal(size=(1, size + rh - 1, size + rw - 1, c)), 0).astype(np.float32)
    spec = dataclasses.replace(PLAIN, mh=m if rh > 1 else 1, mw=m, rh=rh, rw=rw, chunked=chunk > 0)
    shape = (1, size, size, c)
    found, exact = run(spec, util.TARGETS[-1], shape, n, group=4, panels=2, chunk=max(chunk, 1), checked=False, x=x)
    rng = np.random.default_rng(size * 101 + c)
    weights = (rng.normal(size=(n, c, rh, rw)) / np.sqrt(c * rh * rw)).astype(np.float32)
    plain = np.zeros(exact.shape, np.float32)
    for i in range(rh):
        for j in range(rw):
            for ch in range(c):
                plain += x[:, i : i + size, j : j + size, ch, None] * weights[:, ch, i, j]
    direct = np.sqrt(np.mean((plain - exact) ** 2))
    assert np.sqrt(np.mean((found - exact) ** 2)) < 2.2 * direct


@pytest.mark.parametrize(("rh", "rw"), [(3, 3), (1, 3)])
@pytest.mark.parametrize("c", [8, 64])
def test_error_with_stride_2(rh: int, rw: int, c: int) -> None:
    """Of all sizes that are taken: less than twice that of plain fp32 sums."""
    oh, ow, n = (1 if rh == 1 else 12), 12, 32
    x = np.maximum(np.random.default_rng(c).normal(size=(1, 2 * oh - 2 + rh, 2 * ow + 1, c)), 0).astype(np.float32)
    work = Work(1, oh, ow, c, n, rh, rw, 2)
    for plan in plans(util.TARGETS[-1], work, 1, "high"):
        spec = dataclasses.replace(PLAIN, mh=plan.mh, mw=plan.mw, rh=rh, rw=rw, stride=2)
        found, exact = run(spec, util.TARGETS[-1], (1, oh, ow, c), n, group=4, panels=2, checked=False, x=x)
        rng = np.random.default_rng(oh * 100 + ow + c)
        weights = (rng.normal(size=(n, c, rh, rw)) / np.sqrt(c * rh * rw)).astype(np.float32)
        plain = np.zeros(exact.shape, np.float32)
        for i in range(rh):
            for j in range(rw):
                for ch in range(c):
                    plain += x[:, i : i + 2 * oh - 1 : 2, j : j + 2 * ow - 1 : 2, ch, None] * weights[:, ch, i, j]
        direct = np.sqrt(np.mean((plain - exact) ** 2))
        assert np.sqrt(np.mean((found - exact) ** 2)) < 2 * direct


@TARGETS
def test_infinity_stays_in_its_tile(target: Target) -> None:
    """As documented: all of a tile that holds an infinity is NaN, all others are untouched."""
    x = np.random.default_rng(3).normal(size=(1, 10, 10, 4)).astype(np.float32)
    x[0, 1, 1, 2] = np.inf
    found, _ = run(PLAIN, target, (1, 8, 8, 4), 5, x=x)
    assert np.isnan(found[0, :4, :4]).all()
    assert np.isfinite(found[0, 4:]).all()
    assert np.isfinite(found[0, :, 4:]).all()


@pytest.mark.parametrize(
    "bad",
    [{"mh": 9}, {"mr": 0}, {"operands": ("m",)}, {"operands": ("n",)}, {"out": F16}, {"mh": 1, "mw": 1}, {"stride": 3}],
)
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"F\(|tile|epilogue"):
        dataclasses.replace(PLAIN, **bad)  # type: ignore[arg-type]


def test_no_groups_of_integers() -> None:
    with pytest.raises(ValueError, match="no groups of integers"):
        WinogradSpec(2, 2, 3, 3, 3, 2, False, False, True, DType.I32, x=DType.I16, grouped=True)


INNER = WinogradSpec(4, 4, 3, 3, 3, 2, False, False, True, inner_product=True)


@TARGETS
@pytest.mark.parametrize("chunk", [0, 16])
@pytest.mark.parametrize(("mh", "mw", "rh", "rw"), [(4, 4, 3, 3), (2, 2, 3, 3), (1, 3, 1, 7), (3, 3, 5, 5)])
def test_inner_products(target: Target, mh: int, mw: int, rh: int, rw: int, chunk: int) -> None:
    """Blocks of any number of tiles and panels; V is brought to size once for all panels."""
    for mr, nv, stride in ((3, 2, 1), (4, 1, 1), (6, 1, 2)):
        if not (supported(mh, rh, stride) and supported(mw, rw, stride)):
            continue
        spec = dataclasses.replace(INNER, mh=mh, mw=mw, rh=rh, rw=rw, mr=mr, nv=nv, stride=stride, chunked=chunk > 0)
        for group, panels in ((mr, 1), (4 * mr, 2), (20 * mr, 9)):
            check(spec, target, (2, 5, 9, 48), 37, tolerance=4e-5, group=group, panels=panels, chunk=max(chunk, 1))


@TARGETS
@pytest.mark.parametrize("large", [1e30, 1e-30, 0.0])
def test_inner_products_of_uneven_rows(target: Target, large: float) -> None:
    """Tiles of any size of numbers keep the errors of their own size: what cannot be brought to size is multiplied
    plainly."""
    x = np.random.default_rng(5).normal(size=(1, 14, 14, 35)).astype(np.float32)
    x[:, :7] *= large
    found, exact = run(INNER, target, (1, 12, 12, 32), 40, group=9, x=x)
    rows = slice(8, 12), slice(0, 4)  # of tiles within one half
    for part in rows:
        size = np.abs(exact[:, part]).max()
        np.testing.assert_allclose(found[:, part], exact[:, part], rtol=0, atol=1e-5 * size)
