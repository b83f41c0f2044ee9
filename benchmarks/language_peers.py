"""All engines for language models in turns, for some shapes and numbers of threads: one command for a quiet machine.

    python -m benchmarks.language_peers FOLDER --llama PYTHON --openvino PYTHON --genai PYTHON --mnn PYTHON \\
        [--shape qwen2-0.5b smollm2-135m ...] [--threads 1 2] [--turns 3]

``PYTHON`` is that of an environment with ``llama-cpp-python``, ``openvino-genai``, ``onnxruntime-genai`` and ``MNN``;
engines that are not named, or not there, are left out. What they read is made in ``FOLDER`` from the same random
numbers in Q4_0, and stays there: a folder of the official engine, one of ONNX Runtime's, and Q4_K_M, which llama.cpp
makes (rounded twice, for its speed alone). A shape may be a GGUF file, too. Tables are those of
:mod:`benchmarks.language_speed`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.language_random import SHAPES, write

_QUANTIZE = """
import sys
from llama_cpp import llama_cpp as c
p = c.llama_model_quantize_default_params()
p.ftype, p.allow_requantize, p.nthread = c.LLAMA_FTYPE_MOSTLY_Q4_K_M, True, 2
sys.exit(c.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), p))
"""
MODULES = {"llama": "llama_cpp", "openvino": "openvino_genai", "genai": "onnxruntime_genai", "mnn": "MNN.llm"}


def file_of(shape: str, folder: Path) -> Path:
    """The model in a file, made where it is not there."""
    if shape not in SHAPES:
        return Path(shape)
    path = folder / f"{shape}.q4_0.gguf"
    if not path.exists():
        write(SHAPES[shape], path)
    return path


def peers(model: Path, folder: Path, given: argparse.Namespace) -> list[str]:
    """The arguments ``--peer`` of :mod:`benchmarks.language_speed`, with models made where they are missing."""
    found = []
    for name, module in MODULES.items():
        python = getattr(given, name)
        if python and not _made([python, "-c", f"import {module}"], Path(name)):
            setattr(given, name, "")
    if given.llama:
        found.append(f"llama.cpp={given.llama}")
        small = folder / f"{model.stem}.q4_k_m.gguf"
        if small.exists() or _made([given.llama, "-c", _QUANTIZE, str(model), str(small)], small):
            found.append(f"llama.cpp-k={given.llama}:{small}")
    if given.openvino:
        found.append(f"openvino={given.openvino}")
    if given.genai:
        place = folder / f"{model.stem}-genai"
        make = [sys.executable, "-m", "benchmarks.language_genai", str(model), str(place)]
        if (place / "genai_config.json").exists() or _made(make, place):
            found.append(f"genai={given.genai}:{place}")
    if given.mnn:
        place = folder / f"{model.stem}-mnn"
        code = "import sys; from MNN.cli.main import main; main()"
        make = [sys.executable, "-c", code, "llm", "convert", str(model), str(place), "--bits", "4", "--block", "32"]
        if (place / "config.json").exists() or _made(make, place):
            found.append(f"mnn={given.mnn}:{place}")
    return [word for one in found for word in ("--peer", one)]


def _made(command: list[str], what: Path) -> bool:
    own = command[0] == sys.executable
    given = None if own else {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=given)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        print(f"{what.name} cannot be had and is left out: {' '.join(last)}", flush=True)
    return not done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name in MODULES:
        parser.add_argument(f"--{name}", default="", help="the Python that has it")
    parser.add_argument("--shape", nargs="+", default=list(SHAPES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for shape in given.shape:
        model = file_of(shape, given.folder)
        others = peers(model, given.folder, given)
        for threads in given.threads:
            more = ["--threads", str(threads), "--turns", str(given.turns)]
            command = [sys.executable, "-m", "benchmarks.language_speed", str(model), *others, *more]
            subprocess.run(command, check=False)


if __name__ == "__main__":
    main()
