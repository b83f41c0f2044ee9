"""Speed of the contraction kernel alone, beside OpenBLAS (numpy) and onnxruntime in the same, interleaved run.

    python -m benchmarks.kernels_contract [--target avx2] [--seconds 0.3] [--only 3x3] [--no-ort]

One thread, fp32, bias and ReLU fused on our side. Prints GFLOP/s of useful work, the share of the FMA peak measured in
this run, ratios against the peers and the largest error against float64 relative to the largest result. onnxruntime's
convolution gets NCHW data and spends part of its time on its own blocked layout.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import F32, Kernel
from MNN.backends.cpu.products.blocks import choose_blocks
from MNN.backends.cpu.products.register_tiles import choose_tile, pack_b
from MNN.backends.cpu.targets import Target, host_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@dataclass(frozen=True)
class Case:
    """A convolution of ``size`` x ``size`` outputs, or a matrix product of ``m`` rows where ``size`` is 0."""

    name: str
    m: int
    n: int
    c: int
    kernel: int = 1
    stride: int = 1
    size: int = 0

    @property
    def depth(self) -> int:
        return self.c * self.kernel * self.kernel

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.depth


def conv(name: str, size: int, n: int, c: int, kernel: int = 1, stride: int = 1) -> Case:
    return Case(name, size * size, n, c, kernel, stride, size)


CASES = [
    conv("ResNet-50 first", 112, 64, 3, 7, 2), conv("ResNet-50 1x1", 56, 64, 64), conv("ResNet-50 1x1", 56, 256, 64),
    conv("ResNet-50 1x1", 56, 64, 256), conv("ResNet-50 3x3", 56, 64, 64, 3), conv("ResNet-50 1x1", 28, 512, 128),
    conv("ResNet-50 1x1", 28, 128, 512), conv("ResNet-50 3x3", 28, 128, 128, 3), conv("ResNet-50 1x1", 14, 1024, 256),
    conv("ResNet-50 1x1", 14, 256, 1024), conv("ResNet-50 3x3", 14, 256, 256, 3), conv("ResNet-50 1x1", 7, 2048, 512),
    conv("ResNet-50 1x1", 7, 512, 2048), conv("ResNet-50 3x3", 7, 512, 512, 3),
    conv("ResNet-50 3x3/2", 28, 128, 128, 3, 2),
    conv("MobileNet first", 112, 32, 3, 3, 2), conv("MobileNet 1x1", 112, 16, 32), conv("MobileNet 1x1", 112, 96, 16),
    conv("MobileNet 1x1", 56, 24, 96), conv("MobileNet 1x1", 56, 144, 24), conv("MobileNet 1x1", 28, 32, 144),
    conv("MobileNet 1x1", 14, 96, 576), conv("MobileNet 1x1", 7, 320, 960), conv("MobileNet 1x1", 7, 1280, 320),
    Case("BERT", 128, 768, 768), Case("BERT", 128, 3072, 768), Case("BERT", 128, 768, 3072),
    Case("ViT", 197, 768, 768), Case("ViT", 197, 3072, 768), Case("ViT", 197, 768, 3072),
    Case("ViT-Tiny", 197, 192, 192),
    Case("GEMV", 1, 1000, 1280), Case("GEMV", 1, 1000, 2048), Case("GEMV", 1, 4096, 4096),
    Case("few rows", 4, 1000, 1280),
]  # fmt: skip


def fma_peak(target: Target) -> float:
    """GFLOP/s of independent FMAs on registers."""
    lanes, chains = target.lanes(DType.F32), 10 if target.vector_registers == 16 else 20
    k = Kernel.of(("n", "x"), target)
    b = k.b
    x = b.splat(b.load(F32, k.pointer("x")), lanes)
    with b.loop(0, k.slot("n"), carry=[b.const(F32.vec(lanes), float(i)) for i in range(chains)]) as loop:
        loop.next(*[b.fma(c, x, x) for c in loop.carried])
    total = loop.results[0]
    for c in loop.results[1:]:
        total = b.add(total, c)
    b.store(total, k.pointer("x"))
    data = toolchain.compile_object(toolchain.rename_entry(k.finish(), "fma_peak"), target)
    kernel = ENTRY(toolchain.link({"fma_peak": data}, target)["fma_peak"])
    memory = np.zeros(lanes, np.float32)
    args = np.array([1_000_000, memory.ctypes.data], np.int64)
    return 2e6 * lanes * chains / fastest([lambda: kernel(args.ctypes.data, 0, 1, None)], 0.3)[0] / 1e9


def fastest(runs: list[Callable[[], object]], seconds: float) -> list[float]:
    """The minimum time of one call of each, taking turns."""
    best, counts = [], []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        best.append(time.perf_counter() - start)
        counts.append(max(1, int(0.002 / max(best[-1], 1e-7))))
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for i, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(counts[i]):
                run()
            best[i] = min(best[i], (time.perf_counter() - start) / counts[i])
    return best


class Ours:
    """The case on our kernel: padded channels-last input, packed weights, bias and ReLU."""

    def __init__(self, case: Case, target: Target, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> None:
        """x: ``[H, W, C]`` padded (or ``[M, K]``), w: ``[K, N]`` with rows ordered ky, kx, c."""
        body = body_of([DType.F32] * 2, lambda b, s, o: b("max", b("add", s, o), b.const(0, DType.F32)))
        m, n = case.m, case.n
        tile = choose_tile(target, m, n, case.depth)
        spec = self.spec = ContractSpec(*[DType.F32] * 4, *tile, epilogue=body, operands=("n",))
        nr = spec.nr(target)
        if case.size:
            width = x.shape[1]
            ys, xs = np.divmod(np.arange(m), case.size)
            rows = (ys * case.stride * width + xs * case.stride) * case.c
            merged = case.kernel * case.c  # a row of the window is one contiguous run
            taps = np.arange(case.kernel) * width * case.c
        else:
            rows, merged, taps = np.arange(m) * case.c, case.c, np.zeros(1)
        self.c = np.zeros((m, n), np.float32)
        mb, nb, ub = choose_blocks(target, m, n, case.depth, 1, tile)
        arrays = {
            "a": x, "b": pack_b(w, nr), "c": self.c, "rows_a": rows.astype(np.int32), "taps": taps.astype(np.int32),
            "rows_c": (np.arange(m) * n).astype(np.int32), "batch": np.zeros((1, 4), np.int64), "op0": bias,
        }  # fmt: skip
        slots = {
            "n_taps": taps.size, "k": merged, "ldb": nr, "panel": case.depth * nr, "m": m, "n": n, "n_batch": 1,
            "mb": mb, "nb": nb, "ub": ub,
        }  # fmt: skip
        slots |= {name: array.ctypes.data for name, array in arrays.items()}
        self.arrays = arrays
        self.args = np.array([slots[s] for s in spec.slots()], np.int64)
        self.scratch = np.zeros(spec.scratch(target, slots) // 4 + 16, np.float32)
        self.scratch = self.scratch[-self.scratch.ctypes.data % 64 // 4 :]
        self.blocks = spec.blocks(m, n, 1, mb, nb)
        self.function = ENTRY(Library(target).load([spec])[0])
        self.pointers = self.args.ctypes.data, self.scratch.ctypes.data

    def __call__(self) -> None:
        self.function(self.pointers[0], 0, self.blocks, self.pointers[1])


def onnx_runner(case: Case, x: np.ndarray, w: np.ndarray) -> Callable[[], object] | None:
    """The same product in onnxruntime, one thread; None where it is not installed."""
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    from onnx import TensorProto, helper, numpy_helper

    if case.size:
        k = case.kernel
        data = np.ascontiguousarray(x.transpose(2, 0, 1)[None])
        weights = np.ascontiguousarray(w.reshape(k, k, case.c, case.n).transpose(3, 2, 0, 1))
        node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[case.stride] * 2)
    else:
        data, weights, node = x, w, helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": data})


def measure(case: Case, target: Target, peak: float, seconds: float, with_ort: bool) -> str:
    rng = np.random.default_rng(0)
    if case.size:
        side = (case.size - 1) * case.stride + case.kernel
        x = rng.normal(size=(side, side, case.c)).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(x, (case.kernel, case.kernel), axis=(0, 1))
        columns = windows[:: case.stride, :: case.stride].transpose(0, 1, 3, 4, 2).reshape(case.m, case.depth)
        columns = np.ascontiguousarray(columns)
    else:
        x = columns = rng.normal(size=(case.m, case.depth)).astype(np.float32)
    w = rng.normal(size=(case.depth, case.n)).astype(np.float32)
    bias = rng.normal(size=case.n).astype(np.float32)
    ours = Ours(case, target, x, w, bias)
    ours()
    exact = np.maximum(columns.astype(np.float64) @ w + bias, 0)
    error = np.abs(ours.c - exact).max() / np.abs(exact).max()
    blas_result = np.empty((case.m, case.n), np.float32)
    blas_error = np.abs(np.maximum(columns @ w + bias, 0) - exact).max() / np.abs(exact).max()
    runs: list[Callable[[], object]] = [ours, lambda: np.matmul(columns, w, out=blas_result)]
    ort = onnx_runner(case, x, w) if with_ort else None
    if ort is not None:
        runs.append(ort)
    times = fastest(runs, seconds)
    speeds = [case.flops / t / 1e9 for t in times]
    tile = f"{ours.spec.mr}x{ours.spec.nv}"
    line = f"{case.name:16} {case.m:6} {case.n:5} {case.depth:5} {tile:>5} {speeds[0]:7.1f} {speeds[0] / peak:6.0%}"
    line += f" {speeds[0] / speeds[1]:8.2f}"
    line += f" {speeds[0] / speeds[2]:8.2f}" if ort is not None else "        -"
    return f"{line} {error:10.1e} {blas_error:10.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--target", help="lower the target (sse4.1, avx2, avx512)")
    parser.add_argument("--seconds", type=float, default=0.3, help="per engine and case")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--no-ort", action="store_true", help="leave onnxruntime out")
    options = parser.parse_args()
    if options.target:
        os.environ["MNN_TARGET"] = options.target
    target = host_target()
    peak = fma_peak(target)
    print(f"target {target.name}, FMA peak {peak:.1f} GFLOP/s; OpenBLAS and onnxruntime use the whole processor")
    print(f"{'case':16} {'m':>6} {'n':>5} {'k':>5} {'tile':>5} GFLOP/s  /peak  /OpenBLAS /ort    error  (OpenBLAS's)")
    for case in CASES:
        if options.only in case.name:
            print(measure(case, target, peak, options.seconds, not options.no_ort), flush=True)


if __name__ == "__main__":
    main()
