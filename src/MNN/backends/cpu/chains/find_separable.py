"""Finding depthwise convolutions that are worth a chain with the 1x1 convolutions before or after them.

Inverted bottlenecks (Sandler et al. 2018, arXiv:1801.04381) expand, filter and project: the two tensors in between are
the largest of the network. Where they do not fit the second-level cache, a chain over blocks of lines keeps them there.
Lines that two blocks share stay in local memory from one to the next; a worker that begins computes them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.window.emit_window import is_depthwise
from MNN.compiler.fuse import Group
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

NEAR_READ, NEAR_WRITE = 4.0, 10.0
"""Cycles to read a cache line from beyond the second-level cache, and to write one."""
CACHE_LINE = 64
FAR_BYTES_PER_CYCLE = 5.5
"""What passes to and from memory."""
LAST_LEVEL = 12 << 20
"""Tensors larger than this go to memory."""
PASSES = 3
"""A tensor written and read once passes three times: a write also reads."""
LEAST_GAIN = 0.055
"""Part of the time that a chain must save to be taken."""
BLOCKS_PER_THREAD = 4
CACHE_PART, ALONE_PART = 2, 8
"""A block's lines take one part in so many of the second-level cache: with an expansion, whose lines are shared between
blocks, and without one."""
COPY_BYTES_PER_CYCLE = 32.0
"""What lines are copied with in the second-level cache."""


@dataclass(frozen=True)
class Separable:
    """Groups of one chain: ``expand`` (with ``pad`` between) or ``project`` may be missing.

    ``lines`` of the result make a block (of volumes, lines of a plane: see :mod:`.emit_volume`), ``grain`` blocks are
    given to a worker at a time; ``cycles`` and ``apart`` are estimates for the chain and without it, of
    all but the products.
    """

    depthwise: Group
    expand: Group | None
    pad: Group | None
    project: Group | None
    lines: int
    grain: int
    cycles: float
    apart: float

    @property
    def groups(self) -> tuple[Group, ...]:
        """In the order in which they would be emitted."""
        return tuple(g for g in (self.expand, self.pad, self.depthwise, self.project) if g is not None)

    @property
    def conv(self) -> p.Conv:
        """The depthwise convolution."""
        return conv_of(self.depthwise)


def conv_of(group: Group) -> p.Conv:
    """The convolution in front of a group."""
    lead = group.anchor or group.root
    assert isinstance(lead, p.Conv)
    return lead


def find_separable(
    groups: Sequence[Group],
    uses: Mapping[Tensor, list[Prim]],
    outputs: Sequence[Tensor],
    target: Target,
    threads: int,
) -> list[Separable]:
    """Chains that save most, no group in two of them."""
    home = {id(q): g for g in groups for q in (*g.prims, *((g.anchor,) if g.anchor else ()))}
    kept = {id(t) for t in outputs}
    options = [
        option
        for group in groups
        if isinstance(group.anchor or group.root, p.Conv) and is_depthwise(conv_of(group))
        for option in _options(group, home, uses, kept, target, threads)
    ]
    found: list[Separable] = []
    taken: set[int] = set()
    for option in sorted(options, key=lambda o: o.cycles - o.apart):
        if not taken & {id(g) for g in option.groups}:
            found.append(option)
            taken |= {id(g) for g in option.groups}
    return found


def _options(
    group: Group,
    home: Mapping[int, Group],
    uses: Mapping[Tensor, list[Prim]],
    kept: set[int],
    target: Target,
    threads: int,
) -> list[Separable]:
    conv, out = conv_of(group), group.root.outputs[0]
    if not _plain(conv, target) or out.dtype is not conv.inputs[0].dtype:
        return []
    source, pad = conv.inputs[0], None
    if isinstance(source.producer, p.Pad):
        if not _only(source, conv, uses, kept) or any((*source.producer.low[:2], *source.producer.high[:2])):
            return []
        pad = home.get(id(source.producer))
        source = source.producer.inputs[0]
    reader = conv if pad is None else pad.root
    expand = home.get(id(source.producer)) if source.producer is not None else None
    if (
        expand is None
        or expand.root.outputs[0] is not source
        or not _only(source, reader, uses, kept)
        or not isinstance(expand.anchor or expand.root, p.Conv)
        or not _pointwise(conv_of(expand), target)
    ):
        expand = None
    users = uses.get(out, [])
    project = home.get(id(users[0])) if len(users) == 1 and id(out) not in kept else None
    if project is not None and not (
        isinstance(users[0], p.Conv)
        and users[0].inputs[0] is out
        and _pointwise(users[0], target)
        and project is not group
    ):
        project = None
    found = []
    for first, last in ((expand, project), (expand, None), (None, project)):
        if (first, last) != (None, None):
            weigh = _weigh if conv.inputs[0].rank == 4 else _weigh_volume
            option = weigh(group, first, pad if first is not None else None, last, target, threads)
            found += [option] if option is not None else []
    return found


def _only(tensor: Tensor, reader: Prim, uses: Mapping[Tensor, list[Prim]], kept: set[int]) -> bool:
    return uses.get(tensor, []) == [reader] and id(tensor) not in kept


def _plain(conv: p.Conv, target: Target) -> bool:
    x, w = conv.inputs
    stored = x.dtype is DType.F32 or (x.dtype is DType.BF16 and group_of(target, x.dtype) > 1)
    known = w.const is not None and w.dtype is DType.F32
    return x.rank in (4, 5) and known and stored and 0 not in conv.outputs[0].shape


def _pointwise(conv: p.Conv, target: Target) -> bool:
    w = conv.inputs[1]
    return _plain(conv, target) and conv.groups == 1 and {*w.shape[2:], *conv.strides} == {1}


def needed(conv: p.Conv, lines: int) -> int:
    """Lines of the (padded) input for so many of the output."""
    return (lines - 1) * conv.strides[0] + (conv.inputs[1].shape[2] - 1) * conv.dilations[0] + 1


def overlap(conv: p.Conv) -> int:
    """Lines of the input that one line of the output shares with the next."""
    return max(needed(conv, 1) - conv.strides[0], 0)


def _flops(group: Group | None) -> int:
    if group is None:
        return 0
    conv = conv_of(group)
    return 2 * elements(conv.outputs[0].shape) * elements(conv.inputs[1].shape[1:])


def _products(group: Group | None, target: Target) -> float:
    """Cycles of a 1x1 convolution: pairs of bf16 are multiplied like single f32."""
    if group is None:
        return 0.0
    pairs = group_of(target, conv_of(group).inputs[0].dtype)
    return _flops(group) / (2 * target.lanes(DType.F32) * target.fma_per_cycle * pairs)


def _weigh(
    group: Group, expand: Group | None, pad: Group | None, project: Group | None, target: Target, threads: int
) -> Separable | None:
    """The chain with the best number of lines, None when there is none or it does not pay."""
    conv, out = conv_of(group), group.root.outputs[0]
    size = out.dtype.size
    batch, channels, height, width = out.shape
    line_in = conv.inputs[0].shape[3] * channels * size if expand is not None else 0
    line_out = width * channels * size if project is not None else 0
    limit = target.l2_bytes // (CACHE_PART if expand is not None else ALONE_PART)
    least = -(-overlap(conv) // conv.strides[0]) if expand is not None else 1
    fewest = BLOCKS_PER_THREAD * threads if threads > 1 else 1
    step, first = conv.strides[0], needed(conv, 1)
    fits = (limit - (first - step) * line_in) // (step * line_in + line_out)
    for lines in range(max(min(height, fits), least), max(least, 1) - 1, -1):
        if lines <= height and (batch == 1 or height % lines == 0) and batch * -(-height // lines) >= fewest:
            break
    else:
        return None
    blocks = batch * -(-height // lines)
    grain = blocks if threads == 1 else max(blocks // (BLOCKS_PER_THREAD * threads), 1)
    per_cycle = 2 * target.lanes(DType.F32) * target.fma_per_cycle
    cycles = _flops(group) / per_cycle + _products(expand, target) + _products(project, target)
    begins = max(-(-blocks // grain), batch) - batch
    again = begins * overlap(conv) / (batch * conv.inputs[0].shape[2]) * _products(expand, target)
    again += blocks * overlap(conv) * 2 * line_in / COPY_BYTES_PER_CYCLE
    window = float(elements(conv.inputs[1].shape[1:]))
    traffic = 0.0
    if expand is not None:
        deep, sparse = conv_of(expand).inputs[1].shape[1], elements(conv.strides)
        traffic += _traffic(batch * conv.inputs[0].shape[2] * line_in, deep, window / sparse, target)
    if project is not None:
        traffic += _traffic(batch * height * line_out, window, conv_of(project).inputs[1].shape[0], target)
    if traffic - again < LEAST_GAIN * cycles:
        return None
    return Separable(group, expand, pad, project, lines, grain, again, traffic)


def reach(conv: p.Conv, axis: int, windows: int = 1) -> int:
    """Positions of the (padded) input along a spatial axis that so many neighbouring windows cover."""
    return (windows - 1) * conv.strides[axis] + (conv.inputs[1].shape[2 + axis] - 1) * conv.dilations[axis] + 1


def _weigh_volume(
    group: Group, expand: Group | None, pad: Group | None, project: Group | None, target: Target, threads: int
) -> Separable | None:
    """The same of a volume: blocks are some lines of a plane, planes of as many lines as they need are held.

    Nothing hides behind the arithmetic of windows over several planes (measured). Only with an expansion, where windows
    with several planes have several rows too, which one kernel takes, and in f32: 16 bits halve what a chain saves, and
    X3D lost a fifth with matrix units, whose products are far ahead of a chain's then.
    """
    conv, out = conv_of(group), group.root.outputs[0]
    depths, rows, _ = conv.inputs[1].shape[2:]
    if expand is None or (depths > 1 and rows == 1) or out.dtype is not DType.F32:
        return None
    size = out.dtype.size
    batch, channels, planes, height, width = (room_of(n) for n in out.shape)
    line_in = room_of(conv.inputs[0].shape[4]) * channels * size
    line_out = width * channels * size if project is not None else 0
    held = reach(conv, 0)
    limit = target.l2_bytes // CACHE_PART
    lines = next((n for n in range(height, 0, -1) if held * reach(conv, 1, n) * line_in + n * line_out <= limit), 0)
    if not lines:
        return None
    tiles = -(-height // lines)
    lines = -(-height // tiles)
    blocks = batch * tiles * planes
    if threads > 1 and blocks < BLOCKS_PER_THREAD * threads:
        return None
    grain = blocks if threads == 1 else max(blocks // (BLOCKS_PER_THREAD * threads), 1)
    made = room_of(conv.inputs[0].shape[3])
    twice = max(tiles * reach(conv, 1, lines) - made, 0) / made
    begins = max(-(-blocks // grain) - batch * tiles, 0)
    shared = max(held - conv.strides[0], 0)
    twice += begins * shared / (batch * tiles * room_of(conv.inputs[0].shape[2]))
    per_cycle = 2 * target.lanes(DType.F32) * target.fma_per_cycle
    cycles = _flops(group) / per_cycle + _products(expand, target) + _products(project, target)
    again = twice * _products(expand, target)
    again += (begins + batch * tiles) * held * reach(conv, 1, lines) * line_in / COPY_BYTES_PER_CYCLE
    whole = room_of(elements(expand.root.outputs[0].shape)) * size
    traffic = _traffic(whole, 0, 0, target)
    if project is not None:
        traffic += _traffic(batch * planes * height * line_out, 0, 0, target)
    if traffic - again < LEAST_GAIN * cycles:
        return None
    return Separable(group, expand, pad, project, lines, grain, again, traffic)


def _traffic(nbytes: int, made: float, used: float, target: Target) -> float:
    """Cycles that a tensor costs by going out and coming back, beyond what hides behind the arithmetic.

    ``made`` and ``used``: products per element by which it is computed, and in which it takes part. A vector of
    elements is a cache line, and a product of vectors about a cycle.
    """
    if nbytes > LAST_LEVEL:
        return PASSES * nbytes / FAR_BYTES_PER_CYCLE
    per_line = max(NEAR_WRITE - made / 3, 0.0) + max(NEAR_READ - used / 2, 0.0)
    return max(nbytes - target.l2_bytes, 0) / CACHE_LINE * per_line
