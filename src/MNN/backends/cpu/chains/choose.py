"""Which groups of a program are emitted together, as chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from MNN.backends.cpu.chains.emit_attention import emit_attention, find_attention
from MNN.backends.cpu.chains.emit_halves import emit_halves, find_halves, round_joined
from MNN.backends.cpu.chains.emit_separable import emit_separable
from MNN.backends.cpu.chains.emit_volume import emit_volume
from MNN.backends.cpu.chains.find_separable import find_separable
from MNN.backends.cpu.emission.emission_cache import EmissionCache
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.targets.base import Target
from MNN.compiler.fuse import Group
from MNN.ir.prims import Prim, Tensor

EmitGroup = Callable[[Group], None]


class Chains:
    """Chains among ``groups``; each is emitted in the place of its last group."""

    def __init__(
        self,
        groups: Sequence[Group],
        uses: Mapping[Tensor, list[Prim]],
        outputs: Sequence[Tensor],
        target: Target,
        threads: int,
        open_sizes: bool = False,
        states: bool = False,
    ) -> None:
        """With ``open_sizes`` there are none that know their lines; ``left_out`` says whether that costs much. Nor are
        there any where memory is that of ``states``."""
        self._ends: dict[int, tuple[Sequence[Group], Callable[..., None]]] = {}
        self._covered: set[int] = set()
        self.groups: list[Group] = []
        """All that are part of one."""
        self.left_out = open_sizes and not states and bool(find_separable(groups, uses, outputs, target, threads))
        joined = find_halves(groups, uses, outputs)
        self.round_joined = partial(round_joined, joined, uses, outputs, target)
        """See :func:`~.emit_halves.round_joined`."""
        for halves in joined:
            self._add((halves.product, halves.joining), partial(emit_halves, found=halves))
        if open_sizes or states:
            return
        for attention in find_attention(groups, uses, outputs):
            parts = (attention.scoring, attention.rows, attention.mixing)
            self._add(parts, partial(emit_attention, found=attention))
        for separable in find_separable(groups, uses, outputs, target, threads):
            emit = emit_separable if separable.conv.inputs[0].rank == 4 else emit_volume
            self._add(separable.groups, partial(emit, found=separable))

    def _add(self, groups: Sequence[Group], emit: Callable[..., None]) -> None:
        self._ends[id(groups[-1])] = groups, emit
        self._covered |= {id(g) for g in groups}
        self.groups += groups

    def emit(self, e: Emitter, group: Group, each: EmitGroup, emission_cache: EmissionCache) -> Sequence[Group]:
        """Emits a group with ``each``, or the chain that it ends, or nothing when its chain ends later; gives what it
        has emitted."""
        chain = self._ends.get(id(group))
        if chain is not None:
            groups, emit = chain
            emission_cache.emit(groups, lambda: emit(e, emit_group=each))
            return groups
        if id(group) in self._covered:
            return []
        emission_cache.emit([group], lambda: each(group))
        return [group]
