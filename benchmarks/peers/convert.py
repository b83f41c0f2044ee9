"""Brings an ONNX model into the format of each engine, once: results are cached by the model's hash and its shapes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..models import Model
from ..setup_peers import REPOSITORY, interpreter
from .catalog import ENVIRONMENTS, Peer
from .interface import Array, UnavailableError

LIMIT_S = 900


def converted(peer: Peer, model: Model, work: Path) -> Path:
    """The file that ``peer`` loads; UnavailableError, with the converter's last words, where it cannot be made."""
    if peer.format == "onnx":
        return model.path
    if peer.format == "torch":
        if not model.architecture:
            raise UnavailableError("PyTorch runs the benchmark's own architectures only")
        return Path(model.architecture)  # built by the engine's own process
    key = hashlib.sha256()
    key.update(model.digest.encode())
    key.update(str([(n, a.shape, a.dtype.str) for n, a in model.feeds.items()]).encode())
    key.update(str(ENVIRONMENTS).encode())
    folder = work / "converted" / f"{model.name}-{key.hexdigest()[:16]}"
    make, file = CONVERTERS[peer.format]
    target = folder / file
    failure = folder / f"{file}.failed"
    if failure.is_file():
        raise UnavailableError(failure.read_text(encoding="utf-8"))
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            try:
                made = make(model, Path(scratch), work)
            except UnavailableError as error:
                failure.write_text(str(error), encoding="utf-8")
                raise
            for extra in made[1:]:
                os.replace(extra, folder / extra.name)
            os.replace(made[0], target)  # last: it marks the conversion as whole
    return target


def _official(model: Model, scratch: Path, work: Path) -> list[Path]:
    target = scratch / "model.mnn"
    python = str(interpreter(work, "peers"))
    _run([python, "-m", "benchmarks.peers.convert_mnn", str(model.path), str(target)], "its converter", scratch)
    return [target]


def _ncnn(model: Model, scratch: Path, work: Path) -> list[Path]:
    """By pnnx: from TorchScript, which it knows best, where we have that; else, or where that fails, from ONNX."""
    if model.batch > 1:
        raise UnavailableError("ncnn has no batch axis")
    reasons = []
    for make_source in (_torchscript, _onnx_link) if model.architecture else (_onnx_link,):
        folder = scratch / make_source.__name__
        folder.mkdir()  # pnnx writes beside its input
        try:
            return _pnnx(make_source(model, folder, work), model, folder, work)
        except UnavailableError as reason:
            reasons.append(str(reason))
    raise UnavailableError("; ".join(reasons))


def _torchscript(model: Model, folder: Path, work: Path) -> Path:
    target = folder / "model.pt"
    python = str(interpreter(work, "converters"))
    command = [python, "-m", "benchmarks.peers.trace_torch", str(model.architecture), str(target), model.extents_text()]
    _run(command, "torch", folder)
    return target


def _onnx_link(model: Model, folder: Path, work: Path) -> Path:
    target = folder / "model.onnx"
    target.symlink_to(model.path.resolve())
    return target


def _pnnx(source: Path, model: Model, folder: Path, work: Path) -> list[Path]:
    pnnx = interpreter(work, "converters").with_name("pnnx")
    command = [str(pnnx), str(source), f"inputshape={_pnnx_shapes(model.feeds)}", "fp16=0", "optlevel=2"]
    _run(command, "pnnx", folder, folder)
    parameters = _require(folder / "model.ncnn.param", "pnnx")
    lines = parameters.read_text(encoding="utf-8").splitlines()
    unknown = sorted({line.split()[0] for line in lines[2:] if "." in line.split()[0]})
    if unknown:  # pnnx succeeds but leaves operators that ncnn does not have
        raise UnavailableError(f"pnnx leaves operators of {source.suffix} that ncnn lacks: {', '.join(unknown)}")
    return [parameters, _require(folder / "model.ncnn.bin", "pnnx")]


def _pnnx_shapes(feeds: Mapping[str, Array]) -> str:
    kinds = {"float32": "", "int64": "i64", "int32": "i32"}
    return ",".join(f"[{','.join(map(str, a.shape))}]{kinds[a.dtype.name]}" for a in feeds.values())


def _litert(model: Model, scratch: Path, work: Path) -> list[Path]:
    if not model.architecture:
        raise UnavailableError("only the benchmark's own architectures are converted to LiteRT (from PyTorch)")
    target = scratch / "model.tflite"
    python = str(interpreter(work, "converters"))
    command = [python, "-m", "benchmarks.peers.convert_litert", model.architecture, str(target), model.extents_text()]
    _run(command, "litert-torch", scratch)
    return [_require(target, "litert-torch")]


def _require(path: Path, converter: str) -> Path:
    if not path.is_file() or not path.stat().st_size:
        raise UnavailableError(f"{converter} wrote no {path.name}")
    return path


def _run(command: Sequence[str], converter: str, scratch: Path, folder: Path = REPOSITORY) -> None:
    if not shutil.which(command[0]):
        raise FileNotFoundError(f"{command[0]} is missing; run python -m benchmarks.setup_peers")
    log = scratch / "log.txt"
    with log.open("w") as stream:
        try:
            code = subprocess.run(command, cwd=folder, stdout=stream, stderr=stream, timeout=LIMIT_S).returncode
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{converter} did not end within {LIMIT_S} s") from None
    if code:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise UnavailableError(f"{converter} fails: {lines[-1][:200] if lines else f'exit code {code}'}")


Converter = Callable[[Model, Path, Path], list[Path]]
CONVERTERS: dict[str, tuple[Converter, str]] = {
    "mnn": (_official, "model.mnn"),
    "ncnn": (_ncnn, "model.ncnn.param"),
    "tflite": (_litert, "model.tflite"),
}
