"""Contractions against numpy in float64 (or exact integers): tiles, tails, taps, batches, epilogues, element types."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.products.register_steps import fills_registers, with_all_registers
from MNN.backends.cpu.products.register_tiles import choose_tile, pack_b
from MNN.backends.cpu.targets import Target, host_target, named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.reference import scalar as reference_scalar
from tests.backends.cpu import util

F32, F64, F16, BF16 = DType.F32, DType.F64, DType.F16, DType.BF16
I8, U8, I32, I64 = DType.I8, DType.U8, DType.I32, DType.I64
TARGETS = pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
TILES = {"sse4.1": (3, 2), "avx2": (6, 2), "avx512": (8, 3)}


@dataclasses.dataclass
class Problem:
    """One contraction with its data laid out as a convolution or a matrix product would."""

    spec: ContractSpec
    m: int
    n: int
    k: int
    taps: int = 1
    batches: int = 1
    seed: int = 0

    def numbers(self, rng: np.random.Generator, dtype: DType, *shape: int) -> np.ndarray:
        if dtype.is_int:
            small = dtype in (I8, U8)
            info = np.iinfo(dtype.numpy)
            return rng.integers(info.min if small else -50, info.max + 1 if small else 50, shape).astype(dtype.numpy)
        return rng.uniform(-1, 1, shape).astype(dtype.numpy)

    def run(
        self, target: Target, mb: int, nb: int, checked: bool = False, ub: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The kernel's C, the expected C in float64, and the sum of absolute products (for bounds)."""
        spec, m, n, k = self.spec, self.m, self.n, self.k
        rng, nr, z = np.random.default_rng(self.seed), spec.nr(target), self.batches
        total = k * self.taps
        lda = total + 3
        a = self.numbers(rng, spec.a, z, m, lda)  # rows further apart than they are long, visited in odd order
        order = rng.permutation(m)
        rows_a = (order * lda).astype(np.int32)
        tap_order = rng.permutation(self.taps)
        taps = (tap_order * k).astype(np.int32)
        b = self.numbers(rng, spec.b, z, total, n)
        ldc = n + 2
        c = np.full((z, m, ldc), 7, spec.out.numpy)
        c_order = rng.permutation(m)
        rows_c = (c_order * ldc).astype(np.int32)
        steps = -(-k // spec.group) * spec.group
        spread = np.zeros((z, self.taps, steps, n), b.dtype)  # the groups of a tap end with it
        spread[:, :, :k] = b.reshape(z, self.taps, k, n)
        flat = spread.reshape(z, self.taps * steps, n)
        packed = np.stack([pack_b(x, nr, spec.group) for x in flat]) if spec.b_packed else b
        slots = {
            "n_taps": self.taps, "k": k, "ldb": nr * spec.group if spec.b_packed else n,
            "panel": self.taps * steps * nr if spec.b_packed else nr,
            "m": m, "n": n, "n_batch": z, "mb": mb, "nb": nb, "ub": ub or mb,
        }  # fmt: skip
        arrays = {"a": a, "b": packed, "c": c, "rows_a": rows_a, "rows_c": rows_c, "taps": taps}
        jumps = [a[0].size, packed[0].size, c[0].size]
        operands = []
        for i, kind in enumerate(spec.operands):
            assert spec.epilogue is not None
            shape = {"n": (n,), "mn": (m, ldc), "m": (m,), "1": (1,)}[kind]
            op = self.numbers(rng, spec.epilogue.args[1 + i], z, *shape)
            arrays[f"op{i}"] = op
            jumps.append(op[0].size)
            rows = rng.permutation(m)
            if kind in ("m", "mn"):
                arrays[f"rows{i}"] = (rows * (ldc if kind == "mn" else 1)).astype(np.int32)
            each = {"n": lambda x: x[None, :], "mn": lambda x, r=rows: x[r, :n], "m": lambda x, r=rows: x[r, None]}
            operands.append(np.stack([each.get(kind, lambda x: x[None])(x) for x in op]))
        arrays["batch"] = np.array([[s * i for s in jumps] for i in range(z)], np.int64)
        blocks = spec.blocks(m, n, z, ub or mb, nb)
        slots |= {name: array.ctypes.data for name, array in arrays.items()}
        util.call(spec, target, slots, blocks, list(arrays.values()), checked)
        columns = np.array([t * k + i for t in tap_order for i in range(k)], np.int64)
        wide = np.float64 if spec.acc.is_float else np.int64
        left, right = a[:, order][:, :, columns].astype(wide), b.astype(wide)
        sums, bound = left @ right, np.abs(left) @ np.abs(right)
        expected = self.finish(sums, operands)
        assert (c[:, :, n:] == 7).all(), "wrote past the columns"
        return c[:, c_order, :n].astype(np.float64), expected.astype(np.float64), bound

    def finish(self, sums: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
        body = self.spec.epilogue
        if body is None:
            return sums.astype(self.spec.out.numpy)
        values = [sums.astype(self.spec.sums.numpy), *operands]
        return np.broadcast_to(reference_scalar.evaluate(body, values)[0], sums.shape)


def check(
    problem: Problem, target: Target, mb: int, nb: int, checked: bool = False, tolerance: float = 2e-7, ub: int = 0
) -> None:
    found, expected, bound = problem.run(target, mb, nb, checked, ub)
    if not problem.spec.acc.is_float:
        np.testing.assert_array_equal(found, expected)
        return
    depth = problem.k * problem.taps
    allowed = tolerance * (np.sqrt(depth) + 2) * (bound + np.abs(expected) + 1)
    worst = np.abs(found - expected) - allowed
    assert (worst <= 0).all(), (
        f"off by {np.abs(found - expected).max()} at {np.unravel_index(worst.argmax(), worst.shape)}"
    )


def relu_bias() -> Body:
    return body_of([F32, F32], lambda b, s, bias: b("max", b("add", s, bias), b.const(0, F32)))


@TARGETS
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (5, 17, 3), (16, 48, 8), (23, 50, 33), (40, 100, 7), (9, 33, 64)])
def test_matrix_product(target: Target, packed: bool, m: int, n: int, k: int) -> None:
    spec = ContractSpec(F32, F32, F32, F32, *TILES.get(target.name, (4, 2)), b_packed=packed)
    nr = spec.nr(target)
    check(Problem(spec, m, n, k), target, m, -(-n // nr) * nr)
    check(Problem(spec, m, n, k, batches=3), target, 8, nr, checked=True)


@TARGETS
@pytest.mark.parametrize("tile", [(1, 1), (1, 4), (2, 3), (4, 1), (5, 2), (14, 1), (7, 3), (4, 3), (2, 5)], ids=str)
def test_every_shape_of_tile(target: Target, tile: tuple[int, int]) -> None:
    spec = ContractSpec(F32, F32, F32, F32, *tile)
    check(Problem(spec, 31, 75, 21, taps=2), target, 2 * tile[0], spec.nr(target), checked=True)


@TARGETS
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9, 16])
def test_taps(target: Target, k: int) -> None:
    for tile in ((1, 2), (8, 1), (6, 3)):
        spec = ContractSpec(F32, F32, F32, F32, *tile)
        check(Problem(spec, 11, 20, k, taps=9), target, 11, 4 * spec.nr(target))
    check(Problem(dataclasses.replace(spec, b_packed=False), 11, 20, k, taps=9), target, 11, 4 * spec.nr(target), True)


