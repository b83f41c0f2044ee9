"""The recurrent kernel against the reference implementation: targets of this machine, checked builds, AArch64."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from MNN.backends.cpu.products.dot8 import can_lend_signs, has_dot4, moved
from MNN.backends.cpu.recurrence.emit_quantized import pack_recurrent
from MNN.backends.cpu.recurrence.phases import words
from MNN.backends.cpu.recurrence.spec import RecurrenceSpec
from MNN.backends.cpu.recurrence.stages import handed_on
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Recurrence, Tensor
from MNN.ir.scalar import ENTRIES
from MNN.ops.sequences.recurrent_cells import Cell, activation
from MNN.ops.sequences.recurrent_integer import IntegerStep
from MNN.reference.primitives import evaluate
from tests.backends.cpu import qemu, util
from tests.backends.cpu.util import TARGETS, call

_USUAL = [activation(n, None, None, 0.0) for n in ("sigmoid", "tanh", "tanh")]
_IDS = [t.name for t in TARGETS]
WAYS = [("LSTM", False, 3), ("LSTM", False, 0), ("GRU", True, 1), ("GRU", False, 0), ("RNN", False, 0)]
QUANTIZED = [
    contraction_algorithm
    for contraction_algorithm in WAYS
    if contraction_algorithm[0] != "GRU" or contraction_algorithm[1]
]
T, B, H, REVERSE = 4, 9, 21, (False, True)
_UNWRITTEN = -77777


def pack(r: np.ndarray, gates: int, first: int, count: int, spec: RecurrenceSpec, target: Target) -> np.ndarray:
    """``r[D, G*H, H]`` as the kernel reads it (f32)."""
    lanes, width = spec.lanes(target), spec.width(target)
    tiles = -(-H // width)
    d = r.shape[0]
    whole = np.zeros((d, count, tiles * width, H), np.float32)
    whole[:, :, :H] = r.reshape(d, gates, H, H)[:, first : first + count]
    columns = whole.reshape(d, count, tiles, spec.vectors, lanes, H).transpose(0, 2, 3, 1, 4, 5)
    parts = columns.reshape(d, tiles, -1, spec.columns, lanes, H)
    return np.ascontiguousarray(parts.transpose(0, 1, 2, 5, 3, 4))


def run(
    kind: str, after: bool, parameters: int, target: Target, parts: int, calls: object,
    weights: DType = DType.F32, quantized: bool = False, signs: bool = False, **more: object,
) -> None:  # fmt: skip
    """Runs a layer of two directions and compares everything it gives."""
    rng = np.random.default_rng(1)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    d, n = len(REVERSE), 2 if kind == "LSTM" else 1

    def some(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32) * 0.5

    step = Cell(kind, *_USUAL, parameters, False, after).step(DType.F32)
    arrays = [some(T, B, d, gates * H), some(d, gates * H, H), *(some(d, B, H) for _ in range(n))]
    arrays += [some(d, H) for _ in range(parameters)] + [rng.integers(1, T + 1, B)]
    if quantized:
        arrays[1] = rng.integers(-127 if signs else -128, 128, arrays[1].shape).astype(np.int8)
        arrays.append(rng.uniform(0.002, 0.006, (d, gates * H)).astype(np.float32))
    prim = Recurrence(
        [Tensor(DType.of(a), a.shape) for a in arrays], body=step.body, first=step.first, gates=gates,
        reverse=REVERSE, parameters=parameters, limited=True, quantized=quantized,
    )  # fmt: skip
    want = evaluate(prim, arrays, [(DType.F32, (T, d, B, H)), *[(DType.F32, (d, B, H))] * n])
    spec = RecurrenceSpec(
        DType.F32, weights, gates, step.body, step.first, parameters, True, 2, 2, 2, parts > 1, quantized, 8, signs
    )
    found = computed(prim, spec, arrays, want, target, parts, calls, **more)
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-3 if quantized else 2e-6)


def computed(
    prim: Recurrence, spec: RecurrenceSpec, arrays: list[np.ndarray], want: list[np.ndarray], target: Target,
    parts: int, calls: object, **more: object,
) -> list[np.ndarray]:  # fmt: skip
    """What the kernel makes of the operands of a primitive."""
    d, n, gates, parameters = len(REVERSE), prim.states, prim.gates, prim.parameters
    tiles = -(-H // spec.width(target))
    parts = min(parts, tiles)
    spec = dataclasses.replace(spec, shared=parts > 1)
    pitch = tiles * spec.width(target)
    work = np.full((d, spec.planes() * B * pitch), _UNWRITTEN, want[0].dtype)
    found = [np.full(w.shape, _UNWRITTEN, w.dtype) for w in want]
    memory = {"given": arrays[0], "work": work, "y": found[0]}
    memory |= {"lengths": arrays[2 + n + parameters]} if prim.limited else {}
    memory |= {f"table{i}": arrays[i - prim.tables] for i in range(prim.tables)}
    if prim.quantized:
        moves = spec.weights is DType.I8 and not spec.signs
        point = prim.zero + (128 + moved(target, DType.U8) if moves else 0) if prim.whole else None
        scales = None if prim.whole else arrays[-1]
        shape = (spec.vectors, spec.columns, spec.lanes(target))
        memory["r"] = pack_recurrent(arrays[1], scales, gates, shape, spec.weights, point)
    else:
        memory["r"] = pack(arrays[1], gates, 0, spec.direct, spec, target)
    slots = {"steps": T, "batch": B, "hidden": H, "backward": 2, "pitch": pitch, "r_d": memory["r"][0].size}
    if spec.first is not None:
        memory["q"] = pack(arrays[1], gates, spec.direct, 1, spec, target)
        slots["q_d"] = memory["q"][0].size
    slots |= {"given_t": B * d * gates * H, "given_b": d * gates * H, "given_d": gates * H}
    slots |= {"y_t": d * B * H, "y_d": B * H, "y_b": H}
    for i in range(n):
        memory |= {f"from{i}": arrays[2 + i], f"to{i}": found[1 + i]}
        slots |= {f"from{i}_d": B * H, f"from{i}_b": H, f"from{i}_h": 1, f"to{i}_d": B * H, f"to{i}_b": H}
    for i in range(parameters):
        memory[f"param{i}"], slots[f"param{i}_d"] = arrays[2 + n + i], H
    blocks = d * 2
    if spec.shared:
        share = -(-tiles // parts)
        parts = -(-tiles // share)
        memory["sync"], blocks = np.zeros((d, words(parts)), np.int64), d * parts
        slots |= {"parts": parts, "share": share}
    else:
        slots["span"] = 5
    slots |= {name: a.ctypes.data for name, a in memory.items()}
    calls(spec, target, slots, blocks, list(memory.values()), **more)  # type: ignore[operator]
    return found


@pytest.mark.parametrize(("kind", "after", "parameters"), WAYS)
@pytest.mark.parametrize("target", TARGETS, ids=_IDS)
@pytest.mark.parametrize("parts", [1, 3])
def test_checked(kind: str, after: bool, parameters: int, target: Target, parts: int) -> None:
    """Exact bounds; one worker does the parts of workers that never come."""
    run(kind, after, parameters, target, parts, call, checked=True)
    run(kind, after, parameters, target, parts, call)


@pytest.mark.parametrize(("kind", "after", "parameters"), QUANTIZED)
@pytest.mark.parametrize("target", TARGETS, ids=_IDS)
@pytest.mark.parametrize("weights", [DType.I8, DType.F32], ids=lambda d: d.value)
def test_quantized(kind: str, after: bool, parameters: int, target: Target, weights: DType) -> None:
    """A state on the border of two integers may go to either; else the sums are the same."""
    for parts in (1, 3):
        for signs in {False, weights is DType.I8 and can_lend_signs(target)}:
            run(kind, after, parameters, target, parts, call, weights, True, signs, checked=True)
            run(kind, after, parameters, target, parts, call, weights, True, signs)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=_IDS)
def test_whole_numbers(coupled: bool, target: Target) -> None:
    """An LSTM of integers has the reference's bits, whatever its bytes are multiplied by: of four gates, or of three
    with peepholes and a limit."""
    rng, holes = np.random.default_rng(coupled), coupled
    d, gates = len(REVERSE), 4 - coupled
    factors = tuple((int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-8, -4))) for _ in range(gates))
    seen = tuple((int(rng.integers(1 << 30, 1 << 31)), -14) for _ in range(gates - 1)) if holes else ()
    step = IntegerStep(factors, seen, int(rng.integers(0, 4)), 9000 if holes else 0, (1 << 30, -21), 5)

    def some(kind: type, limit: int, *shape: int) -> np.ndarray:
        return rng.integers(-limit, limit, shape).astype(kind)

    arrays = [some(np.int32, 9000, T, B, d, gates * H), some(np.int8, 128, d, gates * H, H)]
    arrays += [some(np.int32, 128, d, B, H), some(np.int32, 1 << 15, d, B, H)]
    arrays += [some(np.int32, 1 << 15, d, H) for _ in seen] + [some(np.int16, 1 << 15, ENTRIES) for _ in range(3)]
    arrays[1][0, 0, 0] = -128
    for signs in {False, can_lend_signs(target)}:
        if signs:
            arrays[1] = np.maximum(arrays[1], np.int8(-127))
        prim = Recurrence(
            [Tensor(DType.of(a), a.shape) for a in arrays], body=step.body(), gates=gates, reverse=REVERSE,
            parameters=len(seen), quantized=True, zero=step.zero, tables=3,
        )  # fmt: skip
        want = evaluate(prim, arrays, [(DType.I32, (T, d, B, H)), *[(DType.I32, (d, B, H))] * 2])
        assert np.unique(want[0]).size > 200  # not all at the ends of the range
        for weights in [DType.F32] if not has_dot4(target) else [DType.I8] if signs else [DType.F32, DType.I8]:
            for parts in (1, 3):
                spec = RecurrenceSpec(
                    DType.I32, weights, gates, prim.body, None, len(seen), False, 2, 1 + coupled, 1, parts > 1, True, 8,
                    signs, 3,
                )  # fmt: skip
                found = computed(prim, spec, arrays, want, target, parts, call, checked=parts == 1)
                for got, expected in zip(found, want, strict=True):
                    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("features", [("neon",), ("dotprod", "neon"), ("dotprod", "i8mm", "neon")], ids="+".join)
def test_quantized_aarch64(features: tuple[str, ...]) -> None:
    qemu.need_tools()
    target = dataclasses.replace(named_target("neon"), features=features)
    for weights in [DType.F32, *([DType.I8] if has_dot4(target) else [])]:
        run("LSTM", False, 3, target, 1, qemu.call, weights, True)


@pytest.mark.parametrize(("kind", "after", "parameters"), WAYS)
def test_aarch64(kind: str, after: bool, parameters: int) -> None:
    qemu.need_tools()
    for parts in (1, 2):
        run(kind, after, parameters, named_target("neon"), parts, qemu.call)


def test_workers_that_meet_after_every_step() -> None:
    """Threads of its own for all blocks, more than there are processors."""

    def threads(spec: RecurrenceSpec, target: Target, slots: dict[str, int], blocks: int, arrays: object) -> None:
        assert spec.shared
        size = max(spec.scratch(target, slots), 64)
        scratch = np.zeros((blocks, size + 128), np.uint8)
        args = np.array([slots[n] for n in spec.slots()], np.int64)
        function = util.ENTRY_TYPE(util.address(spec, target))

        def work(block: int) -> None:
            own = scratch[block].ctypes.data
            function(args.ctypes.data, block, block + 1, own + -own % 64)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(blocks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    weak = TARGETS[0]
    for _ in range(20):
        for kind, after, parameters in WAYS:
            run(kind, after, parameters, weak, 3, threads)


@pytest.mark.parametrize(
    ("kind", "after", "parameters", "room", "handed"),
    [
        ("LSTM", False, 0, 4, 2), ("LSTM", False, 3, 4, 2), ("GRU", True, 1, 3, 3), ("GRU", False, 0, 1, 0),
        ("RNN", False, 0, 1, 0),
    ],
)  # fmt: skip
def test_what_a_stage_hands_on(kind: str, after: bool, parameters: int, room: int, handed: int) -> None:
    """An LSTM's new cell and output gate, a GRU's gate, its share of the old state and what its tangent is of."""
    f, g = activation("sigmoid", None, None, 0), activation("tanh", None, None, 0)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    body = Cell(kind, f, g, g, parameters, False, after).step(DType.F32).body
    states = range(2 * gates, 2 * gates + len(body.outputs))
    assert len(handed_on(body, states, room)) == handed
    assert handed_on(body, states, 1) == ()
