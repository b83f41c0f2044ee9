"""What is measured: a name of the catalog or the path of any .onnx file, with inputs to run it on."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from .architectures.catalog import ARCHITECTURES
from .setup_peers import REPOSITORY, interpreter

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Model:
    """An ONNX file and the data that every engine runs it on; ``architecture`` is its catalog name, if it has one."""

    name: str
    path: Path
    feeds: dict[str, Array]
    outputs: list[str]
    digest: str
    architecture: str | None


def find(
    name: str, work: Path, seed: int = 0, shapes: dict[str, tuple[int, ...]] | None = None, **extents: int
) -> Model:
    """A catalog architecture (exported to ``<work>/models`` if it is not there yet) or a file.

    ``extents`` overrides the named axes of an architecture (batch, sequence), ``shapes`` the inputs of a file.
    """
    if name in ARCHITECTURES:
        path = work / "models" / f"{name}.onnx"
        if not path.is_file():
            python = interpreter(work, "converters")
            if not python.is_file():
                raise SystemExit(f"{python} is missing; run python -m benchmarks.setup_peers")
            command = [str(python), "-m", "benchmarks.export", "--only", name, "--out", str(path.parent)]
            subprocess.run(command, cwd=REPOSITORY, check=True)
        architecture = ARCHITECTURES[name]
        standard = not {k: v for k, v in extents.items() if v != {"batch": 1, "sequence": 128}[k]}
        feeds = architecture.feeds(seed, **extents)
        return Model(name, path, feeds, list(architecture.outputs), _digest(path), name if standard else None)
    path = Path(name)
    if not path.is_file():
        raise SystemExit(f"{name} is neither a file nor one of {', '.join(ARCHITECTURES)}")
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {i.name for i in graph.initializer}
    rng = np.random.default_rng(seed)
    inputs = {v.name: _noise(v, rng, (shapes or {}).get(v.name)) for v in graph.input if v.name not in constants}
    return Model(path.stem, path, inputs, [o.name for o in graph.output], _digest(path), None)


def _noise(value: onnx.ValueInfoProto, rng: np.random.Generator, shape: tuple[int, ...] | None) -> Array:
    """Standard normal data for floats, small whole numbers for integers."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if shape is None:
        dims = value.type.tensor_type.shape.dim
        shape = tuple(d.dim_value if d.dim_value > 0 else 1 for d in dims)
        if any(d.dim_value <= 0 for d in dims[1:]):
            raise SystemExit(f"input {value.name} has open dimensions: give --shape {value.name}:1x3x224x224")
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 8, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