@TARGETS
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize(("units", "rows", "columns"), [(1, 2, 1), (3, 1, 2), (2, 2, 9)])
def test_units_of_blocks(target: Target, packed: bool, units: int, rows: int, columns: int) -> None:
    """Runs that begin and end within blocks, whose last ones are shorter."""
    tile = TILES.get(target.name, (4, 2))
    spec = ContractSpec(F32, F32, F32, F32, *tile, epilogue=relu_bias(), operands=("n",), b_packed=packed)
    ub = rows * tile[0]
    problem = Problem(spec, 7 * tile[0] + 3, 3 * spec.nr(target) - 2, 5, batches=2)
    check(problem, target, units * ub, columns * spec.nr(target), checked=True, ub=ub)


@TARGETS
@pytest.mark.parametrize("k", [1, 6, 33])
def test_many_rows(target: Target, k: int) -> None:
    tile = TILES[target.name]
    spec = ContractSpec(F32, F32, F32, F32, *tile, epilogue=relu_bias(), operands=("n",), many_rows=True)
    nr = spec.nr(target)
    check(Problem(spec, 12 * tile[0] + 1, 3 * nr - 2, k, taps=2), target, 4 * tile[0], 2 * nr, checked=True)


@pytest.mark.parametrize("fetches", [False, True])
@pytest.mark.parametrize("tile", [(8, 3), (13, 2), (14, 2)], ids=str)
def test_tall_tiles_with_and_without_asking_ahead(tile: tuple[int, int], fetches: bool) -> None:
    for target in util.TARGETS:
        if target.vector_registers >= 32:
            own = dataclasses.replace(target, fetches_ahead=fetches)
            spec = ContractSpec(F32, F32, F32, F32, *tile, epilogue=relu_bias(), operands=("n",))
            nr = spec.nr(own)
            check(Problem(spec, 3 * tile[0] + 5, 3 * nr - 2, 35, taps=2), own, 2 * tile[0], 2 * nr, checked=True)


