"""Shapes of inputs: given on the command line, the model's own, and ones that it can run with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

from MNN.errors import MNNError, ShapeError
from MNN.formatting import dims
from MNN.ir.graph import Graph, Value
from MNN.ops.inference.shape_check import misfits
from MNN.runtime.info import TensorInfo
from MNN.runtime.session import UNNAMED, Session

_PICTURES = (224, 640, 320, 256, 512, 384, 128, 64, 32, 8)
"""Heights and widths that networks for pictures are made for, tried in this order."""
_OTHERS = (8, 16, 32, 64, 128, 256, 512, 1024)

MOST = 1 << 48
"""Numbers of a tensor; an array of many more cannot even be asked for."""

Shapes = Mapping[str, tuple[int, ...]]


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["x=1x3x224x224"]`` to ``{"x": (1, 3, 224, 224)}``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, separator, sizes_text = text.rpartition("=")
        sizes = sizes_text.replace(",", "x").split("x")
        if not separator or not name or not all(s.isdecimal() and len(s) <= 18 for s in sizes):
            raise MNNError(f"--shape takes NAME=1x3x224x224, not '{text}'")
        if math.prod(max(int(s), 1) for s in sizes) > MOST:
            raise MNNError(f"--shape {text}: so many numbers fit in no memory; try smaller sizes")
        if name in shapes:
            raise MNNError(f"--shape gives '{name}' twice: {dims(shapes[name])} and {sizes_text}; leave one out")
        shapes[name] = tuple(int(s) for s in sizes)
    return shapes


def concrete_shape(session: Session, info: TensorInfo, given: Shapes) -> tuple[int, ...]:
    """The shape to use for an input: as given, else the model's own, where a first size that is open counts as 1."""
    if info.name in given:
        return given[info.name]
    if info.shape is None:
        raise ShapeError(
            f"the model does not say the shape of input '{info.name}'; give it: --shape {info.name}=1x3x224x224"
        )
    sizes = [1 if i == 0 and isinstance(d, str) else d for i, d in enumerate(info.shape)]
    if any(isinstance(d, str) for d in sizes):
        found = suggestion(session.graph, given)
        if found:
            advice = "give them, for example " + " ".join(f"--shape {n}={dims(s)}" for n, s in found.items())
        else:
            advice = f"give sizes that it was made for: --shape {info.name}={'x'.join(map(_letter, sizes))}"
        raise ShapeError(f"input '{info.name}' ({dims(info.shape)}) has open sizes; {advice}")
    return tuple(int(d) for d in sizes)


def _letter(size: int | str) -> str:
    return str(size) if isinstance(size, int) else "N"


def suggestion(graph: Graph, given: Shapes) -> dict[str, tuple[int, ...]]:
    """Shapes for the inputs with open sizes which fit all operators whose shapes are known before a run; empty when
    none of the usual sizes do, or branches and loops hide whether they do. What is the first size of an input, a batch,
    is 1 wherever it stands."""
    if any(True for node in graph.nodes for _ in node.subgraphs()):
        return {}
    inputs = [v for v in graph.inputs if not v.is_const]
    asked = [v for v in inputs if v.name not in given and v.shape is not None and any(map(_open, v.shape[1:]))]
    declared = {v: v.shape for v in inputs}
    ones = {v.shape[0] for v in inputs if v.shape and _open(v.shape[0]) and v.shape[0] != UNNAMED}
    usual = _PICTURES if any(_is_picture(v) for v in asked) else _OTHERS
    try:
        for size in usual:
            for v in inputs:
                v.shape = given.get(v.name) or _closed(declared[v], size, ones)
            if next(iter(misfits(graph)), None) is None:
                return {v.name: tuple(int(d) for d in v.shape or ()) for v in asked}
    finally:
        for v, shape in declared.items():
            v.shape = shape
    return {}


def _open(size: object) -> bool:
    return isinstance(size, str)


def _is_picture(value: Value) -> bool:
    shape = value.shape or ()
    return len(shape) == 4 and ((shape[1] in (1, 3) and _open(shape[2])) or (shape[3] in (1, 3) and _open(shape[1])))


def _closed(shape: Sequence[int | str] | None, size: int, ones: Set[object]) -> tuple[int | str, ...] | None:
    if shape is None:
        return None
    return tuple(d if not isinstance(d, str) else 1 if d in ones or not i else size for i, d in enumerate(shape))


def batched_shapes(session: Session, given: Shapes, batch: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs with ``batch`` as first size, where that is open or 1 and was not ``given``.

    The session takes them even if the model declares a batch of 1.
    """
    shapes: dict[str, tuple[int, ...]] = dict(given)
    for info in session.inputs.values():
        shape = concrete_shape(session, info, given)
        if info.name not in given and shape and shape[0] == 1:
            shapes[info.name] = (batch, *shape[1:])
            if info.shape is not None and info.shape[0] == 1:
                session.inputs[info.name] = TensorInfo(info.name, info.dtype, (UNNAMED, *info.shape[1:]))
    return shapes
