"""How fast a language model reads and writes, and how much of that memory explains."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.llm.engine.decoder import Decoder
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.files import open_weights
from MNN.llm.official.folder import OfficialFolder
from MNN.runtime.config import Config

SHORT_PROMPT = 32
FLOATS = ("F32", "F16", "BF16")
SCALES = 0.25
"""Bytes of scales and offsets for each weight in blocks of 32."""
_BLOCK = 256 << 20
"""Bytes that are read to see what memory gives: more than caches hold."""


@dataclass(frozen=True)
class Speed:
    """``opening``: seconds until the model can run; ``first``: seconds from a prompt of 32 tokens to the first token;
    ``reading``, ``writing``: tokens a second; ``weights``: bytes of weights that a token needs; ``held``: bytes of the
    process at its largest so far; ``memory``: bytes a second that a plain sum over an array reads with one thread;
    ``trained``: tokens of the longest text that the model was made for, 0 where its files do not say."""

    threads: int
    prompt: int
    generated: int
    opening: float
    first: float
    reading: float
    writing: float
    weights: int
    held: int
    memory: float = 0.0
    trained: int = 0


def measure(
    model: Path, threads: int, prompt: int, generate: int, runs: int, precision: str, bits: int | None, cache: bool,
    told: Callable[..., None], activation_bits: int | None = None,
) -> Speed:  # fmt: skip
    """Times a model in this process. The fastest of ``runs`` counts."""
    begin = time.perf_counter()
    opened = open_model(model)
    decoder = opened.decoder(
        Config(threads=threads, precision=precision, cache=cache), prompt + generate + 1, bits, activation_bits
    )
    opening = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    size = int(opened.config["vocab_size"])  # type: ignore[call-overload]
    tokens = [int(n) for n in rng.integers(0, size, prompt)]
    short = tokens[:SHORT_PROMPT]
    times: list[tuple[float, float, float]] = []
    for run in range(runs + 1):
        told(f"{threads} threads: {'plans' if run == 0 else 'timing'}", run, runs + 1)
        found = _once(decoder, tokens, short, generate)
        if run:
            times.append(found)
    first, reading, writing = (min(column) for column in zip(*times, strict=True))
    weights = weights_read(opened, bits)
    speeds = first, prompt / reading, (generate - 1) / writing
    longest = opened.config.get("max_position_embeddings")
    trained = longest if isinstance(longest, int) else 0
    return Speed(threads, prompt, generate, opening, *speeds, weights, held(), trained=trained)


def weights_read(opened: Opened | OfficialFolder, bits: int | None) -> int:
    """Bytes of weights that a token needs: all, but for a table of embeddings that is not the last layer too."""
    if isinstance(opened, OfficialFolder):
        return opened.weights.stat().st_size  # its tables lie elsewhere, or are the last layer
    tensors = open_weights(opened.path)
    sizes = {name: tensor.size for name, tensor in tensors.items()}
    apart = any(name in sizes for name in ("lm_head.weight", "output.weight", "transformer.output_layer.weight"))
    table = sum(size for name, size in sizes.items() if "embed" in name) if apart else 0
    needed = sum(sizes.values()) - table
    if bits is not None and all(tensor.format in FLOATS for tensor in tensors.values()):
        return round(needed * (bits / 8 + SCALES))
    return round(opened.size * needed / max(sum(sizes.values()), 1))


def _once(decoder: Decoder, tokens: list[int], short: list[int], generate: int) -> tuple[float, float, float]:
    """Seconds for the short prompt, the long one, and for writing behind that."""
    clock, text = time.perf_counter, decoder.text()
    begin = clock()
    decoder.feed(text, short)
    first = clock() - begin
    text = decoder.text()
    begin = clock()
    logits = decoder.feed(text, tokens)
    reading = clock() - begin
    begin = clock()
    for _ in range(generate - 1):
        logits = decoder.feed(text, [int(logits[-1].argmax())])
    return first, reading, clock() - begin


def memory() -> float:
    """Bytes a second that are read of an array which no cache holds. It takes memory itself: after all else."""
    data = np.ones(_BLOCK // 8)
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        data.max()
        best = min(best, time.perf_counter() - begin)
    return _BLOCK / best


def held() -> int:
    """Bytes that the process held at its largest."""
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


__all__ = ["Speed", "held", "measure", "memory"]
