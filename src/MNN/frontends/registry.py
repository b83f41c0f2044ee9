"""The kinds of model files, told apart by content, and the one function that loads any of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from MNN.errors import FormatError, MNNError
from MNN.frontends.caffe_files import looks_like_caffe
from MNN.frontends.foreign_formats import elsewhere
from MNN.frontends.ncnn_files import looks_like_ncnn
from MNN.frontends.tensorflow_files import looks_like_tensorflow, saved_model
from MNN.ir.graph import Graph
from MNN.schema.files import open_regular

HEAD = 64 * 1024
"""Bytes from the start of a file that recognisers see."""
Source = str | os.PathLike[str] | bytes


@dataclass(frozen=True)
class Hints:
    """What a user says of a file beside where it is. ``inputs`` describes inputs of files that do not tell their shapes
    (``1x3x224x224``), by name; ``prototxt`` is the description of a Caffe network, where it does not lie beside the
    weights; ``signature`` is the entry to take of a SavedModel or TensorFlow Lite model that has several."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    prototxt: str | os.PathLike[str] | None = None
    signature: str | None = None

    def options(self) -> dict[str, bool]:
        """The options of commands that say these, and whether they are given."""
        return {
            "--input-shape": bool(self.inputs),
            "--prototxt": self.prototxt is not None,
            "--signature": self.signature is not None,
        }


NOTHING = Hints()


@dataclass(frozen=True)
class Kind:
    """A kind of model file.

    ``looks_like(head, size)`` judges by the file's first bytes (at most 64 KiB) and its size; it only has to tell its
    own kind from the others, whether the file is sound is for ``load`` to say. ``suffixes`` decide between kinds that
    both think so.
    """

    name: str
    suffixes: tuple[str, ...]
    looks_like: Callable[[bytes, int], bool]
    load: Callable[[Source], Graph]
    in_folder: str = ""
    """The file that stands for a folder of this kind."""
    load_with: Callable[[Source, Hints], Graph] | None = None
    """Like ``load``, of kinds that take hints."""
    hints: tuple[str, ...] = ()
    """Options of commands that give the hints that it takes."""


_KINDS: dict[str, Kind] = {}


def register_kind(kind: Kind) -> None:
    """Adds a kind of model file (each front end adds its own). Raises ``ValueError`` when the name is taken."""
    if kind.name in _KINDS:
        raise ValueError(f"a kind of model file called '{kind.name}' is registered already")
    _KINDS[kind.name] = kind


def kinds() -> list[str]:
    """Names of the kinds that :func:`load_graph` knows."""
    return list(_KINDS)


def load_graph(source: Source, kind: str | None = None, hints: Hints = NOTHING) -> Graph:
    """The graph of a model file given as a path or as the file's bytes; ``kind`` skips the guess.

    Raises :class:`~MNN.errors.FormatError` when the file is of no known kind or malformed,
    :class:`~MNN.errors.UnsupportedError` naming what the engine lacks, and MNNError when it cannot be opened, or for
    hints that its kind does not take.
    """
    source = file_of(source)
    if kind is not None:
        found = _KINDS.get(kind)
        if found is None:
            raise MNNError(f"'{kind}' is no kind of model file; known: {', '.join(_KINDS)}")
    else:
        found = _recognised(source)
    given = [option for option, on in hints.options().items() if on]
    for option in given:
        if option not in found.hints:
            takers = ", ".join(k.name for k in _KINDS.values() if option in k.hints)
            raise MNNError(f"{option} is for files of {takers}, and this is one of {found.name}; leave it out")
    try:
        return found.load(source) if not given or found.load_with is None else found.load_with(source, hints)
    except FormatError as error:
        other = found.name if kind is None else _name_by_content(source)
        if other in (None, found.name):
            raise
        raise FormatError(f"this looks like a model of kind {other}, and is read as {found.name}: {error}") from error


def _name_by_content(source: Source) -> str | None:
    try:
        return kind_of(source)
    except MNNError:
        return None


def file_of(source: Source) -> Source:
    """The file that stands for a folder which is a model (``saved_model.pb``); whatever else is given, as it is."""
    if not isinstance(source, bytes):
        path = Path(source)
        for kind in _KINDS.values():
            if kind.in_folder and path.is_dir() and (path / kind.in_folder).is_file():
                return path / kind.in_folder
    return source


