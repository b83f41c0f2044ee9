"""The chain of a depthwise convolution with its 1x1 neighbours: blocks of lines, borders made in local memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Buffer, Command, Place, StageCall
from MNN.backends.cpu.chains.find_separable import Separable, needed, overlap
from MNN.backends.cpu.chains.stages import LINE, Collected, Intermediate, by_rows, local_bytes, rows_and_batches, stage
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.loops.emit_elementwise import emit_fill
from MNN.backends.cpu.products.emit_contractions import emit_conv
from MNN.backends.cpu.window.emit_window import emit_depthwise
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.compiler.fuse import Group
from MNN.ir import prims as p
from MNN.ir.prims import Tensor

_FEWEST = 8
"""Elements of the narrowest border that is filled line by line."""


def emit_separable(e: Emitter, found: Separable, emit_group: Callable[[Group], None]) -> None:
    """One chain; or every group with ``emit_group`` where they do not come out as plain kernels."""
    chain = _Chain(e, found)
    built = chain.build()

    def separately() -> None:
        for group in found.groups:
            emit_group(group)

    def chained() -> None:
        e.chain(chain.stages, chain.batch * chain.inner, chain.inner, local_bytes(chain.held), found.grain)
        e.commands += chain.commands.after

    if not built:
        separately()
        return
    conv = found.conv
    kinds = "+".join(k for k, g in (("1x1", found.expand), ("depthwise", conv), ("1x1", found.project)) if g)
    channels = [g.root.outputs[0].shape[1] for g in (found.expand, found.project) if g is not None]
    x, w = conv.inputs
    signature = f"{kinds} {x.dtype.value} {x.shape} * {w.shape} / {conv.strides} {conv.dilations} {channels}"
    chains = Candidate(f"chain of {found.lines} lines", found.cycles + chain.commands.plain, chained)
    apart = Candidate("separate kernels", found.apart + chain.commands.best, separately)
    e.choose(f"{signature} on {e.threads} threads", [chains, apart])


class _Chain:
    """Collects the stages; ``build`` says whether there is a chain."""

    def __init__(self, e: Emitter, found: Separable) -> None:
        self.e, self.found, self.conv = e, found, found.conv
        self.size = self.conv.inputs[0].dtype.size
        self.batch, self.channels, self.height, self.width = found.depthwise.root.outputs[0].shape
        self.inner = -(-self.height // found.lines)
        self.stages: list[StageCall] = []
        self.held: list[Intermediate] = []

    def build(self) -> bool:
        e, found = self.e, self.found
        wide, narrow = Buffer(0), Buffer(0)
        self.commands = Collected(e, [wide, narrow])
        if found.expand is not None:
            self._place_input(wide)
        if found.project is not None:
            step = self.width * self.channels
            shape = (self.height * step, 1, step, self.channels)
            e.assign(found.depthwise.root.outputs[0], Place(narrow, 0, shape))
            block = found.lines * step * self.size
            self.held.append(Intermediate(narrow, block, self.height * step * self.size, block))
        placed = self._stages()
        e.forget(wide)
        e.forget(narrow)
        return placed

    def _place_input(self, buffer: Buffer) -> None:
        """The depthwise convolution's input, borders included, lines apart from one another."""
        x, lines = self.conv.inputs[0], self.found.lines
        height, width = x.shape[2:]
        unit = LINE // self.size
        self.line = (-(-width * self.channels // unit) + 1) * unit
        self.input = Place(buffer, 0, (height * self.line, 1, self.line, self.channels))
        line = self.line * self.size
        need = needed(self.conv, lines)
        self.held.append(Intermediate(buffer, need * line, height * line, lines * self.conv.strides[0] * line))
        self.e.assign(x, self.input)
        assert self.found.expand is not None
        inside = self.found.expand.root.outputs[0]
        if inside is not x:
            assert isinstance(x.producer, p.Pad)
            self.e.assign(inside, self.e.region(self.input, x.producer.low))

    def _stages(self) -> bool:
        found, lines = self.found, self.found.lines
        if found.expand is not None:
            x, inside = self.conv.inputs[0], found.expand.root.outputs[0]
            height, width = inside.shape[2:]
            command = self.commands.command(found.expand, emit_conv)
            if command is None or rows_and_batches(command) != (self.batch * height * width, 1):
                return False
            low = x.producer.low[2] if isinstance(x.producer, p.Pad) and inside is not x else 0
            rolls = self._keep_shared()
            if not self._borders(x, inside):
                return False
            self._expand(by_rows(self.e, command, width), low, rolls)
        command = self.commands.command(found.depthwise, emit_depthwise)
        total = self.batch * self.height
        if command is None or not isinstance(command.kernel, WindowSpec) or command.args["n_lines"] != total:
            return False
        args = {**command.args, "lines_per_block": lines}
        self.stages.append(stage(dataclasses.replace(command, args=args, blocks=-(-total // lines)), self.held))
        if found.project is not None:
            command = self.commands.command(found.project, emit_conv)
            if command is None or rows_and_batches(command) != (total * self.width, 1):
                return False
            self.stages.append(stage(by_rows(self.e, command, lines * self.width), self.held))
        return all(s.repeated or s.command.blocks % self.batch == 0 for s in self.stages)

    def _keep_shared(self) -> bool:
        """Lines that the block before had too move to the front, before anything is written; whether there are any."""
        shared, step = overlap(self.conv), self.found.lines * self.conv.strides[0]
        if not 0 < shared <= step:
            return False
        buffer, dtype = self.input.buffer, self.conv.inputs[0].dtype
        with self.e.collect() as copies:
            last, first = Place(buffer, step * self.line, (1,)), Place(buffer, 0, (1,))
            self.e.copy(last, first, (shared * self.line,), dtype)
        self.stages += [stage(c, self.held, repeated=True, when="continued") for c in copies]
        return True

    def _expand(self, command: Command, low: int, rolls: bool) -> None:
        """The stages of the expansion, whose line 0 is the input's line ``low``."""
        shared, step = overlap(self.conv), self.found.lines * self.conv.strides[0]
        if rolls:
            part = dataclasses.replace(command, flops=0)
            self.stages.append(stage(part, self.held, step, shift=shared - low, count=step, when="continued"))
        self._moving(command, low, when="fresh" if rolls else "always")

    def _moving(self, command: Command, first: int, per_line: int = 1, when: str = "always") -> None:
        """A stage for lines of the input, of which its own line 0 is the input's line ``first``."""
        step, need = self.found.lines * self.conv.strides[0], needed(self.conv, self.found.lines)
        shift, count = -first * per_line, need * per_line
        self.stages.append(stage(command, self.held, step * per_line, shift=shift, count=count, when=when))

    def _borders(self, x: Tensor, inside: Tensor) -> bool:
        """Stages that fill the borders around ``inside``."""
        pad = x.producer
        if inside is x:
            return True
        assert isinstance(pad, p.Pad)
        (height, width), (top, left), (bottom, right) = inside.shape[2:], pad.low[2:], pad.high[2:]
        whole = x.shape[3]
        parts = (
            (0, top, 0, whole),
            (top + height, bottom, 0, whole),
            (top, height, 0, left),
            (top, height, left + width, right),
        )
        for first, lines, column, columns in parts:
            run = columns * self.channels
            if not lines or not columns:
                continue
            place = Place(
                self.input.buffer, first * self.line + column * self.channels, (*self.input.strides[:1], self.line, 1)
            )
            with self.e.collect() as commands:
                emit_fill(self.e, pad.value, place, (self.batch, lines, run), x.dtype)
            if len(commands) != 1 or commands[0].blocks % (self.batch * lines) or run < _FEWEST:
                return False
            self._moving(commands[0], first, commands[0].blocks // (self.batch * lines))
        return True