@TARGETS
@pytest.mark.parametrize("rows", [12, 200])
def test_lines_are_asked_for_once_or_not_at_all(target: Target, rows: int) -> None:
    """With few tiles of rows each turn asks for a line of its own, with many for none."""
    tile = TILES.get(target.name, (4, 2))
    problem = Problem(ContractSpec(F32, F32, F32, F32, *tile), rows, 70, 37)
    for own in (target, dataclasses.replace(target, asks_in_vain=True)):
        check(problem, own, -(-rows // tile[0]) * tile[0], 2 * problem.spec.nr(own), checked=True)


@pytest.mark.parametrize("tile", [(1, 1), (1, 5), (9, 3), (5, 5), (12, 1)], ids=str)
def test_vectors_of_half_the_width(tile: tuple[int, int]) -> None:
    for target in util.TARGETS:
        spec = ContractSpec(F32, F32, F32, F32, *tile, epilogue=relu_bias(), operands=("n",), narrow=True)
        if target.vector_bytes > 16:
            assert spec.nr(target) * 2 == dataclasses.replace(spec, narrow=False).nr(target)
            check(Problem(spec, 31, 75, 21, taps=2), target, 2 * tile[0], spec.nr(target), checked=True)
            plain = dataclasses.replace(spec, b_packed=False)
            check(Problem(plain, 31, 75, 21), target, 31, 2 * spec.nr(target), checked=True)


def test_an_empty_sum_is_zero() -> None:
    target = util.TARGETS[-1]
    spec = ContractSpec(F32, F32, F32, F32, 4, 1, epilogue=relu_bias(), operands=("n",))
    check(Problem(spec, 6, 10, 1, taps=0), target, 6, spec.nr(target))


@TARGETS
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_epilogue_with_all_kinds_of_operands(target: Target, checked: bool) -> None:
    body = body_of(
        [F32, F32, F32, F32, F32], lambda b, s, n, mn, m, one: b("sub", b("add", b("mul", b("add", s, n), m), mn), one)
    )
    for tile in ((4, 2), (1, 4)):
        spec = ContractSpec(F32, F32, F32, F32, *tile, epilogue=body, operands=("n", "mn", "m", "1"))
        check(Problem(spec, 13, 39, 10, batches=2), target, 4, spec.nr(target), checked, 1e-6)


@TARGETS
def test_long_epilogue(target: Target) -> None:
    gelu = body_of(
        [F32, F32],
        lambda b, s, bias: b(
            "mul",
            b("mul", b("add", s, bias), b.const(0.5, F32)),
            b("add", b("erf", b("mul", b("add", s, bias), b.const(0.7071067811865476, F32))), b.const(1.0, F32)),
        ),
    )
    spec = ContractSpec(F32, F32, F32, F32, *TILES.get(target.name, (4, 2)), epilogue=gelu, operands=("n",))
    check(Problem(spec, 21, 60, 30), target, 21, 8 * spec.nr(target), tolerance=1e-6)
    check(Problem(spec, 21, 60, 30), target, 8, spec.nr(target), True, tolerance=1e-6)


@TARGETS
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize(
    ("a", "b", "acc", "out", "tolerance"),
    [
        (F32, F16, F32, F32, 2e-7), (F32, BF16, F32, F32, 2e-7), (F16, F16, F32, F16, 2e-3),
        (BF16, BF16, F32, BF16, 1e-2),
        (F64, F64, F64, F64, 1e-15), (U8, I8, I32, I32, 0), (I8, U8, I32, I32, 0), (I8, I8, I32, I32, 0),
        (I32, I32, I32, I32, 0), (I64, I64, I64, I64, 0),
    ],
    ids=lambda v: v.value if isinstance(v, DType) else "",
)  # fmt: skip
def test_element_types(
    target: Target, packed: bool, a: DType, b: DType, acc: DType, out: DType, tolerance: float
) -> None:
    for tile in ((4, 2), (1, 2)):
        spec = ContractSpec(a, b, acc, out, *tile, b_packed=packed)
        check(Problem(spec, 10, 37, 19, taps=2), target, 10, 2 * spec.nr(target), True, tolerance)


@TARGETS
def test_integer_sums_to_requantised_bytes(target: Target) -> None:
    def body(b: object, s: int, scale: int) -> int:
        return b.cast(b("round", b("mul", b.cast(s, F32), scale)), I8)  # type: ignore[operator, attr-defined]

    spec = ContractSpec(U8, I8, I32, I8, 4, 2, epilogue=body_of([I32, F32], body), operands=("n",))
    check(Problem(spec, 9, 45, 30), target, 9, 2 * spec.nr(target), True)


@TARGETS
def test_result_may_replace_an_operand(target: Target) -> None:
    """A residual sum in place: C is the memory of the "mn" operand."""
    spec = ContractSpec(
        F32, F32, F32, F32, 4, 1, epilogue=body_of([F32, F32], lambda b, s, r: b("add", s, r)), operands=("mn",)
    )
    m, n, k, nr = 7, 21, 5, spec.nr(target)
    rng = np.random.default_rng(1)
    a, b, c = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    expected = a.astype(np.float64) @ b + c
    packed, rows_a, rows_c = pack_b(b, nr), np.arange(m, dtype=np.int32) * k, np.arange(m, dtype=np.int32) * n
    taps, batch = np.zeros(1, np.int32), np.zeros((1, 4), np.int64)
    arrays = [a, packed, c, rows_a, rows_c, taps, batch]
    slots = dict(zip("a b c rows_a rows_c taps batch".split(), (x.ctypes.data for x in arrays), strict=True))
    slots |= {"op0": c.ctypes.data, "rows0": rows_c.ctypes.data, "n_taps": 1, "k": k, "ldb": nr, "panel": k * nr}
    slots |= {"m": m, "n": n, "n_batch": 1, "mb": 4, "nb": nr, "ub": 4}
    util.call(spec, target, slots, spec.blocks(m, n, 1, 4, nr), arrays, checked=True)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


def test_infinities_and_nan_stay_in_their_rows() -> None:
    target = util.TARGETS[-1]
    spec = ContractSpec(F32, F32, F32, F32, 4, 1)
    problem = Problem(spec, 9, 20, 6)

    def numbers(rng: np.random.Generator, dtype: DType, *shape: int) -> np.ndarray:
        x = rng.uniform(-1, 1, shape).astype(dtype.numpy)
        if shape[1] == 9:
            x[0, 2, 1], x[0, 5, 0] = np.inf, np.nan
        return x

    problem.numbers = numbers  # type: ignore[method-assign]
    found, expected, _ = problem.run(target, 9, spec.nr(target) * 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(found).any(axis=2).sum() == 1


HOST = host_target()
PAIRS = pytest.mark.skipif(group_of(HOST, BF16) == 1, reason="this processor has no products of bf16 pairs")


@PAIRS
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize("tile", [(1, 1), (1, 4), (8, 3), (14, 1)], ids=str)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 32])
def test_pairs_of_products(packed: bool, tile: tuple[int, int], k: int) -> None:
    for out, tolerance in ((F32, 3e-7), (BF16, 4e-3)):
        spec = ContractSpec(BF16, BF16, F32, out, *tile, b_packed=packed, group=2)
        taps = 3 if packed else 1
        check(Problem(spec, 19, 75, k, taps=taps), HOST, 19, 2 * spec.nr(HOST), tolerance=tolerance)
        check(Problem(spec, 9, 39, k, taps=taps, batches=2), HOST, 8, spec.nr(HOST), True, tolerance)
        if HOST.vector_bytes == 64:
            half = dataclasses.replace(spec, narrow=True)
            check(Problem(half, 19, 75, k, taps=taps), HOST, 19, 2 * half.nr(HOST), True, tolerance)


@PAIRS
def test_pairs_do_not_see_what_lies_behind_an_odd_run() -> None:
    problem = Problem(ContractSpec(BF16, BF16, F32, F32, 4, 1, group=2), 9, 20, 5)

    def numbers(rng: np.random.Generator, dtype: DType, *shape: int) -> np.ndarray:
        x = rng.uniform(-1, 1, shape).astype(dtype.numpy)
        if shape[1] == 9:
            x[:, :, 5:] = np.nan  # the space between rows
            x[0, 2, 4], x[0, 5, 0] = np.inf, np.nan
        return x

    problem.numbers = numbers  # type: ignore[method-assign]
    found, expected, _ = problem.run(HOST, 9, 2 * problem.spec.nr(HOST))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(found).any(axis=2).sum() == 1


def test_groups_need_bf16() -> None:
    with pytest.raises(ValueError, match="groups"):
        ContractSpec(F32, BF16, F32, F32, 4, 1, group=2)


def test_pack_b() -> None:
    b = np.arange(15).reshape(3, 5)
    packed = pack_b(b, 4)
    assert packed.shape == (2, 3, 4)
    np.testing.assert_array_equal(packed[0], b[:, :4])
    np.testing.assert_array_equal(packed[1], [[4, 0, 0, 0], [9, 0, 0, 0], [14, 0, 0, 0]])


@pytest.mark.parametrize("name", ["sse4.1", "avx2", "avx512", "neon"])
def test_sums_stay_in_registers(name: str) -> None:
    """No vector is stored to or loaded from the stack, whatever tile the model chooses for large products."""
    target = named_target(name)
    vectors = {"x86": ("mm",), "aarch64": ("q",)}[target.family]
    for m, n, k in [(3136, 64, 64), (784, 480, 256), (49, 512, 512), (12544, 32, 27), (128, 768, 768)]:
        spec = ContractSpec(F32, F32, F32, F32, *choose_tile(target, m, n, k))
        text = toolchain.assembly(spec.emit(target), target, spec.shaped)
        stack = [line for line in text.splitlines() if "(%rsp)" in line or "[sp" in line]
        moved = [s for s in stack if any(f"%{p}{v}" in s for p in "xyz" for v in vectors) or "\tq" in s]
        assert not moved, (spec, moved)


@pytest.mark.parametrize("many_rows", [False, True])
@pytest.mark.parametrize("tile", [(4, 3), (2, 5)])
def test_tiles_of_all_registers(tile: tuple[int, int], many_rows: bool) -> None:
    """They fit, whatever else a loop holds, and are chosen for whom they suit."""
    target = named_target("avx2")
    assert fills_registers(target, *tile)
    spec = ContractSpec(F32, F32, F32, F32, *tile, many_rows=many_rows)
    text = toolchain.assembly(spec.emit(target), target, spec.shaped)
    assert not [line for line in text.splitlines() if "(%rsp)" in line and "%ymm" in line]
    n = tile[1] * target.lanes(F32)
    assert choose_tile(with_all_registers(target), 196, n, 240) == tile
    assert choose_tile(target, 196, n, 240) != tile, "bf16 operands need registers on the way"
    assert with_all_registers(named_target("avx512")) is named_target("avx512")


@pytest.mark.parametrize(
    "bad",
    [
        {"a": F64},
        {"a": F64, "b": F64, "acc": F64, "narrow": True},
        {"mr": 0},
        {"operands": ("n",)},
        {"epilogue": relu_bias()},
        {"epilogue": relu_bias(), "operands": ("x",)},
        {"epilogue": relu_bias(), "operands": ("n",), "out": F16},
    ],
)
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"contraction|half|tile|operands|epilogue"):
        dataclasses.replace(ContractSpec(F32, F32, F32, F32, 4, 2), **bad)  # type: ignore[arg-type]