def kind_of(source: Source) -> str:
    """The name of the kind of a model file, by its content. Raises as :func:`load_graph` does when it is of none."""
    return _recognised(file_of(source)).name


def _recognised(source: Source) -> Kind:
    suffix, name = "", "the data"
    if isinstance(source, bytes):
        head, size = source[:HEAD], len(source)
    else:
        path = Path(source)
        suffix, name = path.suffix.lower(), f"'{path}'"
        if path.is_dir():
            inside = ", ".join(k.in_folder for k in _KINDS.values() if k.in_folder)
            raise MNNError(f"{name} is a folder, and a model is a file, or a folder with {inside} in it")
        try:
            with open_regular(path) as file:
                head = file.read(HEAD)
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise MNNError(f"cannot read {name}: {error.strerror or error}") from error
    if not size:
        raise FormatError(f"{name} is empty: download or export it again")
    for kind in _KINDS.values():
        if kind.in_folder and not isinstance(source, bytes) and Path(source).name == kind.in_folder:
            return kind
    fitting = [k for k in _KINDS.values() if k.looks_like(head, size)]
    if len(fitting) > 1:
        fitting = [k for k in fitting if suffix in k.suffixes] or fitting
    named = [k for k in _KINDS.values() if suffix in k.suffixes]
    if named and fitting == [_KINDS["onnx"]] and _KINDS["onnx"] not in named and not _begins_as_onnx(head, size):
        fitting = named  # one byte spoke for ONNX, the name speaks for another kind
    known = elsewhere(head, suffix) if not fitting or fitting == [_KINDS["json"]] else ""
    if known:
        raise FormatError(f"{name} is {known}")
    if not fitting:  # damaged at the start: the front end for its name can say best what is wrong
        fitting = named
    if not fitting:
        said = f"({', '.join(_KINDS)}), or is damaged at its start; export the model to ONNX, and convert that"
        raise FormatError(f"{name} is no model file of a known kind {said}")
    return fitting[0]


# -- the kinds of this package -----------------------------------------------------------------------------------------


_ONNX_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2}
"""Wire types of ModelProto's fields, by number."""


def _looks_like_onnx(head: bytes, size: int) -> bool:
    """A protobuf message whose first field is one of ModelProto's, with the right wire type."""
    if not head:
        return False
    number, wire = head[0] >> 3, head[0] & 7
    if saved_model(head, size) or head[:8] == b"\x12\x01" + bytes(6):  # weights of MXNet
        return False
    if _ONNX_FIELDS.get(number) != wire or head[0] & 0x80:
        return False
    if number != 1:
        return True
    return len(head) > 2 and head[1] < 0x80 and _valid_next(head[2])


def _begins_as_onnx(head: bytes, size: int) -> bool:
    """Whether all fields of which the head tells are ModelProto's, and end within the file."""
    at = 0
    while at < min(len(head), size):
        tag, at = _varint(head, at)
        if at >= len(head) < size:  # the head ends within a field
            break
        if _ONNX_FIELDS.get(tag >> 3) != tag & 7:
            return False
        number, at = _varint(head, at)
        at += number if tag & 7 == 2 else 0
    return at <= size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of protobuf's form, and what follows it; 0 where it is cut off."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, at
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
    return 0, at


def _valid_next(tag: int) -> bool:
    return tag & 7 in (0, 2) and tag >> 3 > 0


def _looks_like_mnn(head: bytes, size: int) -> bool:
    """A flatbuffer whose root table and its vtable lie inside of the file and fit the table Net."""
    if size < 12 or len(head) < 12:
        return False
    root = int.from_bytes(head[:4], "little")
    if root % 4 or not 4 <= root <= size - 4 or root + 4 > len(head):
        return False
    vtable = root - int.from_bytes(head[root : root + 4], "little", signed=True)
    if not 4 <= vtable <= size - 4:
        return False
    if vtable + 4 > len(head):
        return True
    length = int.from_bytes(head[vtable : vtable + 2], "little")
    return length % 2 == 0 and 4 <= length <= 64 and vtable + length <= size


def _looks_like_json(head: bytes, size: int) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def _load_onnx(source: Source) -> Graph:
    from MNN.frontends.onnx import load

    return load(source)


