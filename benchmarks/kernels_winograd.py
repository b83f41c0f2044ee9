"""Winograd convolutions beside implicit GEMM: measured and estimated times, and errors, layer by layer.

    python -m benchmarks.kernels_winograd [--target avx2] [--seconds 0.1] [--only VGG] [--precision high]

One thread, fp32, bias and ReLU fused; channels-last input with its border, as inside a network, but with weights that
stay in the third-level cache when they fit. Estimates are the cost model's cycles at the clock that makes the direct
estimates right on average. A star marks the choice of the cost model; the last column is what it loses against the
fastest.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.kernels_contract import ENTRY, Case, Ours, fastest
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.products.register_tiles import contract_cycles
from MNN.backends.cpu.targets import Target, host_target
from MNN.backends.cpu.winograd.cost import Plan, plans
from MNN.backends.cpu.winograd.spec import WinogradSpec, WinogradWeightsSpec
from MNN.backends.cpu.winograd.sums import Work
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of

F32 = DType.F32


@dataclass(frozen=True)
class Layer:
    net: str
    size: int
    c: int
    n: int
    rh: int = 3
    rw: int = 3
    stride: int = 1

    @property
    def work(self) -> Work:
        return Work(1, self.size, self.size, self.c, self.n, self.rh, self.rw, stride=self.stride)

    @property
    def inputs(self) -> tuple[int, int]:
        """Rows and columns of the input with its border."""
        far = (self.size - 1) * self.stride
        return far + self.rh, far + self.rw


LAYERS = [
    Layer("ResNet", 56, 64, 64), Layer("ResNet", 28, 128, 128), Layer("ResNet", 14, 256, 256),
    Layer("ResNet", 7, 512, 512),
    Layer("VGG", 224, 64, 64), Layer("VGG", 112, 64, 128), Layer("VGG", 112, 128, 128), Layer("VGG", 56, 128, 256),
    Layer("VGG", 56, 256, 256), Layer("VGG", 28, 256, 512), Layer("VGG", 28, 512, 512), Layer("VGG", 14, 512, 512),
    Layer("Inception", 147, 32, 32), Layer("Inception", 147, 32, 64), Layer("Inception", 71, 80, 192),
    Layer("Inception", 35, 64, 96), Layer("Inception", 35, 96, 96), Layer("Inception", 8, 448, 384),
    Layer("Inception", 35, 48, 64, 5, 5), Layer("Inception", 17, 128, 128, 1, 7),
    Layer("Inception", 17, 192, 192, 7, 1), Layer("Inception", 8, 384, 384, 1, 3),
    Layer("SqueezeNet", 55, 16, 64), Layer("SqueezeNet", 27, 32, 128), Layer("SqueezeNet", 13, 48, 192),
    Layer("SqueezeNet", 13, 64, 256),
    Layer("YOLO", 160, 16, 16), Layer("YOLO", 80, 32, 32), Layer("YOLO", 40, 64, 64), Layer("YOLO", 20, 128, 128),
    Layer("YOLO", 80, 64, 64), Layer("YOLO", 80, 64, 80), Layer("YOLO", 40, 128, 64), Layer("YOLO", 20, 256, 64),
    Layer("U-Net", 128, 64, 32), Layer("U-Net", 256, 32, 32), Layer("U-Net", 32, 256, 256),
    Layer("U-Net", 16, 512, 512),
    Layer("DenseNet", 56, 128, 32), Layer("DenseNet", 28, 128, 32), Layer("DenseNet", 14, 128, 32),
    Layer("DenseNet", 7, 128, 32),
    Layer("Strided ResNet", 28, 64, 128, stride=2), Layer("Strided ResNet", 14, 128, 256, stride=2),
    Layer("Strided ResNet", 7, 256, 512, stride=2), Layer("Strided ResNet-50", 28, 128, 128, stride=2),
    Layer("Strided ResNet-50", 14, 256, 256, stride=2), Layer("Strided ResNet-50", 7, 512, 512, stride=2),
    Layer("Strided YOLO", 160, 16, 32, stride=2), Layer("Strided YOLO", 80, 32, 64, stride=2),
    Layer("Strided YOLO", 40, 64, 128, stride=2), Layer("Strided YOLO", 20, 128, 256, stride=2),
    Layer("Strided Inception", 17, 288, 384, stride=2), Layer("Strided Inception", 8, 192, 320, stride=2),
]  # fmt: skip


class Winograd:
    """The layer on the Winograd kernel, by a plan."""

    def __init__(
        self, layer: Layer, plan: Plan, target: Target, x: np.ndarray, w: np.ndarray, bias: np.ndarray
    ) -> None:
        """x: ``[H, W, C]`` with its border, w: ``[rh, rw, C, N]``."""
        body = body_of([F32] * 2, lambda b, s, o: b("max", b("add", s, o), b.const(0, F32)))
        lanes, c, n, size = target.lanes(F32), layer.c, layer.n, layer.size
        tail = c % lanes != 0, n % lanes != 0
        spec = WinogradSpec(
            plan.mh,
            plan.mw,
            layer.rh,
            layer.rw,
            plan.mr,
            plan.nv,
            plan.chunk > 0,
            *tail,
            epilogue=body,
            operands=("n",),
            stride=layer.stride,
        )
        made = WinogradWeightsSpec(plan.mh, plan.mw, layer.rh, layer.rw, spec.nr(target), layer.stride)
        function, make = (ENTRY(a) for a in Library(target).load([spec, made]))
        u, w = _aligned(made.size(c, n)), np.ascontiguousarray(w.transpose(3, 2, 0, 1))
        step = 16
        args = np.array([w.ctypes.data, u.ctypes.data, c, n, 0, step, *(s // 4 for s in w.strides)], np.int64)
        make(args.ctypes.data, 0, made.blocks(c, n, step), None)
        self.y = np.zeros((size, size, n), np.float32)
        (height, width), step = layer.inputs, layer.stride
        starts = [(i, j) for i in range(0, size, plan.mh) for j in range(0, size, plan.mw)]
        ends = [(min(plan.mh, size - i), min(plan.mw, size - j)) for i, j in starts]
        table = [
            [(i * width + j) * step * c, height - 1 - i * step, width - 1 - j * step, (i * size + j) * n, *end, 0]
            for (i, j), end in zip(starts, ends, strict=True)
        ]
        tiles = np.array(table, np.int32)
        slots = {
            "x": x.ctypes.data, "u": u.ctypes.data, "y": self.y.ctypes.data, "tiles": tiles.ctypes.data,
            "n_tiles": len(tiles), "group": plan.group, "c": c, "n": n, "n_block": plan.n_block,
            "chunk": max(plan.chunk, 1), "row_x": width * c, "col_x": c, "row_y": size * n, "col_y": n,
            "op0": bias.ctypes.data,
        }  # fmt: skip
        self.args = np.array([slots[s] for s in spec.slots()], np.int64)
        self.scratch = _aligned(spec.scratch(target, slots) // 4)
        self.blocks = spec.blocks(len(tiles), plan.group, n, plan.n_block)
        self.function, self.keep = function, (x, u, tiles, bias)

    def __call__(self) -> None:
        self.function(self.args.ctypes.data, 0, self.blocks, self.scratch.ctypes.data)


def _aligned(count: int) -> np.ndarray:
    room = np.zeros(count + 16, np.float32)
    return room[-room.ctypes.data % 64 // 4 :][:count]


class Direct(Ours):
    """The layer by implicit GEMM; windows need not be square."""

    def __init__(self, layer: Layer, target: Target, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> None:
        size, c, n = layer.size, layer.c, layer.n
        case = Case("", size * size, n, c * layer.rh * layer.rw, 1, 1, 0)
        super().__init__(case, target, np.zeros((size * size, case.c), np.float32), w.reshape(-1, n), bias)
        width = x.shape[1]
        ys, xs = np.divmod(np.arange(size * size), size)
        rows, taps = (
            ((ys * width + xs) * layer.stride * c).astype(np.int32),
            (np.arange(layer.rh) * width * c).astype(np.int32),
        )
        changed = {
            "a": x.ctypes.data, "rows_a": rows.ctypes.data, "taps": taps.ctypes.data, "n_taps": layer.rh,
            "k": layer.rw * c,
        }  # fmt: skip
        for name, value in changed.items():
            self.args[self.spec.slots().index(name)] = value
        self.more = x, rows, taps


def measure(layer: Layer, target: Target, seconds: float, precision: str) -> tuple[list[float], list[float], list[str]]:
    """Milliseconds, estimated cycles, and names with errors; implicit GEMM first."""
    rng = np.random.default_rng(0)
    size, c, n = layer.size, layer.c, layer.n
    x = np.maximum(rng.normal(size=(*layer.inputs, c)), 0).astype(np.float32)
    w = (rng.normal(size=(layer.rh, layer.rw, c, n)) / np.sqrt(layer.rh * layer.rw * c)).astype(np.float32)
    bias = rng.normal(size=n).astype(np.float32)
    found = plans(target, layer.work, 1, precision)
    runs = [Direct(layer, target, x, w, bias), *(Winograd(layer, plan, target, x, w, bias) for plan in found)]
    estimates = [contract_cycles(target, size * size, n, c * layer.rh * layer.rw), *(p.cycles for p in found)]
    times = fastest(list(runs), seconds)
    exact = np.zeros((size, size, n))
    past, step = (size - 1) * layer.stride + 1, layer.stride
    for i in range(layer.rh):
        for j in range(layer.rw):
            exact += x[i : i + past : step, j : j + past : step].astype(np.float64) @ w[i, j].astype(np.float64)
    exact = np.maximum(exact + bias, 0)
    results = [runs[0].c.reshape(exact.shape), *(r.y for r in runs[1:])]
    errors = [np.abs(r - exact).max() / exact.max() for r in results]
    names = ["direct", *(f"{p.name(layer.work)[9:]} {p.mr}x{p.nv}/{p.group}" for p in found)]
    return [t * 1e3 for t in times], estimates, [f"{a} {e:.0e}" for a, e in zip(names, errors, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--target", help="lower the target (sse4.1, avx2, avx512)")
    parser.add_argument("--seconds", type=float, default=0.1, help="per way and layer")
    parser.add_argument("--only", default="", help="layers of nets whose name holds this text")
    parser.add_argument("--precision", default="normal", choices=("high", "normal"))
    options = parser.parse_args()
    if options.target:
        os.environ["MNN_TARGET"] = options.target
    target = host_target()
    chosen = [layer for layer in LAYERS if options.only in layer.net]
    rows = [measure(layer, target, options.seconds, options.precision) for layer in chosen]
    clock = float(np.exp(np.mean([np.log(cycles[0] / times[0] / 1e3) for times, cycles, _ in rows])))
    print(f"target {target.name}; a million cycles of the model take {1 / clock * 1e3:.3f} ms")
    worst = []
    for layer, (times, cycles, names) in zip(chosen, rows, strict=True):
        best = int(np.argmin(cycles))
        worst.append(times[best] / min(times))
        shape = f"{layer.net} {layer.size}x{layer.size} {layer.c}->{layer.n} {layer.rh}x{layer.rw}"
        print(f"{shape}: chosen loses {worst[-1] - 1:.0%}")
        for i, (time, cost, name) in enumerate(zip(times, cycles, names, strict=True)):
            estimate = cost / clock / 1e3
            star = "*" if i == best else " "
            how = f"estimated {estimate:8.3f} ({estimate / time:4.2f}), x{times[0] / time:.2f}"
            print(f"  {star} {name:32} {time:8.3f} ms, {how}")
    print(f"the choice loses {np.exp(np.mean(np.log(worst))) - 1:.1%} on average, {max(worst) - 1:.0%} at most")


if __name__ == "__main__":
    main()
