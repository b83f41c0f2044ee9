"""The chain of a depthwise convolution over volumes with its 1x1x1 neighbours.

A block is some lines of one plane of the result. What its windows reach of the expansion, as many lines of some planes,
lies in local memory: planes in a ring, so that the next block makes those that are new, over those that no window needs
any more, and none is moved. Where each row, line and plane lies, tables say, which the ordinary kernels have anyway.
Lines that two tiles of lines share are computed in both. Borders are filled when a worker begins; planes outside of the
volume are one plane of the border's value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Buffer, Command, Patch, Place, Ref, StageCall
from MNN.backends.cpu.chains.find_separable import Separable, reach
from MNN.backends.cpu.chains.stages import LINE, Collected, Intermediate, local_bytes, rows_and_batches, stage
from MNN.backends.cpu.codegen.traffic import number, table
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.loops.emit_elementwise import emit_fill
from MNN.backends.cpu.products.emit_contractions import emit_conv
from MNN.backends.cpu.window.emit_window import emit_depthwise, line_order
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.compiler.fuse import Group
from MNN.ir import prims as p

_LOCAL = frozenset({"n", "1"})
"""Kinds of operands of an epilogue that are the same in every row."""


def emit_volume(e: Emitter, found: Separable, emit_group: Callable[[Group], None]) -> None:
    """One chain; or every group with ``emit_group`` where they do not come out as plain kernels."""
    chain = _Volume(e, found)
    built = chain.build()

    def separately() -> None:
        for group in found.groups:
            emit_group(group)

    def chained() -> None:
        for stages, tiles in built:
            blocks = chain.batch * tiles * chain.planes
            e.chain(stages, blocks, chain.planes, local_bytes(chain.held), min(found.grain, blocks))
            e.commands[-1].part = len(built) > 1
        e.commands += chain.commands.after

    if not built:
        separately()
        return
    x, w = found.conv.inputs
    kinds = "1x1+depthwise" + ("+1x1" if found.project is not None else "")
    channels = [g.root.outputs[0].shape[1] for g in (found.expand, found.project) if g is not None]
    signature = (
        f"{kinds} {x.dtype.value} {x.shape} * {w.shape} / {found.conv.strides} {found.conv.dilations} {channels}"
    )
    chains = Candidate(f"chain of {found.lines} lines", found.cycles + chain.commands.plain, chained)
    apart = Candidate("separate kernels", found.apart + chain.commands.best, separately)
    e.choose(f"{signature} on {e.threads} threads", [chains, apart])


class _Volume:
    """Makes the stages of a chain out of the commands for whole tensors, in parts of equal tiles of lines."""

    def __init__(self, e: Emitter, found: Separable) -> None:
        self.e, self.found, self.conv = e, found, found.conv
        x = self.conv.inputs[0]
        self.size = x.dtype.size
        self.batch, self.channels, self.planes, self.height, self.width = found.depthwise.root.outputs[0].shape
        assert found.expand is not None
        inside = found.expand.root.outputs[0]
        self.inside = inside.shape[2:]
        self.low = x.producer.low[2:] if isinstance(x.producer, p.Pad) and inside is not x else (0, 0, 0)
        self.value = x.producer.value if isinstance(x.producer, p.Pad) and inside is not x else 0
        self.ring = reach(self.conv, 0)
        unit = LINE // self.size
        self.line = (-(-x.shape[4] * self.channels // unit) + 1) * unit
        self.slab = reach(self.conv, 1, found.lines) * self.line
        self.wide, self.narrow = Buffer(0), Buffer(0)
        slabs = self.ring + (x.shape[2] > self.inside[0])
        self.held = [Intermediate(self.wide, slabs * self.slab * self.size, 0, 0)]
        if found.project is not None:
            block = found.lines * self.width * self.channels * self.size
            self.held.append(Intermediate(self.narrow, block, 0, 0))
        self.commands = Collected(e, [self.wide, self.narrow])

    def build(self) -> list[tuple[list[StageCall], int]]:
        """Stages, and how many tiles of each sample they are for; none where there is no chain."""
        e, found = self.e, self.found
        x, out = self.conv.inputs[0], found.depthwise.root.outputs[0]
        place = Place(self.wide, 0, (*self._steps(x.shape[2], x.shape[3]), self.line, self.channels))
        e.assign(x, place)
        if found.expand is not None and found.expand.root.outputs[0] is not x:
            e.assign(found.expand.root.outputs[0], e.region(place, (0, 0, *self.low)))
        if found.project is not None:
            step = self.width * self.channels
            plane = self.height * step
            e.assign(out, Place(self.narrow, 0, (self.planes * plane, 1, plane, step, self.channels)))
        commands = [
            self.commands.command(group, emit)
            for group, emit in (
                (found.expand, emit_conv),
                (found.depthwise, emit_depthwise),
                (found.project, emit_conv),
            )
            if group is not None
        ]
        parts: list[tuple[list[StageCall], int]] = []
        if self._plain(commands):
            tiles, rest = divmod(self.height, found.lines)
            for first, lines, count in ((0, found.lines, tiles), (tiles * found.lines, rest, 1)):
                if lines and count:
                    stages = self._stages([c for c in commands if c is not None], first, lines, count)
                    parts.append((stages, count))
        e.forget(self.wide)
        e.forget(self.narrow)
        return parts if all(stages for stages, _ in parts) else []

    def _steps(self, planes: int, lines: int) -> tuple[int, int, int]:
        """Strides of samples, channels and planes of the input, were it whole."""
        return planes * lines * self.line, 1, lines * self.line

    def _plain(self, commands: list[Command | None]) -> bool:
        """Whether these are the kernels whose tables are known here."""
        if any(c is None for c in commands):
            return False
        expand, window, *project = [c for c in commands if c is not None]
        rows = self.batch * int(np.prod(self.inside))
        if rows_and_batches(expand) != (rows, 1) or not isinstance(expand.kernel, ContractSpec):
            return False
        if not set(expand.kernel.operands) <= _LOCAL or not isinstance(window.kernel, WindowSpec):
            return False
        lines = self.batch * self.planes * self.height
        several, bordered = self.conv.inputs[1].shape[2] > 1, self.conv.inputs[0].shape[2] > self.inside[0]
        if window.args["n_lines"] != lines or window.kernel.planes != several or (bordered and not several):
            return False
        return not project or rows_and_batches(project[0]) == (lines * self.width, 1)

    def _stages(self, commands: list[Command], first: int, lines: int, tiles: int) -> list[StageCall]:
        """The stages for ``tiles`` tiles of so many ``lines`` from line ``first`` on; none where a border is so wide
        that a tile is all border."""
        expand, window, *project = commands
        made = self._expand(expand, first, lines, tiles)
        if made is None:
            return []
        step, depth = self.conv.strides[0], self.low[0]
        shared = max(self.ring - step, 0)
        stages = self._borders()
        when = "fresh" if shared else "always"
        if shared:
            part = dataclasses.replace(made, flops=0)
            stages.append(
                stage(part, self.held, step, shift=shared - depth, count=self.ring - shared, when="continued")
            )
        stages.append(stage(made, self.held, step, shift=-depth, count=self.ring, when=when))
        stages.append(self._window(window, first, lines, tiles))
        if project:
            stages.append(stage(self._project(project[0], first, lines, tiles), self.held))
        return stages

    def _borders(self) -> list[StageCall]:
        """Stages that fill local memory where a worker begins, if there are borders."""
        x, inside = self.conv.inputs[0], self.found.expand
        assert inside is not None
        if inside.root.outputs[0] is x:
            return []
        count = self.held[0].nbytes // self.size
        with self.e.collect() as commands:
            emit_fill(self.e, self.value, Place(self.wide, 0, (1,)), (count,), x.dtype)
        return [stage(c, self.held, repeated=True, when="fresh") for c in commands]

    def _grid(self, *extents: int) -> list[np.ndarray]:
        return list(np.indices(extents).reshape(len(extents), -1))

    def _moved(self, command: Command, slots: list[str], index: np.ndarray, whole: int) -> dict[str, int | Ref]:
        """Tables of a command with their entries in another order."""
        values = command.values()
        return {slot: self.e.offsets(table(values, slot, whole)[index]) for slot in slots}

    def _expand(self, command: Command, first: int, lines: int, tiles: int) -> Command | None:
        """The expansion, a block of it being a plane of a tile: lines outside of the volume do one inside again."""
        planes, height, width = self.inside
        rows = reach(self.conv, 1, lines)
        n, tile, d, r, column = self._grid(self.batch, tiles, planes, rows, width)
        top = (first + tile * lines) * self.conv.strides[1]
        line = np.clip(top + r - self.low[1], 0, height - 1)
        to = line + self.low[1] - top
        if to.min() < 0 or to.max() >= rows:
            return None
        whole = self.batch * planes * height * width
        moved = self._moved(command, ["rows_a"], ((n * planes + d) * height + line) * width + column, whole)
        ring = (d + self.low[0]) % self.ring
        places = ring * self.slab + to * self.line + (column + self.low[2]) * self.channels
        args = {**command.args, **moved, "c": Ref(self.wide, 0), "rows_c": self.e.offsets(places)}
        return self._by_rows(dataclasses.replace(command, args=args), n.size, rows * width)

    def _by_rows(self, command: Command, m: int, mb: int) -> Command:
        """A contraction of ``m`` rows in blocks of ``mb``."""
        assert isinstance(command.kernel, ContractSpec)
        nr = command.kernel.nr(self.e.target)
        nb = -(-number(command.values(), "n") // nr) * nr
        args = {**command.args, "m": m, "mb": mb, "ub": mb, "nb": nb}
        return dataclasses.replace(command, args=args, blocks=m // mb)

    def _window(self, command: Command, first: int, lines: int, tiles: int) -> StageCall:
        """The depthwise convolution, a block of it being some lines of a plane."""
        conv = self.conv
        assert isinstance(command.kernel, WindowSpec)
        n, tile, d, r = self._grid(self.batch, tiles, self.planes, lines)
        place = (d, first + tile * lines + r)
        outer, kernel = (self.planes, self.height), conv.inputs[1].shape[2:]
        index = n
        for axis in line_order(outer, kernel):
            index = index * outer[axis] + place[axis]
        moving = [f"lines{i}" for i, kind in enumerate(command.kernel.operands) if kind == "pc"]
        if self.found.project is None:
            moving.append("lines_y")
        args = {**command.args, **self._moved(command, moving, index, self.batch * self.planes * self.height)}
        if self.found.project is not None:
            args |= {"y": Ref(self.narrow, 0), "lines_y": self.e.offsets(r * self.width * self.channels)}
        args |= {"x": Ref(self.wide, 0), "lines_x": self.e.offsets(r * conv.strides[1] * self.line)}
        args |= {"n_lines": n.size, "lines_per_block": lines}
        patches: tuple[Patch, ...] = ()
        if command.kernel.planes:
            step, depth = self._grid(self.planes, kernel[0])
            plane = step * conv.strides[0] + depth * conv.dilations[0]
            inside = (plane >= self.low[0]) & (plane < self.low[0] + self.inside[0])
            slabs = np.where(inside, plane % self.ring, self.ring)
            args["planes"] = self.e.offsets(slabs * self.slab)
            patches = (Patch("planes", args["planes"], kernel[0] * np.dtype(np.int32).itemsize),)
        made = stage(dataclasses.replace(command, args=args, blocks=n.size // lines), self.held)
        return dataclasses.replace(made, patches=(*made.patches, *patches))

    def _project(self, command: Command, first: int, lines: int, tiles: int) -> Command:
        """The projection, a block of it being the rows of those lines."""
        assert isinstance(command.kernel, ContractSpec)
        n, tile, d, r, column = self._grid(self.batch, tiles, self.planes, lines, self.width)
        index = ((n * self.planes + d) * self.height + first + tile * lines + r) * self.width + column
        moving = ["rows_c", *(f"rows{i}" for i, kind in enumerate(command.kernel.operands) if kind in ("m", "mn"))]
        moved = self._moved(command, moving, index, self.batch * self.planes * self.height * self.width)
        rows = self.e.offsets((r * self.width + column) * self.channels)
        args = {**command.args, **moved, "a": Ref(self.narrow, 0), "rows_a": rows}
        return self._by_rows(dataclasses.replace(command, args=args), n.size, lines * self.width)
