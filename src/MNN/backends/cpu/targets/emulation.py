"""Instructions in plain code, for processors that lack them: what others' processors compute can then be run anywhere.

``MNN_TARGET=avx512,+amx-tile,+amx-bf16`` chooses kernels as on a processor with these features. Where the machine has
no such instruction a function with the same meaning is called in its place, which is slow: it is there so that tests
run every kernel on every machine. (Tile registers are emulated by :mod:`MNN.backends.cpu.amx.tiles`.)

Meanings are those of Intel's "Intrinsics Guide"; subnormal numbers, which some of the instructions count as zero, keep
their values here.
"""

from __future__ import annotations

from collections.abc import Sequence

FEATURES = frozenset(
    "amx-bf16 amx-fp16 amx-int8 amx-tile avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 "
    "avx512ifma avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vpopcntdq avxifma avxvnni avxvnniint8".split()
)
"""Features that may be emulated: those that kernels use through an instruction below, tiles, plain vectors, or not."""


def _every(count: int, step: int, first: int) -> str:
    return f"<{count} x i32> <{', '.join(f'i32 {first + step * i}' for i in range(count))}>"


def _sums(name: str, bits: int, group: int, kinds: tuple[str, str]) -> str:
    """``total + sums of groups of neighbouring products`` of integers that are extended as ``kinds`` say (i32)."""
    lanes = bits // 32
    many, small = lanes * group, f"<{lanes * group} x i{32 // group}>"
    total, wide = f"<{lanes} x i32>", f"<{many} x i32>"
    lines = [
        f"define internal {total} @{name}({total} %t, {small} %a, {small} %b) {{",
        f"%x = {kinds[0]} {small} %a to {wide}",
        f"%y = {kinds[1]} {small} %b to {wide}",
        f"%p = mul {wide} %x, %y",
    ]
    before = "%t"
    for i in range(group):
        lines.append(f"%q{i} = shufflevector {wide} %p, {wide} poison, {_every(lanes, group, i)}")
        lines.append(f"%s{i} = add {total} {before}, %q{i}")
        before = f"%s{i}"
    return "\n".join([*lines, f"ret {total} {before}", "}"])


def dot_bf16(name: str, bits: int) -> str:
    """Odd products first, each sum rounded."""
    lanes = bits // 32
    pairs, total = f"<{2 * lanes} x bfloat>", f"<{lanes} x float>"
    lines = [f"define internal {total} @{name}({total} %t, {pairs} %a, {pairs} %b) {{"]
    for operand in "ab":
        lines.append(f"%{operand}w = bitcast {pairs} %{operand} to <{lanes} x i32>")
        lines.append(f"%{operand}h = and <{lanes} x i32> %{operand}w, splat (i32 -65536)")
        lines.append(f"%{operand}l = shl <{lanes} x i32> %{operand}w, splat (i32 16)")
        lines += [
            f"%{operand}{i} = bitcast <{lanes} x i32> %{operand}{half} to {total}" for i, half in ((1, "h"), (0, "l"))
        ]
    for i in (1, 0):
        lines.append(f"%p{i} = fmul {total} %a{i}, %b{i}")
        lines.append(f"%s{i} = fadd {total} {'%t' if i else '%s1'}, %p{i}")
    return "\n".join([*lines, f"ret {total} %s0", "}"])


def pairs(name: str, bits: int) -> str:
    lanes = bits // 32
    small, total, wide = f"<{2 * lanes} x i16>", f"<{lanes} x i32>", f"<{2 * lanes} x i32>"
    lines = [f"define internal {total} @{name}({small} %a, {small} %b) {{"]
    lines += [f"%{operand}w = sext {small} %{operand} to {wide}" for operand in "ab"]
    lines.append(f"%p = mul {wide} %aw, %bw")
    lines += [f"%q{i} = shufflevector {wide} %p, {wide} poison, {_every(lanes, 2, i)}" for i in (0, 1)]
    return "\n".join([*lines, f"%s = add {total} %q0, %q1", f"ret {total} %s", "}"])


def packed_int16(name: str, bits: int) -> str:
    """i32 to i16, saturated, of both operands in turns of 128 bits."""
    return _packed(name, bits, 32, -32768, 32767)


