"""Chains: several kernels run for one block before the next block, so that what passes between them stays in cache.

A chain is a small loop driven by a table. For every block of its own it runs its *stages*, each an ordinary kernel on a
part of that kernel's own block index space, with some arguments moved along: an input's address, the last block's
smaller extent, or the address of an intermediate tensor, of which only one block's part exists, in the worker's own
memory. Fusing producers and consumers at the grain of a cache block goes back to "tiling for locality across loops";
see Alwani et al., "Fused-Layer CNN Accelerators" (2016), for networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.lang.module import I8, I64, PTR, Kernel, Value
from MNN.backends.cpu.targets.base import Target

STAGE = ("function", "args", "outer", "per", "shift", "count", "cap", "unless", "patches", "n_patches")
"""Words of a stage's record; see :class:`ChainSpec`."""
PATCH = ("to", "base", "local", "outer", "step", "limit")
"""Words of a patch's record."""
NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class ChainSpec(KernelSpec):
    """For chain block ``b`` with ``o, i = divmod(b, inner)``, every stage in order: its patches, then its kernel.

    ``stages`` points to ``n_stages`` records of the i64 words :data:`STAGE`: the kernel's address; where its arguments
    begin among the ``words`` i64 of ``template``, of which every worker has its own copy; the blocks to run,
    ``o*outer + clip(i*per + shift) <= s < o*outer + clip(i*per + shift + count)``, where ``clip`` takes what is outside
    of 0 to ``cap`` to the nearer of these; when to leave it out (``unless``: 1 in blocks that continue the one before,
    run in the same call and with the same ``o``, 2 in those that do not); and the address and number of its patches.
    A patch (words :data:`PATCH`) stores ``min(base + o*outer + i*step, limit)`` at byte ``to`` of the arguments, with
    the address of the worker's local memory added to ``base`` where ``local`` is 1.

    Scratch has ``bytes`` bytes: the arguments, local memory from byte ``local`` on, the stages' own scratch from byte
    ``rest`` on (both multiples of 64).
    """

    def slots(self) -> tuple[str, ...]:
        return ("stages", "n_stages", "template", "words", "inner", "local", "rest", "bytes")

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return args["bytes"]

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        local = b.convert("ptrtoint", b.gep(k.scratch, I8, k.slot("local")), I64)
        rest = b.gep(k.scratch, I8, k.slot("rest"))
        with b.loop(0, k.slot("words")) as word:
            b.store(b.load(I64, b.gep(k.pointer("template"), I64, word.index)), b.gep(k.scratch, I64, word.index))
        with b.loop(k.begin, k.end) as block:
            o = b.udiv(block.index, k.slot("inner"))
            i = block.index - o * k.slot("inner")
            fresh = b.or_(b.icmp("eq", i, 0), b.icmp("eq", block.index, k.begin))
            kind = b.select(fresh, b.const(I64, 2), b.const(I64, 1))
            with b.loop(0, k.slot("n_stages")) as number:
                record = b.gep(k.pointer("stages"), I64, number.index * len(STAGE))
                stage = {name: b.load(I64, b.gep(record, I64, w)) for w, name in enumerate(STAGE) if name != "patches"}
                patches = b.load(PTR, b.gep(record, I64, STAGE.index("patches")))
                function = b.load(PTR, record)
                with b.loop(0, stage["n_patches"]) as at:
                    self._patch(k, b.gep(patches, I64, at.index * len(PATCH)), local, o, i)
                first, zero = i * stage["per"] + stage["shift"], b.const(I64, 0)
                begin, end = (
                    o * stage["outer"] + b.intrinsic("smax", b.intrinsic("smin", at, stage["cap"]), zero)
                    for at in (first, first + stage["count"])
                )
                args = b.gep(k.scratch, I64, stage["args"])
                call = f"call void {function.text}(ptr {args.text}, i64 {begin.text}, i64 {end.text}, ptr {rest.text})"
                wanted = b.and_(b.icmp("ne", stage["unless"], kind), b.icmp("slt", begin, end))
                b.if_(wanted, partial(b.line, call))
        return k.finish()

    @staticmethod
    def _patch(k: Kernel, record: Value, local: Value, o: Value, i: Value) -> None:
        b = k.b
        patch = {name: b.load(I64, b.gep(record, I64, w)) for w, name in enumerate(PATCH)}
        value = patch["base"] + patch["local"] * local + o * patch["outer"] + i * patch["step"]
        b.store(b.intrinsic("smin", value, patch["limit"]), b.gep(k.scratch, I8, patch["to"]))
