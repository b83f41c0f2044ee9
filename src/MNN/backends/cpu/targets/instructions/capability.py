"""What kernels ask a processor for, by what it does; the instructions that do it stand in the families' files.

>>> from MNN.backends.cpu.targets.base import named_target
>>> named_target("neon-fp16").can(DOT4_SIGNED), named_target("neon").can(DOT4_SIGNED)
(True, False)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from MNN.backends.cpu.targets.instructions import reference
from MNN.backends.cpu.targets.instructions.reference import Array


@dataclasses.dataclass(frozen=True, eq=False)
class Capability:
    """Something that one instruction does, or that plain LLVM IR becomes one for."""

    name: str
    reference: Callable[..., Array] | None
    """The result in numpy; None where an instruction computes nothing."""


DOT4_UNSIGNED = Capability("sums of four products of unsigned by signed bytes, added to i32", reference.dot_integers)
DOT4_SIGNED = Capability("sums of four products of signed bytes, added to i32", reference.dot_integers)
DOT2_I16 = Capability("sums of two products of i16, added to i32", reference.dot_integers)
PAIRS_I16 = Capability("sums of two products of i16 in i32", reference.pairs)
PAIRS_BYTES = Capability("sums of two products of u8 by i8 in i16, saturated", reference.pairs_of_bytes)
SIGN_BYTES = Capability("i8 negated where others are negative, zero where they are zero", reference.with_signs)
DOT2_BF16 = Capability("sums of two products of bf16, added to f32", reference.dot_bf16)
TO_BF16 = Capability("f32 to bf16, to the nearest even", reference.to_bf16)
TWO_TO_BF16 = Capability("two vectors of f32 to one of bf16", reference.two_to_bf16)
PACK_I32 = Capability("two vectors of i32 to one of i16, saturated", reference.packed)
PACK_I16_UNSIGNED = Capability("two vectors of i16 to one of u8, saturated", reference.packed_unsigned)
PACK_I16_SIGNED = Capability("two vectors of i16 to one of i8, saturated", reference.packed_signed)
PICK_F32 = Capability("f32 picked from a register by i32 indices", reference.picked)
PICK_BYTES = Capability("bytes picked from two registers by byte indices", reference.picked_of_two)
PICK_WITHIN = Capability("bytes picked within 16 by byte indices, zeros by negative ones", reference.picked_within)
LOOK_UP = Capability("bytes picked within 16 by byte indices below 16", reference.picked_within)
SCALE_F32 = Capability("f32 times a power of two, rounded once", reference.scaled)
SCALE_F64 = Capability("f64 times a power of two, rounded once", reference.scaled)
RECIPROCAL = Capability("1 / f32 within 2^-14", reference.reciprocal)
LIMIT_SIZE = Capability("f32 limited in size", reference.limited)
PAUSE = Capability("a short rest within a loop that waits", None)

TILE_CONFIGURE = Capability("tile registers made ready", None)
TILE_RELEASE = Capability("tile registers given back", None)
TILE_ZERO = Capability("a tile of zeros", None)
TILE_LOAD = Capability("a tile from rows in memory", reference.rows)
TILE_LOAD_PASSING = Capability("a tile from rows that need not stay in the first-level cache", reference.rows)
TILE_STORE = Capability("a tile to rows in memory", reference.rows)
TILE_DOT_BF16 = Capability("the product of two tiles of bf16, added to one of f32", reference.tile_product)
TILE_DOT_F16 = Capability("the product of two tiles of f16, added to one of f32", reference.tile_product)
TILE_DOT_U8_I8 = Capability("the product of tiles of u8 and of i8, added to one of i32", reference.tile_of_bytes)
TILE_DOT_I8_I8 = Capability("the product of two tiles of i8, added to one of i32", reference.tile_of_bytes)
TILE_DOT_U8_U8 = Capability("the product of two tiles of u8, added to one of i32", reference.tile_of_bytes)
TILE_DOT_I8_U8 = Capability("the product of tiles of i8 and of u8, added to one of i32", reference.tile_of_bytes)

CONVERT_F16 = Capability("f16 to f32 and back", reference.halves)
ARITHMETIC_F16 = Capability("multiply-adds of f16", reference.multiply_add)
GATHER = Capability("loads of 32 or 64 bits from a vector of addresses", reference.gathered)
MASKED_BYTES = Capability("masked loads and stores of elements of any size", reference.masked)
MASKED_WORDS = Capability("masked loads and stores of elements of 32 bits and more", reference.masked)
MOVE_BYTES = Capability("bytes put in place by one or two instructions", reference.moved)
GREATER = Capability("a comparison and the choice by it at once", reference.greater)
SATURATE = Capability("conversions to integers that saturate", reference.saturated)
ASSEMBLY_F32 = Capability("steps of f32 products in assembly (x86_assembly)", None)