def packed_unsigned(name: str, bits: int) -> str:
    """i16 to u8, saturated, of both operands in turns of 128 bits."""
    return _packed(name, bits, 16, 0, 255)


def packed_signed(name: str, bits: int) -> str:
    """i16 to i8, saturated, of both operands in turns of 128 bits."""
    return _packed(name, bits, 16, -128, 127)


def _packed(name: str, bits: int, source: int, least: int, most: int) -> str:
    lanes, run = bits // source, 128 // source
    one, both, out = f"<{lanes} x i{source}>", f"<{2 * lanes} x i{source}>", f"<{2 * lanes} x i{source // 2}>"
    order = [k * lanes + part * run + i for part in range(lanes // run) for k in (0, 1) for i in range(run)]
    mask = f"<{2 * lanes} x i32> <{', '.join(f'i32 {i}' for i in order)}>"
    return "\n".join(
        [
            f"define internal {out} @{name}({one} %a, {one} %b) {{",
            f"%all = shufflevector {one} %a, {one} %b, {mask}",
            f"%low = icmp slt {both} %all, splat (i{source} {most})",
            f"%top = select <{2 * lanes} x i1> %low, {both} %all, {both} splat (i{source} {most})",
            f"%high = icmp sgt {both} %top, splat (i{source} {least})",
            f"%fit = select <{2 * lanes} x i1> %high, {both} %top, {both} splat (i{source} {least})",
            f"%out = trunc {both} %fit to {out}",
            f"ret {out} %out",
            "}",
        ]
    )


def bytes_within(name: str, bits: int) -> str:
    """``table[index]`` byte by byte, within parts of 128 bits; indices are below 16."""
    lanes = bits // 8
    small = f"<{lanes} x i8>"
    lines = [f"define internal {small} @{name}({small} %table, {small} %index) {{"]
    before = "poison"
    for i in range(lanes):
        lines += [
            f"%i{i} = extractelement {small} %index, i64 {i}",
            f"%p{i} = or i8 %i{i}, {i & -16}",
            f"%e{i} = extractelement {small} %table, i8 %p{i}",
            f"%o{i} = insertelement {small} {before}, i8 %e{i}, i64 {i}",
        ]
        before = f"%o{i}"
    return "\n".join([*lines, f"ret {small} {before}", "}"])


def table(name: str, bits: int) -> str:
    """``table[index]`` lane by lane; only the low bits of an index count."""
    lanes = bits // 32
    table, index = f"<{lanes} x float>", f"<{lanes} x i32>"
    lines = [
        f"define internal {table} @{name}({table} %table, {index} %index) {{",
        f"%low = and {index} %index, splat (i32 {lanes - 1})",
    ]
    before = "poison"
    for i in range(lanes):
        lines.append(f"%i{i} = extractelement {index} %low, i64 {i}")
        lines.append(f"%e{i} = extractelement {table} %table, i32 %i{i}")
        lines.append(f"%o{i} = insertelement {table} {before}, float %e{i}, i64 {i}")
        before = f"%o{i}"
    return "\n".join([*lines, f"ret {table} {before}", "}"])


def dot4_unsigned(name: str, bits: int) -> str:
    return _sums(name, bits, 4, ("zext", "sext"))


def dot4_signed(name: str, bits: int) -> str:
    return _sums(name, bits, 4, ("sext", "sext"))


def dot2(name: str, bits: int) -> str:
    return _sums(name, bits, 2, ("sext", "sext"))


def apart(name: str, callee: str, ret: str, first: Sequence[str], constant: str, last: Sequence[str]) -> str:
    """A function that does nothing but call ``callee``, with an i32 ``constant`` between its own parameters, whose
    types are ``first`` and ``last``."""
    own = [f"{kind} %a{i}" for i, kind in enumerate((*first, *last))]
    given = [*own[: len(first)], f"i32 {constant}", *own[len(first) :]]
    call = f"call {ret} @{callee}({', '.join(given)})"
    body = [call, "ret void"] if ret == "void" else [f"%r = {call}", f"ret {ret} %r"]
    return "\n".join([f"define internal {ret} @{name}({', '.join(own)}) {{", *body, "}"])


__all__ = ["FEATURES", "apart", "dot2", "dot4_signed", "dot4_unsigned", "dot_bf16", "packed_int16", "pairs", "table"]
