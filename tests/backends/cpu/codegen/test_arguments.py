"""The arguments of kernels are what their records say: addresses are read as addresses, numbers as numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.record import Record
from MNN.backends.cpu.amx.pack import AmxPackSpec
from MNN.backends.cpu.amx.records import AMX, JOINED, PACE, PACK
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.records import CONTRACTION
from MNN.backends.cpu.inner_product.records import INNER_PRODUCT
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.lowbit.records import COMPRESSED
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.strassen.records import STRASSEN, SUMS
from MNN.backends.cpu.strassen.spec import StrassenSpec
from MNN.backends.cpu.strassen.sums import StrassenSumsSpec
from MNN.backends.cpu.targets.base import named_target
from MNN.backends.cpu.winograd.records import FIXED, WEIGHTS, WINOGRAD, operand_arguments
from MNN.backends.cpu.winograd.spec import WinogradSpec, WinogradWeightsSpec
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of

F32, BF16 = DType.F32, DType.BF16
SUM = body_of([F32, F32], lambda b, x, y: b("add", x, y))
AVX512 = named_target("avx512")
TILES = ("avx512bf16", "avx512vnni", "amx-tile", "amx-bf16")
TARGETS = {"avx2": named_target("avx2"), "tiles": dataclasses.replace(AVX512, features=(*AVX512.features, *TILES))}
LOAD = re.compile(r"getelementptr i64, ptr %args, i64 (\d+)\n%v\d+ = load (ptr|i64)")
CASES: dict[str, tuple[KernelSpec, str, Sequence[Record]]] = {
    "contraction": (ContractSpec(F32, F32, F32, F32, 4, 2), "avx2", [CONTRACTION]),
    "few rows": (CompressedSpec(F32, F32, F32, F32, 1, 4, few=True), "avx2", [CONTRACTION, COMPRESSED]),
    "expanded": (CompressedSpec(F32, F32, F32, F32, 4, 2), "avx2", [CONTRACTION, COMPRESSED]),
    "inner product": (InnerProductSpec(4, 2), "avx2", [INNER_PRODUCT]),
    "Strassen": (StrassenSpec(4, 2, 2, 4096), "avx2", [STRASSEN]),
    "Strassen, factors": (StrassenSumsSpec(2, 4), "avx2", [SUMS]),
    "AMX": (AmxSpec(F32, F32, 2), "tiles", [AMX]),
    "AMX, all": (AmxSpec(F32, F32, 2, SUM, ("n",), 4, overlap=True, joined=True), "tiles", [AMX, PACE, JOINED]),
    "AMX, packing": (AmxPackSpec(F32, 2), "tiles", [PACK]),
    "Winograd": (
        WinogradSpec(4, 4, 3, 3, 4, 2, True, True, True, F32, SUM, ("mn",)), "avx2",
        [WINOGRAD, operand_arguments(["mn"])],
    ),
    "Winograd, fixed": (
        WinogradSpec(4, 4, 3, 3, 4, 2, True, False, True, F32, x=BF16, fixed=True), "tiles", [WINOGRAD, FIXED],
    ),
    "Winograd, weights": (WinogradWeightsSpec(4, 4, 3, 3, 16), "avx2", [WEIGHTS]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arguments_are_what_their_records_say(name: str) -> None:
    spec, target, records = CASES[name]
    words = [word for record in records for word in record.words.values()]
    slots = spec.slots()
    assert slots[: len(words)] == tuple(word.name for word in words)
    assert len(set(slots)) == len(slots)
    read = {int(i): kind for i, kind in LOAD.findall(spec.emit(TARGETS[target]))}
    assert len(read) > len(words) // 2
    for i, word in enumerate(words):
        assert read.get(i, "") in ("", "ptr" if word.pointer else "i64"), word