def _load_mnn(source: Source) -> Graph:
    from MNN.frontends.mnn import load

    return load(source)


def _load_tensorflow(source: Source) -> Graph:
    from MNN.frontends.tensorflow import load

    return load(source)


def _load_tensorflow_with(source: Source, hints: Hints) -> Graph:
    from MNN.frontends.tensorflow import load

    return load(source, hints.signature)


def _looks_like_tflite(head: bytes, size: int) -> bool:
    return head[4:8] == b"TFL3"


def _load_tflite(source: Source) -> Graph:
    from MNN.frontends.tflite import load

    return load(source)


def _load_tflite_with(source: Source, hints: Hints) -> Graph:
    from MNN.frontends.tflite import load

    return load(source, hints.signature)


def _looks_like_keras(head: bytes, size: int) -> bool:
    """A zip archive that begins with a part of Keras's, or an HDF5 file."""
    parts = (b"metadata.json", b"config.json", b"model.weights.h5")
    return head[:8] == b"\x89HDF\r\n\x1a\n" or (head[:4] == b"PK\3\4" and head[30:].startswith(parts))


def _load_keras(source: Source) -> Graph:
    from MNN.frontends.keras import load

    return load(source)


def _load_json(source: Source) -> Graph:
    from MNN.frontends.mnn import graph_of
    from MNN.schema import from_json
    from MNN.schema.external import ExternalSource
    from MNN.schema.invariants import check_net

    if isinstance(source, bytes):
        net = from_json(source)
        check_net(net)
        return graph_of(net)
    with open_regular(Path(source)) as file:
        text = file.read()
    try:
        net = from_json(text)
    except FormatError as error:
        raise FormatError(f"{os.fspath(source)}: {error}") from error
    check_net(net, os.fspath(source))
    return graph_of(net, ExternalSource(source))


def _looks_like_torch(head: bytes, size: int) -> bool:
    from MNN.frontends.torch import looks_like

    return looks_like(head, size)


def _load_torch(source: Source) -> Graph:
    from MNN.frontends.torch import load

    return load(source)


def _load_torch_with(source: Source, hints: Hints) -> Graph:
    from MNN.frontends.torch import load

    return load(source, hints.inputs)


def _load_caffe(source: Source) -> Graph:
    from MNN.frontends.caffe import load

    return load(source)


def _load_caffe_with(source: Source, hints: Hints) -> Graph:
    from MNN.frontends.caffe import load

    return load(source, hints.inputs, hints.prototxt)


def _load_ncnn(source: Source) -> Graph:
    from MNN.frontends.ncnn import load

    return load(source)


def _load_ncnn_with(source: Source, hints: Hints) -> Graph:
    from MNN.frontends.ncnn import load

    return load(source, hints.inputs)


register_kind(
    Kind(
        "tflite",
        (".tflite", ".lite"),
        _looks_like_tflite,
        _load_tflite,
        load_with=_load_tflite_with,
        hints=("--signature",),
    )
)
register_kind(Kind("mnn", (".mnn",), _looks_like_mnn, _load_mnn))
register_kind(
    Kind(
        "caffe",
        (".caffemodel", ".prototxt"),
        looks_like_caffe,
        _load_caffe,
        load_with=_load_caffe_with,
        hints=("--input-shape", "--prototxt"),
    )
)  # before ONNX, whose looser rule fits some of its files too
register_kind(Kind("onnx", (".onnx", ".pb"), _looks_like_onnx, _load_onnx))
register_kind(
    Kind(
        "tensorflow",
        (".pb", ".meta", ".graphdef"),
        looks_like_tensorflow,
        _load_tensorflow,
        "saved_model.pb",
        _load_tensorflow_with,
        ("--signature",),
    )
)
register_kind(Kind("keras", (".keras", ".h5", ".hdf5"), _looks_like_keras, _load_keras))
register_kind(Kind("json", (".json",), _looks_like_json, _load_json))
_TORCH = (".pt2", ".pt", ".pth", ".jit", ".ptl", ".ckpt", ".bin")
register_kind(
    Kind("torch", _TORCH, _looks_like_torch, _load_torch, load_with=_load_torch_with, hints=("--input-shape",))
)
register_kind(
    Kind("ncnn", (".param",), looks_like_ncnn, _load_ncnn, load_with=_load_ncnn_with, hints=("--input-shape",))
)
