"""From a file of Keras to a graph."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends.common.zip_archive import ZipArchive
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.hdf5 import Hdf5
from MNN.frontends.keras.layers.models import MODELS, run_model
from MNN.frontends.keras.part import Part, described, part_of
from MNN.frontends.keras.stored import fill_from_lists, fill_from_paths
from MNN.ir.graph import Graph, Node, Value
from MNN.schema.files import MappedFile, open_regular

WEIGHTS = "model.weights.h5"
SAVE_WHOLE = "save the whole model in Keras: model.save('model.keras')"


class KerasArchive(ZipArchive):
    format_name = "Keras"


def load(source: str | os.PathLike[str] | bytes) -> Graph:
    """The graph of a Keras model: a ``.keras`` archive or an ``.h5`` file of a whole model, as path or as bytes.

    Inputs and outputs are called as in Keras: after input layers, and after the layers that give them, or as the
    dictionary has it that the model gives. Nothing of the file is run as a program.

    Raises :class:`~MNN.errors.FormatError` for malformed files,
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do, and
    :class:`~MNN.errors.MNNError` where the library for HDF5 is not installed.
    """
    name = "the data" if isinstance(source, bytes) else f"'{source}'"
    part, version = _archive(source, name) if _start(source) == b"PK\3\4" else _hdf5(source, name)
    graph = Graph()
    ctx = KerasContext(graph, of_old=version.startswith(("1.", "2.")))
    results = run_model(ctx, part)
    ctx.model.report.raise_if_any()
    graph.outputs = [_output(ctx, key, value) for key, value in results]
    graph.meta = {"source": "Keras"}
    ctx.model.memory.finish(graph)
    return graph


def _start(source: str | os.PathLike[str] | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:4]
    with open_regular(Path(source)) as file:
        return file.read(4)


def _output(ctx: KerasContext, name: str, value: Value) -> Value:
    """A value under the name that users see."""
    out = Value(name, value.dtype, value.shape)
    ctx.graph.nodes.append(Node("Identity", ctx.unique(f"{name}/result"), [value], [out]))
    return out


def _archive(source: str | os.PathLike[str] | bytes, name: str) -> tuple[Part, str]:
    """The model, and the version of Keras that wrote it."""
    archive = KerasArchive(source)
    if not archive.has("config.json"):
        raise FormatError(f"{name} is a zip archive without 'config.json', so no Keras model; {SAVE_WHOLE}")
    part = _model(_json(archive.read("config.json"), f"'config.json' in {name}"), name)
    if not archive.has(WEIGHTS):
        raise FormatError(f"{name} has no '{WEIGHTS}'; {SAVE_WHOLE}, with its weights in one file")
    fill_from_paths(part, Hdf5(archive.stored(WEIGHTS), f"'{WEIGHTS}' in {name}"))
    part.lend()
    notes = _json(archive.read("metadata.json"), f"'metadata.json' in {name}") if archive.has("metadata.json") else {}
    return part, str(notes.get("keras_version", "3") if isinstance(notes, dict) else "3")


def _hdf5(source: str | os.PathLike[str] | bytes, name: str) -> tuple[Part, str]:
    if isinstance(source, bytes):
        data = memoryview(source)
    else:
        try:
            with open_regular(Path(source)) as file:
                if not os.fstat(file.fileno()).st_size:
                    raise FormatError(f"{name} is empty")
                data = memoryview(MappedFile.of(file, Path(source)))
        except OSError as error:
            raise MNNError(f"cannot read {name}: {error.strerror or error}") from error
    stored = Hdf5(data, name)
    text = stored.text("", "model_config")
    if text is None:
        raise FormatError(f"{name} holds weights without a model; {SAVE_WHOLE}")
    part = _model(_json(text, f"'model_config' in {name}"), name)
    fill_from_lists(part, stored)
    return part, stored.text("", "keras_version") or "2."


def _json(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} cannot be read; is the file damaged? ({str(error)[:200]})") from error


def _model(config: Any, name: str) -> Part:
    kind, _ = described(config)
    if kind not in MODELS:
        raise UnsupportedError(
            f"{name} holds a model of the class '{kind}', whose program is not in the file; export a SavedModel in "
            "Keras (model.export('folder')), and convert that folder"
        )
    return part_of(config)
