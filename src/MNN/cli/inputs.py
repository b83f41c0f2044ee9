"""Inputs from the command line: shapes, files, and made-up numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from MNN.cli.readers import PICTURES, read_array, read_picture
from MNN.cli.shapes import concrete_shape
from MNN.errors import MNNError, RunError, ShapeError, UnsupportedError
from MNN.formatting import dims
from MNN.ir.dtype import DType
from MNN.runtime.feeds import as_input
from MNN.runtime.session import Session, TensorInfo
from MNN.schema.arrays import read_arrays

SEED = 20
T = TypeVar("T")


@dataclass(frozen=True)
class Scaling:
    """What is done to the values of pictures, as ``--mean`` and ``--norm`` say; None where an option was not given."""

    mean: str | None = None
    norm: str | None = None

    def numbers(self) -> tuple[list[float], list[float]]:
        """What is subtracted, and what the difference is multiplied with: by default pictures become 0 to 1."""
        return floats("0" if self.mean is None else self.mean), floats("1/255" if self.norm is None else self.norm)

    def check_used(self, pictures: int) -> None:
        """Raises when an option was given that changes nothing."""
        asked = [f"--{name}" for name, text in (("mean", self.mean), ("norm", self.norm)) if text is not None]
        self.numbers()
        if asked and not pictures:
            raise MNNError(
                f"{' and '.join(asked)} would change nothing: such options are for pictures, and no input is one; "
                "arrays and noise are taken as they are"
            )


def listed(session: Session) -> str:
    """The inputs of a model, one a line: name, dtype, shape."""
    return "\n".join(f"  {i}" for i in session.inputs.values())


def check_names(session: Session, names: Sequence[str]) -> None:
    """Raises when a name is not an input of the model."""
    unknown = [n for n in names if n not in session.inputs]
    if unknown:
        raise ShapeError(f"the model has no input called {', '.join(unknown)}; its inputs are:\n{listed(session)}")


def check_complete(session: Session, feeds: Mapping[str, np.ndarray]) -> None:
    """Raises when an input of the model has no array."""
    missing = [n for n in session.inputs if n not in feeds]
    if missing:
        raise ShapeError(
            f"missing {'input' if len(missing) == 1 else 'inputs'} {', '.join(missing)}: give --input NAME=FILE "
            f"(.npy, .npz, picture) for each, or --random to fill them with noise. "
            f"The model's inputs are:\n{listed(session)}"
        )


def random_feeds(
    session: Session, given: Mapping[str, tuple[int, ...]], but: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Seeded noise for every input (not those in ``but``): standard normal floats, integers 0 to 9, bools by coin."""
    check_names(session, list(given))
    rng = np.random.default_rng(SEED)
    feeds: dict[str, np.ndarray] = {}
    for info in session.inputs.values():
        if but is not None and info.name in but:
            continue
        shape, dtype = concrete_shape(session, info, given), info.dtype or DType.F32
        if dtype is DType.STR:
            raise UnsupportedError(f"input '{info.name}' takes strings, which cannot be made up; give a .npy file")
        if dtype.is_float:
            feeds[info.name] = rng.standard_normal(shape, np.float32).astype(dtype.numpy)
        else:
            feeds[info.name] = rng.integers(0, 2 if dtype is DType.BOOL else 10, shape).astype(dtype.numpy)
    return feeds


def with_small_integers(feeds: dict[str, np.ndarray], but: Mapping[str, np.ndarray], run: Callable[[], T]) -> T:
    """What ``run`` gives. Where integers that were made up are beyond a table, ``feeds`` gets zeros and ones instead
    (not those in ``but``), and it is run again: no table is smaller than that."""
    try:
        return run()
    except RunError:
        large = [n for n, a in feeds.items() if n not in but and a.dtype.kind in "iu" and a.max(initial=0) > 1]
        if not large:
            raise
        feeds.update({n: feeds[n] % 2 for n in large})
        return run()


