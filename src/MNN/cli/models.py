"""Opening models for the commands."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from MNN.cache.entries import Cache
from MNN.errors import MNNError
from MNN.frontends import NOTHING, Hints, file_of, load_graph
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session


@dataclass(frozen=True)
class Opened:
    """A model ready to run and how long reading it took, in seconds."""

    session: Session
    load_s: float


def open_model(
    path: Path, threads: int = 1, precision: str = "normal", cache: bool = True, hints: Hints = NOTHING
) -> Opened:
    """Reads a model file; models that did not go through ``mnn convert`` are optimised on the way."""
    config = Config(threads, precision, cache)
    if not cache:
        Cache.switch_off()
    start = time.perf_counter()
    graph = read(path, hints)
    if path.suffix != ".mnn":
        optimize(graph)
    session = Session(graph, config)
    return Opened(session, time.perf_counter() - start)


def read(path: Path, hints: Hints = NOTHING) -> Graph:
    """The graph in a file; ``hints`` is what else the user says of it."""
    return load_graph(existing(path), hints=hints)


def existing(path: Path) -> Path:
    """``path``, if a file with something in it is there; of a SavedModel's folder, the file in it."""
    path = Path(os.fsdecode(file_of(path)))
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in (".onnx", ".tflite", ".mnn"))[:3]
        advice = f"; inside are {', '.join(map(str, inside))}" if inside else ""
        raise MNNError(f"{path} is a folder; a model file is expected{advice}")
    if not path.exists():
        raise MNNError(f"no such file: {path}")
    if path.is_file() and not path.stat().st_size:
        raise MNNError(f"{path} is empty: nothing was downloaded or exported into it")
    return path


def parse_numbers(option: str, text: str) -> list[int]:
    """``"1,2"`` to ``[1, 2]``; ``option`` is what messages call it."""
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if not parts or not all(p.isdecimal() and int(p) > 0 for p in parts):
        raise MNNError(f"{option} takes numbers such as 1,2,4, not '{text}'")
    return [int(p) for p in parts]
