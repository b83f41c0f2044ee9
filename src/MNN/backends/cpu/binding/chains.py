"""The tables of a chain: its stages, their patches and their arguments with every address filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import ALIGNMENT, aligned_bytes
from MNN.backends.base.program import Command, Local, Ref, StageCall
from MNN.backends.cpu.codegen.chain import NO_LIMIT, PATCH, STAGE
from MNN.backends.cpu.targets.base import Target

_WHEN = {"always": 0, "fresh": 1, "continued": 2}


class ChainTables:
    """What a chain's arguments point to; ``args`` are those arguments, by slot name. Keep it as long as they are used.

    ``addresses`` are the stages' kernels, ``resolve`` finds what a ``Ref`` means. ``trailing`` words follow every
    stage's own arguments (checked builds take one more than their slots).
    """

    def __init__(
        self,
        step: Command,
        addresses: Sequence[int],
        resolve: Callable[[Ref], int],
        target: Target,
        trailing: Sequence[int] = (),
    ) -> None:
        self._step = step
        inner = max(step.inner, 1)
        outer = step.blocks // inner
        words: list[int] = []
        starts: list[int] = []
        records: list[list[int]] = []
        patches: list[list[int]] = []
        scratch = 0
        for stage in step.stages:
            kernel, own = stage.command.kernel, stage.command.args
            if kernel is None or outer * inner != step.blocks:
                raise ValueError(f"{step.origin}: a chain of {step.blocks} blocks, {inner} at a time, cannot be bound")
            values = {name: resolve(v) if isinstance(v, Ref) else v for name, v in own.items()}
            scratch = max(scratch, kernel.scratch(target, values))
            at, slots = len(words), list(own)
            starts.append(len(patches))
            for p in stage.patches:
                base = _base(p.base, resolve)
                limit = NO_LIMIT if p.limit is None else p.limit
                to = 8 * (at + slots.index(p.slot))
                inside = int(isinstance(p.base, Local))
                patches.append(PATCH.row(to=to, base=base, local=inside, outer=p.outer, step=p.step, limit=limit))
            share, unless = _share(stage, outer), _WHEN[stage.when]
            others = {"function": 0, "patches": 0, "args": at, "unless": unless, "n_patches": len(stage.patches)}
            records.append(STAGE.row(**others, **share))
            words += [*values.values(), *trailing]
        self.template = _table(words)
        self.patches = _table(patches)
        for record, address, first in zip(records, addresses, starts, strict=True):
            record[STAGE.index("function")] = address
            record[STAGE.index("patches")] = self.patches.ctypes.data + first * PATCH.size
        self.stages = _table(records)
        local = _aligned(self.template.nbytes)
        rest = local + _aligned(step.local_bytes)
        self.args = {
            "stages": self.stages.ctypes.data,
            "n_stages": len(records),
            "template": self.template.ctypes.data,
            "words": len(words),
            "inner": inner,
            "local": local,
            "rest": rest,
            "bytes": rest + scratch,
        }

    def places(self) -> Iterator[tuple[NDArray[np.int64], int, Ref]]:
        """The words in memory, by table and number, that are addresses which stages are given or that are patched in,
        and what they mean."""
        records, words, patches = self.stages.reshape(-1, STAGE.count).tolist(), self.template, self.patches.reshape(-1)
        for stage, record in zip(self._step.stages, records, strict=True):
            for slot, value in enumerate(stage.command.args.values()):
                if isinstance(value, Ref):
                    yield words, record[STAGE.index("args")] + slot, value
            first = (record[STAGE.index("patches")] - self.patches.ctypes.data) // PATCH.size
            for number, patch in enumerate(stage.patches, first):
                if isinstance(patch.base, Ref):
                    yield patches, PATCH.count * number + PATCH.index("base"), patch.base

    def addresses(self) -> Iterator[tuple[int, Ref]]:
        """The same by addresses."""
        for words, number, ref in self.places():
            yield words.ctypes.data + 8 * number, ref

    @property
    def arrays(self) -> list[np.ndarray]:
        """All memory of the tables."""
        return [self.template, self.patches, self.stages]


def _base(value: int | Ref | Local, resolve: Callable[[Ref], int]) -> int:
    if isinstance(value, Local):
        return value.offset
    return resolve(value) if isinstance(value, Ref) else value


def _share(stage: StageCall, outer: int) -> dict[str, int]:
    """The record's words that say which blocks run."""
    total = stage.command.blocks
    if stage.repeated:
        return {"outer": 0, "per": 0, "shift": 0, "count": total, "cap": total}
    own = total // outer
    if own * outer != total:
        raise ValueError(f"{stage.command.origin}: {total} blocks cannot be cut into {outer} equal parts")
    count = stage.per if stage.count is None else stage.count
    return {"outer": own, "per": stage.per, "shift": stage.shift, "count": count, "cap": own}


def _table(rows: Sequence[object]) -> np.ndarray:
    """An aligned i64 array."""
    values = np.array(rows, np.int64)
    table = aligned_bytes(max(values.nbytes, 8)).view(np.int64)[: values.size].reshape(values.shape)
    table[...] = values
    return table


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
