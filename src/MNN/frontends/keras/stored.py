"""The numbers of a model's variables out of the two kinds of files."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.keras.hdf5 import Hdf5
from MNN.frontends.keras.part import CUDNN, Part

_MODEL = "model_weights"


def fill_from_paths(part: Part, file: Hdf5, path: str = "") -> None:
    """As a ``.keras`` archive has them: each layer's variables are numbered, in a room beside the layers within."""
    for index, name in enumerate(part.variables):
        place = f"{path}/vars/{index}"
        if file.has(place):
            part.arrays[name] = file.array(place)
    for inner in part.inside:
        fill_from_paths(inner, file, _room(inner, file, path))


def _room(inner: Part, file: Hdf5, path: str) -> str:
    """Where a layer lies: Keras 2 has layers under other names of the attribute, some begin with an underscore; layers
    for cuDNN have no cell, its variables are their own."""
    plain = f"{path}/{inner.attribute}"
    others = (f"{path}/_{inner.attribute}", f"{path}/_layer_checkpoint_dependencies/{inner.attribute.split('/')[-1]}")
    return next((place for place in (plain, *others) if file.has(place)), path if inner.config.get(CUDNN) else plain)


def fill_from_lists(model: Part, file: Hdf5) -> None:
    """As an ``.h5`` file has them: for each layer of the model the names of its variables in order."""
    room = _MODEL if file.has(_MODEL) else ""
    for layer in (part for part in model.inside if part.known):  # of others is told when they are used
        names = file.texts(f"{room}/{layer.name}", "weight_names")
        if names is None and any(True for _ in layer.slots()):
            raise FormatError(f"{layer.where}: the file has no numbers for its variables")
        arrays: list[np.ndarray] = [file.array(f"{room}/{layer.name}/{name}") for name in names or ()]
        layer.fill_from_list(arrays)
