"""Measuring the machine: the numbers exist, make sense together, and are remembered by the rules of the cache."""

from __future__ import annotations

import dataclasses

import pytest

from MNN.backends.cpu.amx.split import ARITHMETIC, OF_BYTES
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.measuring import machine
from MNN.backends.cpu.measuring.machine import Machine, Rates
from MNN.backends.cpu.measuring.probe import ProductSpec, products
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.targets.base import host_target, named_target, target_names
from MNN.cache.notes import PART, note_key, read_note, write_note
from MNN.ir.dtype import DType

RATES = Rates(1, {"f32": 100.0}, {"L1": 200.0, "DRAM": 30.0})
MACHINE = Machine(
    "a processor", "avx2", ("avx2", "fma"), 4, {"L1": 32768, "L2": 1 << 20}, RATES,
    Rates(4, {"f32": 390.0}, {"L1": 800.0, "DRAM": 45.0}), 40.0, 0.5,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))


def test_rates_between_one_and_all_threads():
    assert MACHINE.rates(1) is MACHINE.one
    assert MACHINE.rates(8) is MACHINE.all
    two = MACHINE.rates(2)
    assert two.compute["f32"] == 200
    assert two.read == {"L1": 400, "DRAM": 45}


@pytest.mark.parametrize("lent", ["", "avx512,+amx-tile,+amx-bf16,+amx-int8"])
def test_measured_and_remembered(monkeypatch, lent):
    """With what the processor has, and with emulated instructions."""
    monkeypatch.setenv("MNN_TARGET", lent)
    monkeypatch.setattr(machine, "_RUN_NS", 2e4)
    monkeypatch.setattr(machine, "_TRIES", 2)
    monkeypatch.setattr(machine, "_ROUNDS", 1)
    monkeypatch.setattr(machine, "_MOST_BYTES", 4 << 20)
    target = host_target()
    assert machine.known_machine(target) is None
    lines: list[str] = []
    found = machine.measure_machine(target, lines.append)
    assert "1 thread: f32 products" in lines
    for rates in (found.one, found.all):
        assert set(rates.compute) == set(products(target))
        assert {"L1", "L2", "DRAM"} <= set(rates.read)
        assert all(v > 0 for v in (*rates.compute.values(), *rates.read.values()))
    assert machine.known_machine(target) == found
    other = dataclasses.replace(target, features=target.features[:-1])
    assert machine.known_machine(other) is None


def test_notes_that_were_changed_count_as_absent(tmp_path):
    key = note_key("machine", ("a", "b"))
    assert key != note_key("machine", ("ab", ""))
    assert read_note(key) is None
    assert write_note(key, {"x": 1})
    assert read_note(key) == {"x": 1}
    (file,) = (tmp_path / "cache" / PART).iterdir()
    file.write_bytes(file.read_bytes().replace(b'{"x": 1}', b'{"x": 2}'))
    assert read_note(key) is None


def test_a_note_of_another_version_is_measured_again():
    key = machine.machine_note(host_target())
    write_note(key, {"name": "old"})
    assert machine.known_machine(host_target()) is None


@pytest.mark.parametrize("name", target_names())
def test_products_of_every_target_become_code(name):
    target = named_target(name)
    assert "f32" in products(target)
    for kind in products(target):
        symbol, data = Library(target).object(ProductSpec(kind))
        assert symbol
        assert data


def test_products_of_tiles_become_code():
    target = named_target("avx512")
    tiled = dataclasses.replace(target, features=(*target.features, "amx-tile", "amx-bf16", "amx-fp16", "amx-int8"))
    kinds = [kind for kind in products(tiled) if kind not in products(target)]
    assert kinds == [*ARITHMETIC.values(), OF_BYTES]
    for kind in kinds:
        symbol, data = Library(tiled).object(ProductSpec(kind))
        assert symbol
        assert data
    one, two, three, halves, of_bytes = (products(tiled)[kind].operations for kind in kinds)
    assert one == 2 * 16 * 16 * 32
    assert of_bytes > one > two == halves > three


@pytest.mark.parametrize(
    ("spec", "feature"),
    [
        (ContractSpec(DType.F32, DType.F32, DType.F32, DType.F32, 4, 2), ""),
        (ContractSpec(DType.BF16, DType.BF16, DType.F32, DType.F32, 4, 2, group=DOT2), "avx512bf16"),
        (ContractSpec(DType.U8, DType.I8, DType.I32, DType.I32, 4, 2, group=DOT4), "avx512vnni"),
    ],
)
def test_products_are_measured_under_the_names_kernels_give(spec: ContractSpec, feature: str) -> None:
    base = named_target("avx512")
    target = dataclasses.replace(base, features=(*base.features, feature)) if feature else base
    assert spec.arithmetic(target) in products(target)
    assert not feature or spec.arithmetic(base) not in products(base)
