"""Model files whose tensors have the channels last, as PyMNN's expressions write them: formats of tensors, and which
tensors there are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import MNN
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN.schema import Record, read_net, write_net
from tests.api.models import classifier, write

X = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
WEIGHT = np.arange(135, dtype=np.float32).reshape(5, 3, 3, 3) / 100


def op(kind: str, name: str, inputs: list[int], made: int, main: Record) -> Record:
    return Record("Op", type=kind, name=name, inputIndexes=inputs, outputIndexes=[made], main=main,
                  defaultDimentionFormat="NHWC")  # fmt: skip


def blob(array: np.ndarray) -> Record:
    return Record("Blob", dims=list(array.shape), dataFormat="NCHW", dataType="DT_FLOAT", float32s=array.reshape(-1))


def to(dest: str) -> Record:
    """PyMNN writes NCHW as the source whatever it is."""
    return Record("TensorConvertInfo", source="NCHW", dest=dest)


def file(folder: Path) -> str:
    """``r = relu(convolution(x))`` and ``p``, the maxima of ``x``; ``x``, ``r`` and ``p`` have the channels last."""
    common = Record("Convolution2DCommon", kernelX=3, kernelY=3, outputCount=5, inputCount=3, padMode="VALID")
    pool = Record("Pool", kernelX=2, kernelY=2, strideX=2, strideY=2, type="MAXPOOL", padType="VALID", ceilModel=True)
    ops = [
        op("Input", "x", [], 0, Record("Input", dims=[1, 4, 4, 3], dtype="DT_FLOAT", dformat="NHWC")),
        op("ConvertTensor", "packed", [0], 1, to("NC4HW4")),
        op("Const", "w", [], 2, blob(WEIGHT)),
        op("Const", "b", [], 3, blob(np.zeros(5, np.float32))),
        op("Convolution", "y", [1, 2, 3], 4, Record("Convolution2D", common=common)),
        op("ConvertTensor", "z", [4], 5, to("NHWC")),
        op("ReLU", "r", [5], 6, Record("Relu", slope=0.0)),
        op("Pooling", "p", [0], 7, pool),
    ]
    names = ["x", "packed", "w", "b", "y", "z", "r", "p"]
    path = folder / "last.mnn"
    path.write_bytes(write_net(Record("Net", oplists=ops, tensorName=names, outputName=["r", "p"])))
    return str(path)


def expected() -> tuple[np.ndarray, np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(X, (3, 3), (1, 2))  # [1, 2, 2, 3, 3, 3]
    maxima = X.reshape(1, 2, 2, 2, 2, 3).max((2, 4))
    return np.maximum(np.einsum("nhwckl,ockl->nhwo", windows, WEIGHT), 0), maxima


def test_sessions_list_sizes_as_the_file_does(tmp_path: Path) -> None:
    net = MNN.Interpreter(file(tmp_path))
    session = net.createSession()
    given = net.getSessionInput(session)
    assert (given.getShape(), given.getDimensionType()) == ((1, 4, 4, 3), MNN.Tensor_DimensionType_Tensorflow)
    for tensor in net.getSessionOutputAll(session).values():
        assert tensor.getDimensionType() == MNN.Tensor_DimensionType_Tensorflow
    first = np.ascontiguousarray(X.transpose(0, 3, 1, 2))
    for host in (MNN.Tensor(X.shape, MNN.Halide_Type_Float, X, MNN.Tensor_DimensionType_Tensorflow),
                 MNN.Tensor(first.shape, MNN.Halide_Type_Float, first, MNN.Tensor_DimensionType_Caffe)):  # fmt: skip
        given.copyFrom(host)
        net.runSession(session)
        for name, wanted in zip(("r", "p"), expected(), strict=True):
            found = net.getSessionOutput(session, name)
            np.testing.assert_allclose(found.getNumpyData(), wanted, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("layout", [F.NHWC, F.NCHW, F.NC4HW4], ids=str)
def test_modules_convert_what_they_are_given(tmp_path: Path, layout: F.data_format) -> None:
    module = MNN.nn.load_module_from_file(file(tmp_path), ["x"], ["r", "p", "y"])
    assert module.get_info()["inputs"][0]["data_format"] is F.NHWC
    r, p, y = module.forward([F.convert(F.const(X, X.shape, F.NHWC), layout)])
    assert (r.data_format, p.data_format, y.data_format) == (F.NHWC, F.NHWC, F.NC4HW4)
    for found, wanted in zip((r, p), expected(), strict=True):
        np.testing.assert_allclose(found.read(), wanted, rtol=1e-4)


def test_expressions_of_a_file(tmp_path: Path) -> None:
    found = F.load_as_dict(file(tmp_path))
    assert {n: (v.op_type, v.shape, v.data_format) for n, v in found.items()} == {
        "b": ("Const", [5], F.NCHW),
        "p": ("Permute", [1, 2, 2, 3], F.NHWC),  # poolings have the channels second here
        "packed": ("ConvertTensor", [1, 3, 4, 4], F.NC4HW4),
        "r": ("ReLU", [1, 2, 2, 5], F.NHWC),
        "w": ("Const", [5, 3, 3, 3], F.NCHW),
        "x": ("Input", [1, 4, 4, 3], F.NHWC),
        "y": ("Convolution", [1, 5, 2, 2], F.NC4HW4),
        "z": ("ConvertTensor", [1, 2, 2, 5], F.NHWC),
    }
    found["x"].write(X)
    for name, wanted in zip(("r", "p"), expected(), strict=True):
        np.testing.assert_allclose(found[name].read(), wanted, rtol=1e-4)
    F.save([found["r"], found["p"]], tmp_path / "again.mnn")
    again = MNN.load(tmp_path / "again.mnn").run({"x": X})
    for name, wanted in zip(("r", "p"), expected(), strict=True):
        np.testing.assert_allclose(again[name], wanted, rtol=1e-4)


def test_what_is_written_again_runs_in_the_official_engine(tmp_path: Path) -> None:
    """Conversions of formats that a file has are no operators of ours in the next one, nor in an exported module, which
    has all of its outputs."""
    last = F.load_as_dict(file(tmp_path))
    F.save([last["r"], last["p"]], tmp_path / "last again.mnn")
    MNN.train.export(MNN.nn.load_module([last["x"]], [last["r"], last["p"]], False), tmp_path / "exported.mnn", X.shape)
    found = MNN.load(tmp_path / "exported.mnn").run({"input": X})
    for name, wanted in zip(("output0", "output1"), expected(), strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4)
    first = F.load_as_dict(write(classifier(), tmp_path, "mnn"))
    F.save(first["prob"], tmp_path / "first again.mnn")
    for path in tmp_path.glob("*.mnn"):
        assert "Extra" not in {o.type for o in read_net(path).oplists}, path


def test_which_tensors_a_file_has(tmp_path: Path) -> None:
    """Results of the file's operators, by name; weights inside of operators are none (as PyMNN 3.6.1 lists them)."""
    path = write(classifier(), tmp_path, "mnn")
    assert [(n, v.op_type, str(v.data_format)[12:]) for n, v in F.load_as_dict(path).items()] == [
        ("b3", "Const", "NCHW"), ("data", "Input", "NCHW"), ("data__NC4HW4", "ConvertTensor", "NC4HW4"),
        ("flat", "Flatten", "NCHW"), ("logits", "MatMul", "NCHW"), ("mean", "Pooling", "NC4HW4"),
        ("mean__NCHW", "ConvertTensor", "NCHW"), ("prob", "Softmax", "NCHW"), ("r1", "Convolution", "NC4HW4"),
        ("r2", "Convolution", "NC4HW4"), ("w3", "Const", "NCHW"),
    ]  # fmt: skip
    assert [v.name for v in F.load_as_list(path)] == [
        "data", "data__NC4HW4", "r1", "r2", "mean", "mean__NCHW", "flat", "w3", "b3", "logits", "prob",
    ]  # fmt: skip


LISTING = """
import json, sys
import MNN.expr as F
print(json.dumps({n: [v.op_type, list(v.shape), str(v.data_format)] for n, v in F.load_as_dict(sys.argv[1]).items()}))
"""


@pytest.mark.peer
@pytest.mark.parametrize("make", [file, lambda folder: write(classifier(), folder, "mnn")], ids=["last", "first"])
def test_pymnn_lists_the_same(tmp_path: Path, make) -> None:
    from tests.interop.official import interpreter

    path = make(tmp_path)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([str(interpreter()), "-c", LISTING, path], env=environment, capture_output=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = {n: [v.op_type, v.shape, str(v.data_format)] for n, v in F.load_as_dict(path).items()}
    if "p" in theirs:
        assert (theirs["p"][0], ours["p"][0]) == ("Pooling", "Permute")
        theirs["p"][0] = "Permute"
    assert ours == theirs
    assert list(ours) == list(theirs)
