"""A lowered stage to a program: drop the dead, choose orders, fuse, emit, plan the arena."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Located, Place, Program
from MNN.backends.cpu import low_precision as precision
from MNN.backends.cpu import states
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.emission.emit_prefetch import fetch_ahead
from MNN.backends.cpu.amx.split_storage import SplitStorage
from MNN.backends.cpu.batch_program import repeated
from MNN.backends.cpu.batch_slices import Task, sliced
from MNN.backends.cpu.chains.choose import Chains
from MNN.backends.cpu.emission.branches import Branches
from MNN.backends.cpu.emission.emission_cache import EmissionCache
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import handlers
from MNN.backends.cpu.loops.emit_elementwise import emit_copy
from MNN.backends.cpu.targets.base import Target
from MNN.compiler import arena, usage
from MNN.compiler import strides as st
from MNN.compiler.copies import own_copy
from MNN.compiler.fuse import Group
from MNN.compiler.integers.byte_windows import with_byte_windows
from MNN.compiler.layout import natural
from MNN.compiler.structure import structure
from MNN.compiler.verify_program import verify_groups, verify_program, wanted
from MNN.compiler.work import products
from MNN.errors import MISFITS, RunError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of
from MNN.ir.verify_primitives import verify_primitives

_SPARE = 100_000.0
_SPARE_SHARE = 0.001


def compile_stage(
    prims: Sequence[Prim],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    target: Target,
    options: Options,
    pool: ConstantPool,
) -> Program:
    """The program that computes ``outputs`` (not constant, no duplicates) from ``inputs``; there may be no strings."""
    if not options.open_sizes:  # one plan is compiled at several sizes, which find the same choices
        pool.kept_choices.begin_plan()
    kept = usage.live(prims, outputs)
    if wanted():
        verify_primitives(kept, inputs, outputs, "after lowering")
    narrow = precision.storage(target, options.precision)
    whole = Task(kept, inputs, outputs)
    shared = 32 if narrow is None else 8 * narrow.size
    found = None if options.states else sliced(whole, target, options.threads, shared)
    slower = False
    if found is not None and options.open_sizes:
        slower = any(isinstance(prim, (p.Conv, p.Window)) for prim in kept)
        found = found if slower and _only_batch_is_open(inputs) else None
    if found is not None:
        part, count = found
        alone = dataclasses.replace(options, threads=1, open_sizes=False, compared=False)
        one = _compile(part, narrow, target, alone, pool, apart=True)
        program = repeated(one, count, options.threads, inputs, outputs)
        if program is not None:
            return dataclasses.replace(program, alone_is_faster=options.open_sizes)  # several samples at a time may be
    program = _compile(whole, narrow, target, options, pool)
    return dataclasses.replace(program, alone_is_faster=program.alone_is_faster or slower)


def _only_batch_is_open(inputs: Sequence[Tensor]) -> bool:
    """Whether the first size of the inputs is open, and no other one."""
    return all([i for i, n in enumerate(t.shape) if type(n) is OpenSize] == [0] for t in inputs)


def _compile(
    task: Task, narrow: DType | None, target: Target, options: Options, pool: ConstantPool, apart: bool = False
) -> Program:
    """As :func:`compile_stage`, all at once; ``narrow``: what f32 is stored as, where that is another type; ``apart``:
    outputs fill their memory, of which they may be a part otherwise."""
    inputs = task.inputs
    kept, outputs = with_byte_windows(task.prims, task.outputs)
    narrowing = None
    parts = options.precision == "normal" and amx.available(target)
    if narrow is not None or parts:
        kept, outputs = own_copy(kept, outputs)
    if narrow is not None:
        narrowing = precision.Narrowing(kept, inputs, outputs, narrow)
        kept = usage.live(narrowing.prims, outputs)
    uses = usage.consumers(kept)
    orders, groups = structure(kept, inputs, outputs, uses)
    if wanted():
        verify_primitives(kept, inputs, outputs, "before fusion", typed=False)
        verify_groups(groups, kept, inputs)
    emitter = Emitter(target, options, orders, uses, pool, emit_copy)
    if narrowing is not None:
        emitter.narrowed = narrowing.apply(groups)
    places = states.places(emitter, uses, inputs, outputs, options.states)
    located_in = [_input(emitter, t, places) for t in inputs]
    chains = Chains(groups, uses, outputs, target, options.threads, options.open_sizes, bool(options.states))
    emitter.spare = _spare_cycles(kept, target)
    emission_cache = EmissionCache(emitter, groups)
    exact = precision.exact_products(kept) if parts else frozenset()
    if parts:
        emitter.narrowed = chains.round_joined()
    if parts and not options.open_sizes:
        split_storage = SplitStorage(kept, groups, uses, orders, (*inputs, *outputs), target, options.threads)
        split_storage.choose(groups, chains.groups, exact)
    each = functools.partial(_emit_or_host, emitter)
    branches = Branches(emitter, kept, inputs, outputs)
    for group in groups:
        emitter.origin = group.origin()
        emitter.precision = "high" if (group.anchor or group.root) in exact else options.precision
        try:
            first = len(emitter.commands)
            branches.emitted(chains.emit(emitter, group, each, emission_cache), first)
        except MISFITS as error:
            what = f"{type(error).__name__}: {error}"
            raise RunError(f"{emitter.origin}: no kernel can be made for {group.root.outputs} ({what})") from error
    if any(c.host is not None and any(b.lent for b in c.buffers()) for c in emitter.commands):
        return _compile(task, narrow, target, dataclasses.replace(options, states=()), pool, apart)  # Python looks on
    pairs = [(inputs[i], outputs[o]) for i, o in options.states]
    lost = {inputs.index(t) for t in states.lost(emitter.commands, places, pairs)}
    if lost:
        rest = tuple([(i, o) for i, o in options.states if i not in lost])
        return _compile(task, narrow, target, dataclasses.replace(options, states=rest), pool, apart)
    located_out = [_output(emitter, t, set(inputs), apart, places) for t in outputs]
    branches.mark(located_in, located_out)
    fetch_ahead(pool, emitter.commands, options.threads)
    total = 0 if options.compared and not wanted() else arena.plan(emitter.commands, emitter.buffers)
    kept_states = tuple([(i, o) for i, o in options.states if inputs[i] in places])
    program = Program(
        emitter.commands,
        located_in,
        located_out,
        total,
        emitter.error_word,
        tuple(emitter.companions),
        states=kept_states,
        alone_is_faster=chains.left_out,
    )
    if wanted():
        verify_program(program)
    return program


def _spare_cycles(prims: Sequence[Prim], target: Target) -> float:
    """Cycles that a command may be slower than the best that is known, so that no kernel is compiled for one size of
    the input alone: some 30 us, or a thousandth of the whole. Compiling takes as long as a thousand such losses."""

    whole = sum([room_of(products(prim)) for prim in prims if isinstance(prim, (p.Conv, p.MatMul))])
    return max(_SPARE, _SPARE_SHARE * whole / (target.lanes(DType.F32) * target.fma_per_cycle))


def _emit_or_host(e: Emitter, group: Group) -> None:
    e.origin = group.origin()
    if not _emit(e, group):
        for prim in group.prims if group.anchor is None else [group.anchor, *group.prims]:
            e.origin = prim.origin
            e.host(prim)


def _input(e: Emitter, tensor: Tensor, places: Mapping[Tensor, Place]) -> Located:
    place = places.get(tensor) or e.allocate(tensor.dtype, tensor.shape, natural(tensor.rank), roomy=True)
    place.buffer.pinned = True
    e.assign(tensor, place)
    return Located(tensor.dtype, tensor.shape, place)


def _output(e: Emitter, tensor: Tensor, inputs: set[Tensor], apart: bool, places: Mapping[Tensor, Place]) -> Located:
    """Outputs are row-major in memory of their own, so that reading them is one plain copy; states lie as they do."""
    if tensor in places:
        return Located(tensor.dtype, tensor.shape, places[tensor])
    place = e.place(tensor)
    apart = apart or place.buffer.lent
    inside = apart and (place.buffer.pinned or place.buffer.nbytes > elements(tensor.shape) * tensor.dtype.size)
    if inside or tensor in inputs or not st.is_dense(tensor.shape, place.strides, natural(tensor.rank)):
        dense = e.allocate(tensor.dtype, tensor.shape, natural(tensor.rank), roomy=True)
        e.copy(place, dense, tensor.shape, tensor.dtype)
        place = dense
    place.buffer.pinned = True
    return Located(tensor.dtype, tensor.shape, place)


def _emit(e: Emitter, group: Group) -> bool:
    if all(elements(t.shape) == 0 for t in group.root.outputs):
        for t in group.root.outputs:
            e.output(t)
        return True
    return any(handler(e, group) for handler in handlers(group))
