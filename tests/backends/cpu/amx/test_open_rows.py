"""Products on tiles of an open number of rows, against numpy in float64: one layout for many sizes."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.cost import panel_bytes
from MNN.backends.cpu.amx.grouping import grouping
from MNN.backends.cpu.amx.layout import DEPTH, Layout, rows_layout
from MNN.backends.cpu.amx.open_rows import AmxOpenPackSpec, AmxOpenSpec
from MNN.backends.cpu.amx.spec import PANEL
from MNN.backends.cpu.amx.tiles import ROW_BYTES
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import util
from tests.backends.cpu.amx.test_half import BOUND
from tests.backends.cpu.amx.test_tiles import BOUNDS, TARGETS

F32, BF16 = DType.F32, DType.BF16
BODY = body_of([F32] * 5, lambda b, s, x, mn, y, one: b("sub", b("add", b("mul", b("add", s, x), y), mn), one))
PLAIN = [AmxOpenSpec(F32, F32, parts, ahead=4) for parts in (1, 2, 3)]
FINISHED = [
    AmxOpenSpec(F32, F32, parts, BODY, ("n", "mn", "m", "1"), overlap=overlap)
    for parts, overlap in ((3, True), (2, True), (2, False))
]
KINDS = [
    *PLAIN,
    *FINISHED,
    AmxOpenSpec(F32, F32, 2, passing=True, w24=True),
    AmxOpenSpec(F32, F32, 2, half=True),
    AmxOpenSpec(F32, F32, 2, BODY, ("n", "mn", "m", "1"), overlap=True, half=True),
    AmxOpenSpec(BF16, BF16, 1),
]


def packed(spec: AmxOpenSpec, target: Target, b: np.ndarray, panels: int, panel: int) -> np.ndarray:
    """B ``[batch, K, N]`` in as many panels as the largest has, with a gap between its rows."""
    z, k, n = b.shape
    source = np.full((z, k, n + 5), np.nan, np.float32).astype(b.dtype)
    source[:, :, :n] = b
    to = np.full((z, panels, panel), 0x7F, np.uint8)  # NaN where nothing is written
    batch = np.array([(i * source[0].size, i * panels * panel) for i in range(z)], np.int64)
    arrays = {"src": source, "dst": to, "rows": np.arange(k, dtype=np.int32) * (n + 5), "batch": batch}
    slots = {name: a.ctypes.data for name, a in arrays.items()}
    slots |= {"n_steps": -(-k // DEPTH), "column": 1, "n": n, "panel": panel, "n_batch": z, "k": k}
    pack = AmxOpenPackSpec(DType.of(b), spec.parts, spec.w24, spec.half)
    util.call(pack, target, slots, z * -(-n // PANEL), list(arrays.values()), checked=True)
    return to


def contract(
    spec: AmxOpenSpec, target: Target, room: Layout, mb: int, columns: tuple[int, int], blocks: int,
    a: np.ndarray, b: np.ndarray, rows: np.ndarray, operands: tuple[np.ndarray, ...], chunk: int,
) -> np.ndarray:  # fmt: skip
    """C ``[batch, m, N]``, in blocks laid out for the ``room``, which has so many columns, each block some of them."""
    z, k, n = b.shape
    m, (most, nb) = rows.size, columns
    panel = panel_bytes(room.n_steps, spec.parts, spec.w24, spec.half)
    right = packed(spec, target, b, -(-most // PANEL), panel)
    c = np.full((z, m, n + 3), 7, spec.out.numpy)
    places = np.random.default_rng(5).permutation(m).astype(np.int32)
    arrays = {"a": a, "b": right, "c": c, "rows_a": rows.astype(np.int32), "rows_c": places * (n + 3)}
    sizes = [a[0].size, right[0].nbytes, c[0].size, *(op[0].size for op in operands)]
    arrays["batch"] = np.array([[s * i for s in sizes] for i in range(z)], np.int64)
    for i, (kind, op) in enumerate(zip(spec.operands, operands, strict=False)):
        arrays[f"op{i}"] = op
        if kind in ("m", "mn"):
            arrays[f"rows{i}"] = (np.arange(m) * (n if kind == "mn" else 1)).astype(np.int32)
    groups = grouping(target, most, nb, room, spec.parts, spec.w24, spec.half, overlap=spec.overlap)
    slots = {name: x.ctypes.data for name, x in arrays.items()}
    slots |= {"m": m, "mb": mb, "m_blocks": blocks, "k": k, "per": (chunk or room.n_steps * DEPTH) // DEPTH}
    slots |= {"pitch": room.pitch, "plane": room.plane, "panel": panel, "n": n, "nb": nb, "n_batch": z}
    slots |= {"group": groups.group, "line": groups.line, "held": groups.held, "fetch": groups.lines * ROW_BYTES}
    util.call(spec, target, slots, z * blocks * -(-n // nb), list(arrays.values()), checked=True)
    assert (c[:, :, n:] == 7).all(), "wrote past the columns"
    return c[:, places, :n].astype(np.float64)


@TARGETS
@pytest.mark.parametrize("spec", KINDS, ids=lambda s: f"{s.parts}{'h' * s.half}{'w' * s.w24}{'e' * bool(s.epilogue)}")
@pytest.mark.parametrize("chunk", [0, 64])
def test_many_sizes_in_one_layout(target: Target, spec: AmxOpenSpec, chunk: int) -> None:
    """Random numbers of rows, columns and depth within one room, blocks without rows among them."""
    rng = np.random.default_rng(spec.parts + chunk)
    room_m, room_n, room_k = 150, 110, 200
    for unit, blocks, nb in ((16, 4, 64), (32, 1, 128), (32, 3, 32)):
        most = -(-room_m // (unit * blocks)) * unit
        room = rows_layout(np.arange(room_m) * room_k, np.zeros(1, np.int64), room_k, most, chunk)
        for m, n, k in [(3, 8, 3), (room_m, room_n, room_k), *rng.integers(3, (150, 110, 200), (3, 3)).tolist()]:
            n = max(n, 8)
            z, length = 2, k + 5
            a = rng.uniform(-1, 1, (z, m * length)).astype(np.float32).astype(spec.a.numpy)
            b = rng.uniform(-1, 1, (z, k, n)).astype(np.float32).astype(spec.a.numpy)
            rows = rng.permutation(m) * length
            shapes = ((z, n), (z, m, n), (z, m), (z, 1))
            ops = tuple(rng.uniform(-1, 1, s).astype(np.float32) for s in shapes) if spec.epilogue else ()
            mb = -(-m // (unit * blocks)) * unit
            found = contract(spec, target, room, mb, (room_n, nb), blocks, a, b, rows, ops, chunk)
            left = a.astype(np.float64)[:, rows[:, None] + np.arange(k)]
            right = b.astype(np.float64)
            want, size = left @ right, np.abs(left) @ np.abs(right)
            if ops:
                x, mn, y, one = (op.astype(np.float64) for op in ops)
                want = (want + x[:, None]) * y[:, :, None] + mn - one[:, None]
                size += 4
            bound = BOUND if spec.half else 2.0**-6.9 if spec.parts == 1 else BOUNDS[spec.parts]
            worst = np.abs(found - want) / ((bound + 2e-7) * size + 1e-30)
            assert worst.max() <= 1, (m, n, k, worst.max())


def test_other_ways_of_bringing_rows_are_refused() -> None:
    for bad in ({"joined": True}, {"lines": True}, {"tall": True}):
        with pytest.raises(ValueError, match="rows of an open number"):
            AmxOpenSpec(F32, F32, 2, **bad)  # type: ignore[arg-type]
