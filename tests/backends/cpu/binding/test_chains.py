"""Chains of kernels per block: against numpy, at odd sizes, shared between threads, and with every access checked."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.program import Buffer, Command, Local, Located, Patch, Place, Program, Ref, StageCall
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.binding.chains import ChainTables
from MNN.backends.cpu.chains.stages import Intermediate, local_bytes, stage
from MNN.backends.cpu.codegen.chain import ChainSpec
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.loops.rows import RowSpec
from MNN.compiler import arena
from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr, body_of
from tests.hostile.checked import CheckedProgram

F32 = DType.F32
BOUND = pytest.mark.parametrize("bind", [BoundProgram, CheckedProgram])


class Plan:
    """Collects the tensors and the one chain of a program."""

    def __init__(self) -> None:
        self.inputs: list[Located] = []
        self.outputs: list[Located] = []
        self.error = Buffer(0)

    def tensor(self, *shape: int, out: bool = False) -> Ref:
        buffer = Buffer(4 * int(np.prod(shape)), pinned=True)
        strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        (self.outputs if out else self.inputs).append(Located(F32, shape, Place(buffer, 0, strides)))
        return Ref(buffer, 0)

    def program(self, *commands: Command) -> Program:
        buffers = [t.place.buffer for t in (*self.inputs, *self.outputs)]
        total = arena.plan(commands, buffers)
        return Program(list(commands), self.inputs, self.outputs, total, self.error)


def table(values: np.ndarray) -> Ref:
    data = np.ascontiguousarray(values)
    return Ref(Buffer(data.nbytes, const=data), 0)


def rows(count: int, step: int) -> Ref:
    return table((np.arange(count) * step).astype(np.int32))


def command(kernel: KernelSpec, blocks: int, **args: int | Ref) -> Command:
    return Command(kernel, {s: args[s] for s in kernel.slots()}, blocks, 1, type(kernel).__name__)


def contract(
    m: int, n: int, k: int, mb: int, z: int, steps: tuple[int, int, int], lds: tuple[int, int], **args: Ref
) -> Command:
    """``z`` products with plain B; ``steps`` from batch to batch of a, b and c, ``lds`` the row strides of a and c."""
    spec = ContractSpec(F32, F32, F32, F32, 4, 1, False)
    batch = np.arange(z, dtype=np.int64)[:, None] * np.array([steps])
    nb = 2 * spec.nr(shared_library(cache=True).target)
    given: dict[str, int | Ref] = {"a": 0, "b": 0, "c": 0, **args}
    return command(
        spec, spec.blocks(m, n, z, mb, nb), rows_a=rows(m, lds[0]), rows_c=rows(m, lds[1]), taps=rows(1, 0), n_taps=1,
        k=k, ldb=n, panel=spec.nr(shared_library(cache=True).target), m=m, n=n, batch=table(batch), n_batch=z,
        mb=mb, nb=nb, ub=mb, **given,
    )  # fmt: skip


def softmax(z: int, m: int, n: int, ld: int) -> Command:
    def build(b, x):
        top = b._add(Instr("reduce.max", (x,), F32))
        e = b("exp", b("sub", x, top))
        return b("div", e, b._add(Instr("reduce.sum", (e,), F32)))

    spec = RowSpec(body_of([F32], build), 3, ("1",), ("1",))
    names: dict[str, int | Ref] = {"extent0": z, "extent1": m, "extent2": n}
    for name in ("in0", "out0"):
        names |= {name: 0, f"{name}_s0": 0, f"{name}_s1": ld}
    return command(spec, z * m, **names)


def run(bind, program: Program, arrays: list[np.ndarray], threads: int) -> np.ndarray:
    bound = bind(program, shared_library(cache=True))
    bound.run(arrays, threads)
    return bound.run(arrays, threads)[0]


@BOUND
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("mb", [1, 8, 12, 37])
def test_two_products_with_a_softmax_between(bind, threads: int, mb: int) -> None:
    z, m, n, d, dv = 3, 37, 45, 19, 21
    ld = 48
    plan = Plan()
    q, k, v, out = plan.tensor(z, m, d), plan.tensor(z, d, n), plan.tensor(z, n, dv), plan.tensor(z, m, dv, out=True)
    here = {"base": Local(64), "step": -mb * ld * 4}
    first = contract(m, n, d, mb, z, (m * d, d * n, 0), (d, ld), a=q, b=k)
    last = contract(m, dv, n, mb, z, (0, n * dv, m * dv), (ld, dv), b=v, c=out)
    rows_of = softmax(z, m, n, ld)
    inner = -(-m // mb)
    stages = (
        StageCall(first, first.blocks // z // inner, patches=(Patch("c", **here),)),
        StageCall(rows_of, mb, patches=(Patch("in0", **here), Patch("out0", **here))),
        StageCall(last, last.blocks // z // inner, patches=(Patch("a", **here),)),
    )
    chain = Command(ChainSpec(), {}, z * inner, 1, stages=stages, inner=inner, local_bytes=64 + mb * ld * 4)
    assert {b.nbytes for b in chain.buffers()} == {4 * z * m * d, 4 * z * d * n, 4 * z * n * dv, 4 * z * m * dv}
    rng = np.random.default_rng(mb)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in plan.inputs]
    found = run(bind, plan.program(chain), arrays, threads)
    scores = np.exp(arrays[0].astype(np.float64) @ arrays[1])
    np.testing.assert_allclose(found, scores / scores.sum(-1, keepdims=True) @ arrays[2], rtol=0, atol=1e-5)


@BOUND
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mb", [5, 16, 50])
def test_repeated_stages_with_moving_addresses_and_extents(bind, threads: int, mb: int) -> None:
    m, k, hidden, n = 50, 23, 33, 18
    plan = Plan()
    x, w1, w2, out = plan.tensor(m, k), plan.tensor(k, hidden), plan.tensor(hidden, n), plan.tensor(m, n, out=True)
    first = contract(mb, hidden, k, mb, 1, (0, 0, 0), (k, hidden), b=w1)
    last = contract(mb, n, hidden, mb, 1, (0, 0, 0), (hidden, n), b=w2)
    extent = Patch("m", m, -mb, limit=mb)
    blocks = -(-m // mb)
    stages = (
        StageCall(first, repeated=True, patches=(Patch("a", x, mb * k * 4), Patch("c", Local(0)), extent)),
        StageCall(last, repeated=True, patches=(Patch("a", Local(0)), Patch("c", out, mb * n * 4), extent)),
    )
    chain = Command(ChainSpec(), {}, blocks, 1, stages=stages, inner=blocks, local_bytes=mb * hidden * 4)
    rng = np.random.default_rng(mb)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in plan.inputs]
    found = run(bind, plan.program(chain), arrays, threads)
    np.testing.assert_allclose(found, arrays[0].astype(np.float64) @ arrays[1] @ arrays[2], rtol=0, atol=2e-4)


@BOUND
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mb", [4, 16])
def test_neighbouring_blocks_may_overlap(bind: type[BoundProgram], threads: int, mb: int) -> None:
    """Rows ``i - 1`` to ``i + 1`` of a first product take part in row ``i``; outside of it there are zeros."""
    z, m, k, n = 2, 19, 7, 18
    plan = Plan()
    x, w, v = plan.tensor(z, m, k), plan.tensor(k, n), plan.tensor(3 * n, n)
    out = plan.tensor(z, m, n, out=True)
    row, need = n * 4, mb + 2
    held = Buffer(0)
    first = contract(m, n, k, 1, z, (m * k, 0, (m + 2) * n), (k, n), a=x, b=w, c=Ref(held, row))
    last = contract(m, n, 3 * n, mb, z, ((m + 2) * n, 0, m * n), (n, n), a=Ref(held, 0), b=v, c=out)
    inner = -(-m // mb)
    zero = MapSpec(body_of([], lambda b: b.const(0.0, F32)), 2, (), ("1",))
    ends = {"extent0": z, "extent1": n, "chunk": n, "out0_s0": (m + 2) * n}
    above = command(zero, z, **ends, out0=Ref(held, 0))
    below = command(zero, z, **ends, out0=Ref(held, (m + 1) * row))
    kept = [Intermediate(held, need * row, (m + 2) * row, mb * row)]
    per, columns = last.blocks // z // inner, first.blocks // z // m
    stages = (
        stage(above, kept, mb, count=need),
        stage(first, kept, columns * mb, shift=-columns, count=columns * need),
        stage(below, kept, mb, shift=-(m + 1), count=need),
        stage(last, kept, per),
    )
    chain = Command(ChainSpec(), {}, z * inner, 1, stages=stages, inner=inner, local_bytes=local_bytes(kept))
    rng = np.random.default_rng(mb)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in plan.inputs]
    found = run(bind, plan.program(chain), arrays, threads)
    middle = np.pad(arrays[0].astype(np.float64) @ arrays[1], ((0, 0), (1, 1), (0, 0)))
    wanted = sum(middle[:, j : j + m] @ arrays[2][j * n : (j + 1) * n] for j in range(3))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_blocks_that_cannot_be_cut_evenly_are_refused() -> None:
    odd = StageCall(softmax(3, 5, 4, 4), 1)
    chain = Command(ChainSpec(), {}, 4, 1, stages=(odd,), inner=2)
    with pytest.raises(ValueError, match="15 blocks cannot be cut into 2"):
        ChainTables(chain, [0], lambda ref: 0, shared_library(cache=True).target)
