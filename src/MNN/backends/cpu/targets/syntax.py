"""Assembly as LLVM writes it, by processor family: registers, the stack, jumps, and mnemonics by what they do."""

from __future__ import annotations

import re

STACK = {"x86": re.compile(r"\(%rsp"), "aarch64": re.compile(r"\[sp\b")}
FRAME = {
    "x86": (re.compile(r"movq\t%rsp, %rbp"), re.compile(r"\(%r[sb]p")),
    "aarch64": (re.compile(r"(mov|add)\tx29, sp"), re.compile(r"\[(sp|x29)\b")),
}
"""What says that another register stands for the stack pointer, and how the stack is used then."""
REGISTER = {"x86": re.compile(r"%[xyz]mm\d+"), "aarch64": re.compile(r"\b[vqds]\d+\b")}
MEMORY = {"x86": re.compile(r"\("), "aarch64": re.compile(r"\[")}
ALWAYS = {"x86": "jmp jmpq", "aarch64": "b br"}
RETURN = ("ret", "retq")
JUMPS = {"x86": "j*", "aarch64": "b b.* cbz cbnz tbz tbnz"}

MULTIPLY_ADD, MATRIX, OTHER = "multiply-add", "matrix", "vector arithmetic"
KINDS = {
    MATRIX: "tdp* tcmm* tile* *mmla",
    MULTIPLY_ADD: "vfmadd* vfmsub* vfnmadd* vfnmsub* fmla fmls fmlal* fmadd fmsub mla vdp* vpdp* "
    "vpmadd* sdot udot bfdot",
    "load or store": "mov?ps mov?pd vmov?ps vmov?pd vmovdq* movdq* vmovs? movss movsd ldr* ldp* ldu* str* stp* stu* "
    "ld1* ld2* ld3* ld4* st1* st2* st3* st4* vpgather* vgather*",
    "broadcast or shuffle": "*broadcast* *perm* *shuf* *unpck* *insert* *extract* vpalign* valign* vblend* vpblend* "
    "pblend* blend* dup zip? uzp? trn? ext tbl ins *compress* *expand*",
    "branch or compare": "j* cmp? cmp test? b b.* cb* tb* call* bl blr ret* subs vptest* *comis*",
    "address": "lea* inc* dec* add addq addl sub subq subl imul* mul madd msub sh?q sh?l sar* xorl xorq andl andq orl "
    "orq mov movl movq movb movw movabs* movs?? movslq movz* movk adr* orr and eor lsl lsr asr neg* not* cmov* csel "
    "cset push* pop* sxtw div* idiv* cqto udiv sdiv set* bt? s?x? tzcnt* bzhi*",
}
