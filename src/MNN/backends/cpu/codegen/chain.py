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
from MNN.backends.base.record import Record, word
from MNN.backends.cpu.lang.module import I8, I64, Kernel, Value
from MNN.backends.cpu.lang.records import entry, load_record
from MNN.backends.cpu.targets.base import Target

STAGE = Record(
    "stage",
    word("function", "its kernel", pointer=True),
    word("args", "where its arguments begin among the words of the template, of which every worker has a copy"),
    word("outer", "blocks of the kernel in each o"),
    word("per", "blocks from one i to the next"),
    word("shift", "and before those of the first i"),
    word("count", "blocks to run: o*outer + clip(i*per + shift) <= s < o*outer + clip(i*per + shift + count)"),
    word("cap", "clip takes what is outside of 0 to this to the nearer of these"),
    word("unless", "leave it out in blocks that continue the one before, in the same call and o (1), in others (2)"),
    word("patches", "its records PATCH", pointer=True),
    word("n_patches", "how many"),
)
PATCH = Record(
    "patch",  # the argument becomes min(base + local*L + o*outer + i*step, limit), L: address of local memory
    word("to", "byte of the arguments where it is stored"),
    word("base", "what it is for the first block"),
    word("local", "1: base counts from the worker's local memory"),
    word("outer", "how much more for each o"),
    word("step", "how much more for each i"),
    word("limit", "what it is at most"),
)
NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class ChainSpec(KernelSpec):
    """For chain block ``b`` with ``o, i = divmod(b, inner)``, every stage in order: its patches, then its kernel.

    ``stages`` points to ``n_stages`` records :data:`STAGE`, ``template`` to ``words`` i64.

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
        with b.loop(0, k.slot("words")) as each:
            b.store(b.load(I64, b.gep(k.pointer("template"), I64, each.index)), b.gep(k.scratch, I64, each.index))
        with b.loop(k.begin, k.end) as block:
            o = b.udiv(block.index, k.slot("inner"))
            i = block.index - o * k.slot("inner")
            fresh = b.or_(b.icmp("eq", i, 0), b.icmp("eq", block.index, k.begin))
            kind = b.select(fresh, b.const(I64, 2), b.const(I64, 1))
            with b.loop(0, k.slot("n_stages")) as number:
                stage = load_record(b, STAGE, entry(b, STAGE, k.pointer("stages"), number.index))
                with b.loop(0, stage["n_patches"]) as at:
                    self._patch(k, entry(b, PATCH, stage["patches"], at.index), local, o, i)
                first, zero = i * stage["per"] + stage["shift"], b.const(I64, 0)
                begin, end = (
                    o * stage["outer"] + b.intrinsic("smax", b.intrinsic("smin", at, stage["cap"]), zero)
                    for at in (first, first + stage["count"])
                )
                args = b.gep(k.scratch, I64, stage["args"])
                given = f"ptr {args.text}, i64 {begin.text}, i64 {end.text}, ptr {rest.text}"
                call = f"call void {stage['function'].text}({given})"
                wanted = b.and_(b.icmp("ne", stage["unless"], kind), b.icmp("slt", begin, end))
                b.if_(wanted, partial(b.line, call))
        return k.finish()

    @staticmethod
    def _patch(k: Kernel, record: Value, local: Value, o: Value, i: Value) -> None:
        b = k.b
        patch = load_record(b, PATCH, record)
        value = patch["base"] + patch["local"] * local + o * patch["outer"] + i * patch["step"]
        b.store(b.intrinsic("smin", value, patch["limit"]), b.gep(k.scratch, I8, patch["to"]))