def load_inputs(
    session: Session, texts: Sequence[str], given: Mapping[str, tuple[int, ...]], scaling: Scaling | None = None
) -> dict[str, np.ndarray]:
    """Feeds from ``NAME=FILE`` texts: .npy arrays, one .npz with all inputs, or pictures.

    A picture becomes float RGB, resized to the input's height and width, ``(value - mean) * norm`` per channel, in the
    input's own layout. A model with one input needs no name.
    """
    check_names(session, list(given))
    scaling = scaling or Scaling()
    feeds: dict[str, np.ndarray] = {}
    sources: dict[str, str] = {}
    pictures = 0
    for text in texts:
        name, path = _name_and_file(session, text)
        if path.suffix.lower() == ".npz" and not name:
            arrays = read_arrays(path, ".npz file")
            check_names(session, list(arrays))
            found = {n: _suited(session.inputs[n], a, given, path) for n, a in arrays.items()}
        else:
            name = name or _only_input(session)
            check_names(session, [name])
            found = {name: _from_file(session, session.inputs[name], path, given, scaling)}
            pictures += path.suffix.lower() in PICTURES
        for twice in (n for n in found if n in feeds):
            raise MNNError(
                f"input '{twice}' is given twice: --input {sources[twice]} and --input {text}; leave one out"
            )
        feeds |= found
        sources |= dict.fromkeys(found, text)
    scaling.check_used(pictures)
    return feeds


def _name_and_file(session: Session, text: str) -> tuple[str, Path]:
    """Names and files may both hold ``=``: the longest input's name that fits, else what is before the first one."""
    fitting = [n for n in session.inputs if text.startswith(f"{n}=")]
    if fitting:
        name = max(fitting, key=len)
        file = text[len(name) + 1 :]
    else:
        name, separator, file = text.partition("=")
        if not separator or Path(text).exists():
            name, file = "", text
    if not file:
        raise MNNError(f"--input {text or repr('')}: the file is missing; write --input {name or 'NAME'}=FILE")
    if text == f"={file}":
        raise MNNError(f"--input {text}: the name is missing; write --input NAME={file}")
    path = Path(file)
    if not path.exists():
        raise MNNError(f"no such file: {file}")
    return name, path


def _only_input(session: Session) -> str:
    if len(session.inputs) != 1:
        raise MNNError(f"the model has several inputs, write --input NAME=FILE; they are:\n{listed(session)}")
    return next(iter(session.inputs))


def _from_file(
    session: Session, info: TensorInfo, path: Path, given: Mapping[str, tuple[int, ...]], scaling: Scaling
) -> np.ndarray:
    if path.suffix.lower() in PICTURES:
        shape = concrete_shape(session, info, given)
        return read_picture(path, shape, info.dtype or DType.F32, *scaling.numbers())
    if path.suffix.lower() == ".npz":
        arrays = read_arrays(path, ".npz file")
        if info.name not in arrays and len(arrays) != 1:
            raise MNNError(f"{path} holds {', '.join(arrays) or 'nothing'}, but no array called '{info.name}'")
        return _suited(info, arrays.get(info.name, next(iter(arrays.values()))), given, path)
    return _suited(info, read_array(path), given, path)


def _suited(info: TensorInfo, array: np.ndarray, given: Mapping[str, tuple[int, ...]], path: Path) -> np.ndarray:
    """The array in the shape that was asked for, of the element type that the model takes; by the rules of the API
    (:func:`MNN.runtime.feeds.as_input`)."""
    shape = given.get(info.name)
    if shape is not None:
        if array.size != math.prod(shape):
            asked, held = dims(shape), dims(array.shape)
            raise ShapeError(f"--shape {info.name}={asked}: the file {path} holds an array of {held}")
        array = array.reshape(shape)
    try:
        return as_input(info, array)
    except ShapeError as error:
        raise ShapeError(f"{path}: {error}") from error


def floats(text: str) -> list[float]:
    """``"1,2,3"`` to numbers; fractions such as ``1/255`` are understood."""
    try:
        parts = [p.partition("/") for p in text.split(",")]
        return [float(number) / (float(below) if bar else 1.0) for number, bar, below in parts]
    except (ValueError, ZeroDivisionError) as error:
        raise MNNError(f"expected numbers such as 0.5,0.5,0.5 or 1/255, not '{text}'") from error
