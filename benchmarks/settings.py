"""What is compared with what: for each setting of this engine, the peers that do the same work."""

from __future__ import annotations

from dataclasses import dataclass

from .peers.catalog import PEERS, Peer

WRONG = 0.25
"""Errors from here on are wrong answers: such a peer's time does not count."""

FP32 = ("onnxruntime", "openvino", "ncnn", "litert", "mnn-official")


@dataclass(frozen=True)
class Target:
    """What this engine sets itself: geometric mean and lowest of best peer / ours, over the main models."""

    mean: float
    lowest: float


@dataclass(frozen=True)
class Setting:
    """One row of the comparison.

    ``ours``: the engine of ``peers.catalog`` that is judged; ``peers``: those it is judged against. An error (largest
    difference / largest output, against float64) is in bounds when it is at most ``bound`` or ``times_reference`` times
    ONNX Runtime's on the same model; where neither is given, it is only shown. ``target`` is for one stream.
    """

    name: str
    title: str
    ours: str
    peers: tuple[str, ...]
    target: Target
    yardstick: str = "onnxruntime"  # whose error ours is shown relative to
    bound: float | None = None
    times_reference: float | None = None

    def in_bounds(self, error: float, reference: float | None) -> bool | None:
        """Whether an error keeps the promise; None where there is none. ``reference``: ONNX Runtime's error."""
        if self.bound is None:
            return None if error < WRONG else False
        allowed = self.bound
        if self.times_reference is not None and reference is not None:
            allowed = max(allowed, self.times_reference * reference)
        return error <= allowed


SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting(
            "high", "as accurate as plain fp32", "mnn-high", FP32, Target(1.25, 1.0), bound=1e-5, times_reference=4.0
        ),
        Setting("normal", "the default: fp32 in and out", "mnn-normal", FP32, Target(2.0, 1.0), bound=5e-4),
        Setting(
            "low",
            "16-bit products",
            "mnn-low",
            ("openvino-default", "torch-bf16"),
            Target(1.2, 0.9),
            "openvino-default",
        ),
        Setting(
            "avx512",
            "`high` with the processor's matrix unit (AMX) masked",
            "mnn-avx512",
            FP32,
            Target(1.25, 1.0),
            bound=1e-5,
            times_reference=4.0,
        ),
        Setting(
            "avx2",
            "`high` with the processor's features above AVX2 masked",
            "mnn-avx2",
            ("mnn-official",),
            Target(1.3, 0.0),
            bound=1e-5,
            times_reference=4.0,
        ),
    )
}

USUAL = ("high", "normal", "low", "avx2")
"""What is measured unless something else is asked for: ``avx512`` is for processors with a matrix unit."""

NOTES = {
    "low": "OpenVINO at its default precision (the column's note says which that is here), PyTorch in bfloat16 through "
    "torch.compile with frozen weights (through a frozen trace where no C++ compiler is found).",
    "avx2": "The official MNN wheel holds AVX2 kernels only. ONNX Runtime picks its kernels by CPUID and has no switch "
    "for it, and OpenVINO's release builds can only cap their oneDNN part, so neither has an AVX2 row.",
}


def engines_of(settings: list[Setting], chosen: set[str] | None) -> list[Peer]:
    """Engines that these settings need, each once; ``chosen`` (names or families) keeps some peers, always ours."""
    ours = dict.fromkeys(s.ours for s in settings)
    peers = dict.fromkeys(name for s in settings for name in s.peers)
    kept = [p for p in peers if chosen is None or p in chosen or PEERS[p].family in chosen]
    if any(s.times_reference for s in settings) and "onnxruntime" not in kept and chosen is None:
        kept.append("onnxruntime")  # its error is the measure of the others
    return [PEERS[name] for name in (*ours, *kept)]
