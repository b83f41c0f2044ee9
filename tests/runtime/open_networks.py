"""Networks of drawn blocks over sequences, images and volumes of open sizes, against ONNX Runtime at many sizes.

python -m tests.runtime.open_networks --cases 200 --seed 1000      # many, with what has no plan for ranges and why
python -m tests.runtime.open_networks --block sampled --cases 20   # networks of one block
python -m tests.runtime.open_networks --batches --cases 20         # batches of open sizes alone, sample by sample
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

import MNN
from MNN.backends.cpu import batch_slices
from MNN.runtime.range_planner import RangePlanner
from tests.runtime import open_blocks

TOLERANCE = {"high": 1e-4, "normal": 2e-3, "low": 0.15}
LARGEST = {1: 200, 2: 70, 3: 14}
"""Of sizes that are drawn, by the number of axes."""
ROUNDED = 0.05
"""Tolerance where numbers are rounded to bytes: the last digit decides between two of these."""
TINY = 0.2
"""How often sizes are tiny."""


class Tried(NamedTuple):
    """What came of a network: the blocks in it, sizes at which answers were compared, how many of these had a plan for
    a range, how many of these computed a batch sample by sample, and what kept others from one."""

    blocks: list[str]
    compared: int
    ranged: int
    sliced: int
    reasons: list[str]


class Network:
    """A network that a seed stands for, of ``block`` alone where one is named; with ``batches`` only the number of
    samples is open."""

    def __init__(self, seed: int, block: str = "", batches: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.axes = int(self.rng.choice([1, 2, 2, 2, 3])) if block not in _IMAGES else 2
        net = open_blocks.Net(self.rng, int(self.rng.choice([3, 4, 8, 16])), self.axes)
        self.channels, self.blocks = net.channels, []
        known = [*open_blocks.BLOCKS, *(open_blocks.IMAGES if self.axes == 2 else ())]
        for _ in range(1 if block else int(self.rng.integers(2, 6))):
            made = net.pick(*known) if not block else getattr(open_blocks, block)
            net.at = made(net)
            self.blocks.append(made.__name__)
        net.nodes.append(helper.make_node("Neg", [net.at], ["y"]))
        self.open = self.rng.permutation(self.axes)[: int(self.rng.integers(1, self.axes + 1))].tolist()
        self.batch = bool(self.rng.random() < 0.3) or batches
        if batches:
            self.open = []
        info, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
        sizes: list[Any] = [f"s{i}" if i in self.open else self.fixed for i in range(self.axes)]
        x = info("x", f32, ["batch" if self.batch else 1, self.channels, *sizes])
        graph = helper.make_graph(net.nodes, "open", [x], [info("y", f32, None)], net.constants)
        opset = 23 if "attention_operator" in self.blocks else 21  # as new as ONNX Runtime knows the other operators
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        self.source: bytes = model.SerializeToString()

    @property
    def fixed(self) -> int:
        """The size of axes that are not open."""
        return LARGEST[self.axes] // 2 + 3

    def inputs(self, count: int) -> Iterator[np.ndarray]:
        """Arrays of many sizes, some of them tiny."""
        for _ in range(count):
            most = 9 if self.rng.random() < TINY else LARGEST[self.axes]
            sizes = [int(self.rng.integers(1, most)) if i in self.open else self.fixed for i in range(self.axes)]
            batch = int(self.rng.integers(1, 7 if self.open else 40)) if self.batch else 1
            yield self.rng.standard_normal((batch, self.channels, *sizes)).astype(np.float32)


_IMAGES = [block.__name__ for block in open_blocks.IMAGES]


@contextmanager
def sample_by_sample() -> Iterator[None]:
    """While it is entered, batches are computed so wherever they can be, and not only where that is faster."""
    before = batch_slices.best_size
    batch_slices.best_size = lambda *rest: 1
    try:
        yield
    finally:
        batch_slices.best_size = before


@contextmanager
def reasons() -> Iterator[list[str]]:
    """Why plans for ranges are not made while it is entered."""
    found: list[str] = []
    plan = RangePlanner.plan

    def noted(self: RangePlanner, *arguments: Any) -> Any:
        try:
            return plan(self, *arguments)
        except Exception as error:
            found.append(str(error))
            raise

    RangePlanner.plan = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        RangePlanner.plan = plan  # type: ignore[method-assign]


def check(
    seed: int, precision: str = "normal", threads: int = 1, count: int = 9, block: str = "", batches: bool = False
) -> Tried:
    """Compares answers at ``count`` sizes; those that ONNX Runtime refuses are passed over."""
    network = Network(seed, block, batches)
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        reference = ort.InferenceSession(network.source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - its errors have no class of their own
        return Tried(network.blocks, 0, 0, 0, [f"ONNX Runtime: {error}"])
    compared = ranged = sliced = 0
    with reasons() as why:
        ours = MNN.load(network.source, precision=precision, threads=threads)
        for x in network.inputs(count):
            try:
                (wanted,) = reference.run(None, {"x": x})
            except Exception:  # noqa: BLE001 - its errors have no class of their own
                continue
            try:
                found = ours.run({"x": x})["y"]
            except MNN.MNNError as error:
                if "larger than the padded input" not in str(error):  # which ONNX Runtime rounds up to one window
                    raise
                continue
            where = f"seed {seed}, {network.blocks}, {x.shape}, {precision}, {threads} threads"
            assert found.shape == wanted.shape, f"{where}: {found.shape} instead of {wanted.shape}"
            if wanted.size:
                assert np.isfinite(found).all() or not np.isfinite(wanted).all(), f"{where}: not finite"
                off = np.abs(found - wanted)[np.isfinite(wanted)]
                scale = max(float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)), 1e-3)
                worst = float(off.max(initial=0)) / scale
                most = max(TOLERANCE[precision], ROUNDED * ("quantized" in network.blocks))
                assert worst <= most, f"{where}: off by {worst:.1e}"
            compared += 1
            plans = ours.plans_used()
            program = plans[0].bound.program if plans else None
            ranged += program is not None and program.open_sizes is not None
            sliced += program is not None and program.open_sizes is not None and program.slices is not None
    return Tried(network.blocks, compared, ranged, sliced, why)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--block", default="", help="networks of this block alone")
    parser.add_argument("--batches", action="store_true", help="only batches are open, computed sample by sample")
    parser.add_argument("--precision", choices=list(TOLERANCE), default="high")
    chosen = parser.parse_args()
    compared = ranged = sliced = failed = 0
    causes: collections.Counter[str] = collections.Counter()
    for seed in range(chosen.seed, chosen.seed + chosen.cases):
        try:
            with sample_by_sample() if chosen.batches else nullcontext():
                found = check(seed, chosen.precision, 1 + seed % 2, 9, chosen.block, chosen.batches)
        except (AssertionError, MNN.MNNError) as error:
            failed += 1
            print(f"seed {seed}: {type(error).__name__} {str(error)[:400]}", flush=True)
            continue
        compared, ranged, sliced = compared + found.compared, ranged + found.ranged, sliced + found.sliced
        if found.ranged < found.compared // 2 or not found.compared:
            print(f"seed {seed}: {found.ranged} of {found.compared} in ranges; {found.blocks}", flush=True)
            for reason in list(dict.fromkeys(found.reasons))[:3]:
                print(f"    {reason[:200]}", flush=True)
            causes.update(set(found.reasons[:1]))
    by_sample = f", {sliced} of them sample by sample" if chosen.batches else ""
    print(f"{compared} sizes compared, {ranged} with a plan for a range{by_sample}; {failed} networks failed")


if __name__ == "__main__":
    main()
