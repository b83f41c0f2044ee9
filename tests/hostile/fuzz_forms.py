"""What each form of files begins with when it is fuzzed, and how a file of it is put to the engine."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.frontends import ncnn
from MNN.ir.graph import Graph
from tests.hostile.attempt import attempt
from tests.hostile.models import MODELS, model
from tests.hostile.operators import files

SEPARATOR = b"\0weights\0"
"""Between the two files of an ncnn model."""
PART = b"\0part\0"
"""Before each part of an archive, and between its name and its content: archives that are sound outside."""
Seeds = Iterator[tuple[str, bytes]]


@dataclass(frozen=True)
class Form:
    """Undamaged files to begin with, and what is done with each damaged one: ``put(data, way)``."""

    seeds: Callable[[], Seeds]
    put: Callable[[bytes, str], object]


def _graph(kind: str) -> Callable[[bytes, str], object]:
    return lambda data, way: attempt(data, kind, way)


def _onnx() -> Seeds:
    yield from ((name, model(name, "onnx")) for name in MODELS)
    yield from ((name[:60].replace("/", "_"), data) for name, data in files())


def _mnn() -> Seeds:
    yield from ((name, model(name, "mnn")) for name in MODELS)


def _tflite() -> Seeds:
    from tests.frontends.tflite.cases import FAMILIES, Draw

    for name, family in FAMILIES.items():
        yield name.replace(" ", "-"), family(Draw(1)).model.finish()


def _ncnn() -> Seeds:
    from tests.frontends.ncnn.cases import FAMILIES, Draw

    for name, family in FAMILIES.items():
        made = family(Draw(1)).model
        yield name.replace(" ", "-"), made.text() + SEPARATOR + made.weights()
        yield f"{name}-binary".replace(" ", "-"), made.binary() + SEPARATOR + made.weights()


def _put_ncnn(data: bytes, way: str) -> str:
    param, _, weights = data.partition(SEPARATOR)

    def load(source: bytes, form: str) -> Graph:
        del form
        return ncnn.load(source, weights=weights)

    return attempt(param, "ncnn", way, load)


def _parted(data: bytes) -> bytes:
    """An archive as a row of its parts, which damage may lengthen and shorten."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return b"".join(PART + n.encode() + PART + opened.read(n) for n in opened.namelist())


def _put_archive(kind: str) -> Callable[[bytes, str], object]:
    """A whole archive as it is; a row of parts is packed first."""

    def put(data: bytes, way: str) -> str:
        if data.startswith(PART):
            fields = data.split(PART)[1:]
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as target:
                for name, content in dict(zip(fields[::2], fields[1::2], strict=False)).items():
                    target.writestr(name.decode("latin1").split("\0")[0][:1000] or "part", content)
            data = packed.getvalue()
        return attempt(data, kind, way)

    return put


def _torch(*names: str) -> Callable[[], Seeds]:
    def seeds() -> Seeds:
        from tests.frontends.torch.peer import written

        for name in names:
            data = (written("program_cases") / f"cases-{name}").read_bytes()
            yield name, data
            yield f"{name}-parts", _parted(data)

    return seeds


def _keras() -> Seeds:
    from tests.keras.coverage import RECORDED
    from tests.keras.recorded import cases

    for case in cases(RECORDED):
        if case.name.startswith("MixedBfloat16"):
            continue  # kernels round to eight bits elsewhere than their meaning does
        name = f"{case.name}-{case.file}".replace("/", "-")
        yield name, case.data
        if case.file.endswith(".keras"):
            yield f"{name}-parts", _parted(case.data)


def _caffe() -> Seeds:
    """Networks of a layer or a few with weights, and the same without as text; networks of the oldest form."""
    from tests.frontends.caffe.build import caffemodel, prototxt
    from tests.frontends.caffe.cases import FAMILIES, Draw
    from tests.frontends.caffe.test_files import oldest_net

    for name, family in FAMILIES.items():
        net = family(Draw(1)).net
        yield f"{name}-binary".replace(" ", "-"), caffemodel(net)
        yield f"{name}-text".replace(" ", "-"), prototxt(net).encode()
    yield "oldest-binary", caffemodel(oldest_net())
    yield "oldest-text", prototxt(oldest_net()).encode()


def _tensorflow() -> Seeds:
    archive = Path(__file__).parents[1] / "tensorflow" / "operators.zip"
    with zipfile.ZipFile(archive) as opened:
        names = [n for n in opened.namelist() if n.endswith((".pb", "/graph"))]
        yield from ((n.replace("/", "_"), opened.read(n)) for n in names[:200])


def _safetensors() -> Seeds:
    from tests.llm.files.writing import safetensors

    yield "empty", safetensors({})
    yield "two", safetensors({"a": np.ones((2, 3), np.float32), "b": np.ones(5, np.float16)})


def _gguf() -> Seeds:
    from tests.llm.files.writing import gguf

    yield "small", gguf({"general.architecture": "llama"}, {"w": np.ones((2, 32), np.float32)})


def _put_file(suffix: str) -> Callable[[bytes, str], object]:
    """Read as a file, as readers of weights map them."""

    def put(data: bytes, way: str) -> str:
        del way
        from MNN.llm.files.gguf.reader import read_gguf  # not instrumented, as half of the engine comes with it
        from MNN.llm.files.safetensors import read_safetensors

        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(data)
            file.flush()
            try:
                (read_gguf if suffix == ".gguf" else read_safetensors)(Path(file.name))
            except MNNError:
                return "refused"
        return "read"

    return put


FORMS = {
    "onnx": Form(_onnx, _graph("onnx")),
    "mnn": Form(_mnn, _graph("mnn")),
    "tflite": Form(_tflite, _graph("tflite")),
    "tensorflow": Form(_tensorflow, _graph("tensorflow")),
    "torchscript": Form(_torch("scripted-traced.pt", "shared.pt"), _put_archive("torch")),
    "pt2": Form(_torch("shared.pt2", "attention-core.pt2"), _put_archive("torch")),
    "caffe": Form(_caffe, _graph("caffe")),
    "keras": Form(_keras, _put_archive("keras")),
    "ncnn": Form(_ncnn, _put_ncnn),
    "safetensors": Form(_safetensors, _put_file(".safetensors")),
    "gguf": Form(_gguf, _put_file(".gguf")),
}
