"""Descriptions of kernels find the code that makes them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest

from MNN.backends.cpu.codegen.generators import GeneratedSpec, generates
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.targets.base import Target
from MNN.discovery import import_modules
from tests.backends.cpu.util import TARGETS


@dataclass(frozen=True)
class Plain(GeneratedSpec):
    wide: bool = False
    deep: bool = False

    def slots(self) -> tuple[str, ...]:
        return ()


@generates(Plain)
def _plain(spec: Plain, target: Target) -> str:
    return f"plain for {target.name}"


@generates(Plain, wide=True, deep=True)
def _both(spec: Plain, target: Target) -> str:
    return "wide and deep"


@generates(Plain, wide=True)
def _wide(spec: Plain, target: Target) -> str:
    return "wide"


def test_the_generator_with_most_fields_that_fit_is_taken() -> None:
    target = TARGETS[0]
    assert Plain().emit(target) == Plain(deep=True).emit(target) == f"plain for {target.name}"
    assert Plain(wide=True).emit(target) == "wide"
    assert Plain(wide=True, deep=True).emit(target) == "wide and deep"


def test_two_generators_for_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="two generators for Plain"):
        generates(Plain, wide=True)(_both)


def test_a_description_without_a_generator_says_so() -> None:
    class Other(Plain):
        pass

    with pytest.raises(TypeError, match=r"nothing generates code for Other\(wide=False,deep=False\)"):
        Other().emit(TARGETS[0])


def test_a_description_alone_finds_its_code() -> None:
    """As in a process that reads a description and nothing else."""
    program = (
        "from MNN.backends.cpu.gemm.contraction import ContractSpec\n"
        "from MNN.backends.cpu.targets.base import host_target\n"
        "from MNN.ir.dtype import DType\n"
        "f32 = DType.F32\n"
        "assert 'define void @kernel' in ContractSpec(f32, f32, f32, f32, 4, 1).emit(host_target())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_family_registers_its_code() -> None:
    for _ in import_modules("MNN.backends.cpu", "spec"):
        pass
    from MNN.backends.cpu.codegen import generators

    generators._load_generators()
    waiting, families = [GeneratedSpec], set()
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("MNN."):
                families.add(kind)
    assert ContractSpec in families
    assert families <= generators._GENERATORS.keys()
