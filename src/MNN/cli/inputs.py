"""Inputs from the command line: shapes, files, and made-up numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from MNN.cli.readers import PICTURES, read_archive, read_array, read_picture
from MNN.errors import MNNError, ShapeError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.runtime.session import UNNAMED, Session, TensorInfo

SEED = 20


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["x=1x3x224x224"]`` to ``{"x": (1, 3, 224, 224)}``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, separator, dims = text.rpartition("=")
        sizes = dims.replace(",", "x").split("x")
        if not separator or not name or not all(s.isdecimal() for s in sizes):
            raise MNNError(f"--shape takes NAME=1x3x224x224, not '{text}'")
        shapes[name] = tuple(int(s) for s in sizes)
    return shapes


def concrete_shape(info: TensorInfo, given: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to use for an input: as given, else the model's own, where a first size that is open counts as 1."""
    if info.name in given:
        return given[info.name]
    if info.shape is None:
        raise ShapeError(
            f"the model does not say the shape of input '{info.name}'; give it: --shape {info.name}=1x3x224x224"
        )
    sizes = [1 if i == 0 and isinstance(d, str) else d for i, d in enumerate(info.shape)]
    if any(isinstance(d, str) for d in sizes):
        example = "x".join(str(d) if isinstance(d, int) else "8" for d in sizes)
        shown = " x ".join(map(str, info.shape))
        raise ShapeError(
            f"input '{info.name}' ({shown}) has open sizes; give them, for example --shape {info.name}={example}"
        )
    return tuple(int(d) for d in sizes)


def batched_shapes(session: Session, given: Mapping[str, tuple[int, ...]], batch: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs with ``batch`` as first size, where that is open or 1 and was not ``given``.

    The session takes them even if the model declares a batch of 1.
    """
    shapes: dict[str, tuple[int, ...]] = dict(given)
    for info in session.inputs.values():
        shape = concrete_shape(info, given)
        if info.name not in given and shape and shape[0] == 1:
            shapes[info.name] = (batch, *shape[1:])
            if info.shape is not None and info.shape[0] == 1:
                session.inputs[info.name] = TensorInfo(info.name, info.dtype, (UNNAMED, *info.shape[1:]))
    return shapes


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
        shape, dtype = concrete_shape(info, given), info.dtype or DType.F32
        if dtype is DType.STR:
            raise UnsupportedError(f"input '{info.name}' takes strings, which cannot be made up; give a .npy file")
        if dtype.is_float:
            feeds[info.name] = rng.standard_normal(shape, np.float32).astype(dtype.numpy)
        else:
            feeds[info.name] = rng.integers(0, 2 if dtype is DType.BOOL else 10, shape).astype(dtype.numpy)
    return feeds


def load_inputs(
    session: Session,
    texts: Sequence[str],
    given: Mapping[str, tuple[int, ...]],
    mean: Sequence[float],
    norm: Sequence[float],
) -> dict[str, np.ndarray]:
    """Feeds from ``NAME=FILE`` texts: .npy arrays, one .npz with all inputs, or pictures.

    A picture becomes float RGB, resized to the input's height and width, ``(value - mean) * norm`` per channel, in the
    input's own layout. A model with one input needs no name.
    """
    check_names(session, list(given))
    feeds: dict[str, np.ndarray] = {}
    for text in texts:
        name, file = _name_and_file(session, text)
        path = Path(file)
        if not path.exists():
            raise MNNError(f"no such file: {file}")
        if path.suffix.lower() == ".npz" and not name:
            found = read_archive(path)
            check_names(session, list(found))
            feeds.update({n: _suited(session.inputs[n], a, given) for n, a in found.items()})
            continue
        name = name or _only_input(session)
        check_names(session, [name])
        feeds[name] = _from_file(session.inputs[name], path, given, mean, norm)
    return feeds


def _name_and_file(session: Session, text: str) -> tuple[str, str]:
    """Names and files may both hold ``=``: the longest input's name that fits, else what is before the first one."""
    fitting = [n for n in session.inputs if text.startswith(f"{n}=")]
    if fitting:
        name = max(fitting, key=len)
        return name, text[len(name) + 1 :]
    name, separator, file = text.partition("=")
    return (name, file) if separator and not Path(text).exists() else ("", text)


def _only_input(session: Session) -> str:
    if len(session.inputs) != 1:
        raise MNNError(f"the model has several inputs, write --input NAME=FILE; they are:\n{listed(session)}")
    return next(iter(session.inputs))


def _from_file(
    info: TensorInfo, path: Path, given: Mapping[str, tuple[int, ...]], mean: Sequence[float], norm: Sequence[float]
) -> np.ndarray:
    if path.suffix.lower() in PICTURES:
        return read_picture(path, concrete_shape(info, given), info.dtype or DType.F32, mean, norm)
    if path.suffix.lower() == ".npz":
        arrays = read_archive(path)
        if info.name not in arrays and len(arrays) != 1:
            raise MNNError(f"{path} holds {', '.join(arrays) or 'nothing'}, but no array called '{info.name}'")
        return _suited(info, arrays.get(info.name, next(iter(arrays.values()))), given)
    return _suited(info, read_array(path), given)


def _suited(info: TensorInfo, array: np.ndarray, given: Mapping[str, tuple[int, ...]]) -> np.ndarray:
    """The array in the shape that was asked for, and in the input's dtype where that is another of the same kind."""
    shape = given.get(info.name)
    if shape is not None:
        if array.size != int(np.prod(shape)):
            sizes = "x".join(map(str, array.shape))
            raise ShapeError(f"--shape {info.name}={'x'.join(map(str, shape))}: the file holds an array of {sizes}")
        array = array.reshape(shape)
    if info.dtype in (None, DType.STR) or not np.can_cast(array.dtype, info.dtype.numpy, "same_kind"):
        return array
    return array.astype(info.dtype.numpy)


def floats(text: str) -> list[float]:
    """``"1,2,3"`` to numbers; fractions such as ``1/255`` are understood."""
    try:
        parts = [p.partition("/") for p in text.split(",")]
        return [float(number) / (float(below) if bar else 1.0) for number, bar, below in parts]
    except (ValueError, ZeroDivisionError) as error:
        raise MNNError(f"expected numbers such as 0.5,0.5,0.5 or 1/255, not '{text}'") from error
