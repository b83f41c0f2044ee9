"""Inputs from the command line: shapes, arrays, pictures, and made-up numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.ir.dtype import DType
from MNN.runtime.session import Session, TensorInfo

PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm"}
SEED = 20


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["x=1x3x224x224"]`` to ``{"x": (1, 3, 224, 224)}``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, separator, dims = text.rpartition("=")
        sizes = dims.replace(",", "x").split("x")
        if not separator or not name or not all(s.isdigit() for s in sizes):
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
        raise ShapeError(f"{info}: some sizes are open; give them, for example --shape {info.name}={example}")
    return tuple(int(d) for d in sizes)


def check_names(session: Session, names: Sequence[str]) -> None:
    """Raises when a name is not an input of the model."""
    unknown = [n for n in names if n not in session.inputs]
    if unknown:
        listed = "\n".join(f"  {i}" for i in session.inputs.values())
        raise ShapeError(f"the model has no input called {', '.join(unknown)}; its inputs are:\n{listed}")


def random_feeds(session: Session, given: Mapping[str, tuple[int, ...]], seed: int = SEED) -> dict[str, np.ndarray]:
    """Seeded noise for every input: standard normal floats, integers 0 to 9, bools by coin."""
    check_names(session, list(given))
    rng = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for info in session.inputs.values():
        shape, dtype = concrete_shape(info, given), info.dtype or DType.F32
        if dtype is DType.STR:
            raise MNNError(f"input '{info.name}' takes strings, which cannot be made up; give a .npy file")
        if dtype.is_float:
            feeds[info.name] = rng.standard_normal(shape).astype(dtype.numpy)
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
    feeds: dict[str, np.ndarray] = {}
    for text in texts:
        name, separator, file = text.partition("=")
        if not separator:
            name, file = "", text
        path = Path(file)
        if not path.exists():
            raise MNNError(f"no such file: {file}")
        if path.suffix == ".npz":
            feeds.update(_archive(path))
            continue
        name = name or _only_input(session)
        check_names(session, [name])
        feeds[name] = _array(session.inputs[name], path, given, mean, norm)
    return feeds


def _only_input(session: Session) -> str:
    if len(session.inputs) != 1:
        raise MNNError(f"the model has several inputs ({', '.join(session.inputs)}); write --input NAME=FILE")
    return next(iter(session.inputs))


def _archive(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError) as error:
        raise MNNError(f"{path}: not a readable .npz file: {error}") from error


def _array(
    info: TensorInfo, path: Path, given: Mapping[str, tuple[int, ...]], mean: Sequence[float], norm: Sequence[float]
) -> np.ndarray:
    if path.suffix.lower() in PICTURES:
        return picture(path, concrete_shape(info, given), info.dtype or DType.F32, mean, norm)
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, OSError) as error:
        raise MNNError(f"{path}: not a readable .npy file or picture: {error}") from error
    shape = given.get(info.name)
    if shape is not None and array.size == int(np.prod(shape)):
        array = array.reshape(shape)
    if info.dtype in (None, DType.STR) or not np.can_cast(array.dtype, info.dtype.numpy, "same_kind"):
        return array
    return array.astype(info.dtype.numpy)


def picture(
    path: Path, shape: tuple[int, ...], dtype: DType, mean: Sequence[float], norm: Sequence[float]
) -> np.ndarray:
    """A picture as an array of ``shape``: ``[N, C, H, W]`` or ``[N, H, W, C]`` with 1 or 3 channels."""
    from PIL import Image, UnidentifiedImageError

    first = len(shape) == 4 and shape[1] in (1, 3)
    if len(shape) != 4 or not (first or shape[3] in (1, 3)):
        raise ShapeError(f"{path}: a picture does not fit an input of shape {list(shape)}; 1 or 3 channels are needed")
    height, width, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB" if channels == 3 else "L").resize((width, height), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, OSError) as error:
        raise MNNError(f"{path}: not a readable picture: {error}") from error
    pixels = np.asarray(image, dtype=np.float32).reshape(height, width, channels)
    scaled = (pixels - np.asarray(mean, np.float32)) * np.asarray(norm, np.float32)
    array = scaled.transpose(2, 0, 1) if first else scaled
    return np.ascontiguousarray(np.broadcast_to(array, shape)).astype(dtype.numpy)


def floats(text: str) -> list[float]:
    """``"1,2,3"`` to numbers; fractions such as ``1/255`` are understood."""
    try:
        parts = [p.split("/") for p in text.split(",")]
        return [float(p[0]) / (float(p[1]) if len(p) > 1 else 1.0) for p in parts]
    except (ValueError, ZeroDivisionError) as error:
        raise MNNError(f"expected numbers such as 0.5,0.5,0.5 or 1/255, not '{text}'") from error
