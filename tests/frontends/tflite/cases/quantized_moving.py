"""Operators that only move integers: as they are stored, in every type that LiteRT takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, form
from tests.frontends.tflite.cases.quantized import _input, _q

_SAME: dict[str, Any] = {"reference": True, "steps": 0}
_WIDE = {"GATHER", "SLICE", "STRIDED_SLICE", "PACK", "UNPACK", "CONCATENATION", "SPLIT", "SPLIT_V", "REVERSE_V2",
         "SELECT", "SELECT_V2"}  # fmt: skip
"""Those of 16 bits too."""
_MOVES = ["GATHER", "GATHER_ND", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "PACK", "UNPACK", "TILE", "REVERSE_V2",
          "PADV2", "MIRROR_PAD", "SELECT", "SELECT_V2", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND",
          "BATCH_TO_SPACE_ND", "SQUEEZE", "EXPAND_DIMS", "BROADCAST_TO", "FILL", "DYNAMIC_UPDATE_SLICE",
          "CONCATENATION wide", "WHERE", "SCATTER_ND", "REVERSE_SEQUENCE", "SHAPE"]  # fmt: skip


@form(*(f"{op} quantised" for op in _MOVES))
def moving(d: Draw, name: str) -> Case:
    op = name.split()[0]
    kind = d.one(["INT8", "UINT8", "INT16"] if op in _WIDE else ["INT8", "UINT8"])
    if op in ("FILL", "DYNAMIC_UPDATE_SLICE", "SCATTER_ND"):
        kind = "INT8"
    if op == "REVERSE_SEQUENCE":
        kind = "UINT8"
    q, g = _q(d, kind), d.g

    def made(
        more: list[int], shape: list[int], table: str = "", version: int = 2, given: int | None = None, **v: Any
    ) -> Case:
        return d.case(
            g.made(
                op, [x if given is None else given, *more], shape, kind, table, quantization=q, version=version, **v
            ),
            **_SAME,
        )

    def ints(values: Any) -> int:
        return g.const(values, "int32")

    if op in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"):
        b, h, w, c = 2, d.int(1, 2), d.int(1, 3), d.int(1, 3)
        small, large = [b, h, w, c * b * b], [b, h * b, w * b, c]
        x = _input(d, large if op[0] == "S" else small, kind, q)
        table = "SpaceToDepthOptions" if op[0] == "S" else "DepthToSpaceOptions"
        return made([], small if op[0] == "S" else large, table, version=1, block_size=b)
    if op == "SPACE_TO_BATCH_ND":
        x = _input(d, [1, 3, 4, 2], kind, q)
        return made([ints([2, 2]), ints([[1, 0], [0, 2]])], [4, 2, 3, 2], "SpaceToBatchNDOptions")
    if op == "BATCH_TO_SPACE_ND":
        x = _input(d, [4, 2, 3, 2], kind, q)
        return made([ints([2, 2]), ints([[1, 0], [0, 1]])], [1, 3, 5, 2], "BatchToSpaceNDOptions")
    shape = d.shape(2, 4)
    rank, axis = len(shape), 0
    if op == "FILL":
        value = d.fed(np.asarray(d.int(-128, 127), np.int8), **q)
        return d.case(g.made(op, [ints(shape), value], shape, kind, "FillOptions", quantization=q, version=3), **_SAME)
    if op in ("SQUEEZE",):
        shape[0] = 1
    if op in ("SPLIT", "UNPACK"):
        shape[-1] = 4
    x = _input(d, shape, kind, q)
    if op == "GATHER":
        axis = d.int(0, rank - 1)
        places = ints(d.rng.integers(0, shape[axis], 3))
        return made(
            [places], [*shape[:axis], 3, *shape[axis + 1 :]], "GatherOptions", axis=axis, batch_dims=0, version=4
        )
    if op == "GATHER_ND":
        return made([ints([[shape[0] - 1], [0]])], [2, *shape[1:]], "GatherNdOptions", version=4)
    if op == "SLICE":
        begin = [d.int(0, n - 1) for n in shape]
        size = [n - b for n, b in zip(shape, begin, strict=True)]
        return made([ints(begin), ints(size)], size, "SliceOptions", version=4)
    if op == "STRIDED_SLICE":
        return made(
            [ints([0] * rank), ints(shape), ints([2] * rank)],
            [-(-n // 2) for n in shape],
            "StridedSliceOptions",
            version=4,
        )
    if op == "SPLIT":
        outs = [g.tensor([*shape[:-1], 2], kind, **q) for _ in range(2)]
        g.op(op, [ints(rank - 1), x], outs, "SplitOptions", num_splits=2, version=4)
        return d.case(*outs, **_SAME)
    if op == "SPLIT_V":
        first = d.int(1, shape[-1])
        outs = [g.tensor([*shape[:-1], n], kind, **q) for n in (first, shape[-1] - first) if n]
        g.op(
            op,
            [x, ints([n for n in (first, shape[-1] - first) if n]), ints(rank - 1)],
            outs,
            "SplitVOptions",
            num_splits=len(outs),
            version=2,
        )
        return d.case(*outs, **_SAME)
    if op == "PACK":
        axis = d.int(0, rank)
        return made(
            [_input(d, shape, kind, q)], [*shape[:axis], 2, *shape[axis:]], "PackOptions", axis=axis, values_count=2
        )
    if op == "UNPACK":
        outs = [g.tensor(shape[:-1], kind, **q) for _ in range(4)]
        g.op(op, [x], outs, "UnpackOptions", num=4, axis=-1, version=4)
        return d.case(*outs, **_SAME)
    if op == "TILE":
        times = [d.int(1, 3) for _ in shape]
        return made([ints(times)], [n * t for n, t in zip(shape, times, strict=True)], "TileOptions", version=1)
    if op == "REVERSE_V2":
        return made([ints([rank - 1])], shape, "ReverseV2Options", version=3)
    if op == "REVERSE_SEQUENCE":
        return made(
            [ints(d.rng.integers(1, shape[1] + 1, shape[0]))],
            shape,
            "ReverseSequenceOptions",
            seq_dim=1,
            batch_dim=0,
            version=1,
        )
    if op in ("PADV2", "MIRROR_PAD"):
        pads = [[d.int(0, 1) if n > 1 else 0, d.int(0, 1) if n > 1 else 0] for n in shape]
        out = [n + a + b for n, (a, b) in zip(shape, pads, strict=True)]
        if op == "MIRROR_PAD":
            return made([ints(pads)], out, "MirrorPadOptions", mode=d.one(["REFLECT", "SYMMETRIC"]))
        value = g.const(np.asarray(d.int(0, 100), kind.lower()), **q)
        return made([ints(pads), value], out, "PadV2Options")
    if op in ("SELECT", "SELECT_V2"):
        mask = d.fed(d.array(shape, "BOOL"))
        y = _input(d, shape, kind, q)
        return made([x, y], shape, "SelectOptions" if op == "SELECT" else "SelectV2Options", given=mask, version=1)
    if op == "SQUEEZE":
        return made([], shape[1:], "SqueezeOptions", version=1, squeeze_dims=[0])
    if op == "EXPAND_DIMS":
        return made([ints(1)], [shape[0], 1, *shape[1:]], "ExpandDimsOptions", version=1)
    if op == "BROADCAST_TO":
        return made([ints([2, *shape])], [2, *shape], "BroadcastToOptions", version=3)
    if op == "DYNAMIC_UPDATE_SLICE":
        patch = _input(d, [max(1, n - 1) for n in shape], kind, q)
        return made([patch, ints([d.int(0, 1) for _ in shape])], shape, "DynamicUpdateSliceOptions")
    if op == "CONCATENATION":
        axis, count = d.int(0, rank - 1), d.int(1, 4)
        same = kind != "UINT8"
        more = [_input(d, shape, kind, q if same else _q(d, kind)) for _ in range(count)]
        out = [n * (count + 1) if i == axis else n for i, n in enumerate(shape)]
        case = made(more, out, "ConcatenationOptions", axis=axis - rank if d.flag() else axis, version=3)
        case.steps = 0 if same else 1
        return case
    if op == "WHERE":
        return d.case(g.made(op, [x], [int(np.count_nonzero(d.arrays[0])), rank], "INT64", "WhereOptions"), **_SAME)
    if op == "SCATTER_ND":
        places = d.rng.permutation(9)[: shape[0]].reshape(-1, 1)
        out = [9, *shape[1:]]
        return d.case(g.made(op, [ints(places), x, ints(out)], out, kind, "ScatterNdOptions", quantization=q), **_SAME)
    return d.case(g.made(op, [x], [rank], "INT32", "ShapeOptions", out_type="INT32"), **_SAME)
