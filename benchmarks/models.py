"""What is measured: a name of the catalog or the path of any .onnx file, with inputs to run it on."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from .architectures.catalog import ARCHITECTURES
from .setup_peers import REPOSITORY, interpreter

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Model:
    """An ONNX file and the data that every engine runs it on.

    ``architecture`` is its catalog name, if it has one, ``extents`` the sizes of its named axes. ``rows``: pictures of
    the batch whose results are checked, all for None. ``in_double``: errors are against a float64 run; onnx's evaluator
    cannot run every trained model so (or gets it wrong), and those are checked against ONNX Runtime without
    optimisations.
    """

    name: str
    path: Path
    feeds: dict[str, Array]
    outputs: list[str]
    digest: str
    architecture: str | None
    extents: dict[str, int] = field(default_factory=dict)
    rows: tuple[int, ...] | None = None
    in_double: bool = True

    @property
    def batch(self) -> int:
        return self.extents.get("batch", 1)

    def extents_text(self) -> str:
        return json.dumps(self.extents)


CHECKED_WHOLE = 2  # batches up to this size are checked as a whole, of larger ones the first and the last picture


def find(
    name: str, work: Path, seed: int = 0, shapes: dict[str, tuple[int, ...]] | None = None, **extents: int
) -> Model:
    """A catalog architecture (exported to ``<work>/models`` if it is not there yet), ``real:NAME`` or a file.

    ``extents`` overrides the named axes of an architecture (batch, sequence), ``shapes`` the inputs of a file.
    ``real:NAME`` is a trained model that a package carries, on pictures, sound or text (see ``tests/models/answers``).
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
        batch = extents.get("batch", 1)
        rows = (0, batch - 1) if batch > CHECKED_WHOLE else None
        feeds = architecture.feeds(seed, **extents)
        return Model(name, path, feeds, list(architecture.outputs), _digest(path), name, extents, rows)
    if name.startswith("real:"):
        return _real(name)
    path = Path(name)
    if not path.is_file():
        raise SystemExit(f"{name} is neither a file nor one of {', '.join(ARCHITECTURES)}")
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {i.name for i in graph.initializer}
    rng = np.random.default_rng(seed)
    inputs = {v.name: _noise(v, rng, (shapes or {}).get(v.name)) for v in graph.input if v.name not in constants}
    return Model(path.stem, path, inputs, [o.name for o in graph.output], _digest(path), None)


def real_names() -> list[str]:
    """Trained models that :func:`find` knows."""
    from tests.models.answers import SINGLE

    return [f"real:{task.models[0]}" for task in SINGLE]


def _real(name: str) -> Model:
    from tests import zoo
    from tests.models.answers import SINGLE

    task = next((t for t in SINGLE if f"real:{t.models[0]}" == name), None)
    if task is None:
        raise SystemExit(f"{name} is not known; there are {', '.join(real_names())}")
    path = zoo.path(task.models[0])
    graph = onnx.load(str(path), load_external_data=False).graph
    feeds = task.feeds()[0]
    return Model(name, path, feeds, [o.name for o in graph.output], _digest(path), None, in_double=False)


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
