"""External data, from the front ends on: only regular files of the model's own folder, and nothing outside of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.errors import MNNError
from MNN.frontends.mnn import load as load_mnn
from MNN.frontends.mnn import write_mnn
from MNN.frontends.onnx.load import load as load_onnx
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.schema import read_net, write_net
from MNN.schema.versions import all_ops

WEIGHT = np.arange(64 * 3, dtype=np.float32).reshape(64, 3, 1, 1) / 64
SIZE = WEIGHT.nbytes
Place = dict[str, str]


def plain_model(path: Path) -> None:
    """A convolution with its weight inside."""
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def onnx_model(folder: Path, location: str = "w.bin", **place: str) -> Path:
    """The convolution as .onnx with its weight in another file."""
    path = folder / "m.onnx"
    plain_model(path)
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "0", "length": str(SIZE), **place}.items():
        if value:
            tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def mnn_model(folder: Path, location: str = "", offset: int = 0, length: int = SIZE) -> Path:
    """The convolution as .mnn; its weight is in ``m.mnn.weight`` unless ``location`` says otherwise."""
    plain_model(folder / "source.onnx")
    path = folder / "m.mnn"
    write_mnn(load_onnx(folder / "source.onnx"), path, external=True)
    net = read_net(path.read_bytes())
    (op,) = [op for op in all_ops(net) if op.main is not None and op.main.table_name == "Convolution2D"]
    assert op.main.external.tolist()[:2] == [0, SIZE]
    op.main.external = [offset, length, *op.main.external.tolist()[2:]]
    if location:
        op.externalPath = location
    write_net(net, path)
    return path


def answer(graph: Graph) -> np.ndarray:
    x = np.ones((1, 3, 4, 4), np.float32)
    (found,) = Session(graph, Config(reference=True)).run({"x": x}).values()
    return found


FORMS: dict[str, tuple[Callable[..., Path], Callable[[Path], Graph], str]] = {
    "onnx": (onnx_model, load_onnx, "w.bin"),
    "mnn": (mnn_model, load_mnn, "m.mnn.weight"),
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with its data, and a file outside of it that nobody may read."""
    inner = tmp_path / "model"
    (inner / "sub").mkdir(parents=True)
    for name in ("w.bin", "sub/w.bin"):
        (inner / name).write_bytes(WEIGHT.tobytes() + bytes(256))  # .mnn has a bias after it
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    return inner


@EVERY_FORM
@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "./sub/w.bin"])
def test_data_beside_the_model_is_used(form: str, location: str, folder: Path) -> None:
    make, load, _ = FORMS[form]
    found = answer(load(make(folder, location)))
    assert np.allclose(found[0, :, 0, 0], WEIGHT.sum((1, 2, 3)))


@EVERY_FORM
@pytest.mark.parametrize(
    "location",
    [
        "../secret",
        "sub/../../secret",
        "sub/..",
        "..",
        ".",
        "//secret",
        "w.bin/",
        "sub\\w.bin",
        "C:w.bin",
        "missing",
        "sub",
    ],
)
def test_other_names_are_refused(form: str, location: str, folder: Path) -> None:
    make, load, _ = FORMS[form]
    with pytest.raises(MNNError, match=r"refused|cannot open"):
        load(make(folder, location))


@EVERY_FORM
def test_absolute_names_are_refused(form: str, folder: Path) -> None:
    make, load, _ = FORMS[form]
    for path in (folder.parent / "secret", folder / "w.bin"):  # also one that leads into the folder
        with pytest.raises(MNNError, match="absolute"):
            load(make(folder, str(path)))


@EVERY_FORM
@pytest.mark.parametrize("kind", ["link to a file", "link within", "link to a folder", "hard link", "fifo", "device"])
def test_links_and_devices_are_refused(form: str, kind: str, folder: Path) -> None:
    make, load, usual = FORMS[form]
    location = "planted"
    target = folder / location
    if kind == "link to a file":
        target.symlink_to("../secret")
    elif kind == "link within":
        target.symlink_to("w.bin")
    elif kind == "link to a folder":
        target.symlink_to("..")
        location = "planted/secret"
    elif kind == "hard link":
        os.link(folder.parent / "secret", target)
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        try:
            os.mknod(target, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends
        except PermissionError:  # only root may make devices; a link to one is refused as well
            target.symlink_to("/dev/zero")
    with pytest.raises(MNNError, match=r"link|regular file"):
        load(make(folder, location))
    # The same in the place of the file that needs no name.
    if form == "mnn" and location == "planted":
        path = make(folder)
        (folder / usual).unlink()
        target.rename(folder / usual)
        with pytest.raises(MNNError, match=r"link|regular file"):
            load(path)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"offset": "260"}, "incomplete"),
        ({"offset": "-4"}, "incomplete|negative"),
        ({"offset": str(1 << 62)}, "incomplete"),
        ({"offset": str(1 << 80)}, "incomplete"),
        ({"offset": "x"}, "not a number"),
        ({"length": str(SIZE - 4)}, "bytes"),
        ({"length": str(SIZE + 4)}, "bytes"),
        ({"length": "-1"}, "bytes"),
        ({"length": str(1 << 62)}, "bytes"),
        ({"location": ""}, "location"),
    ],
)
def test_onnx_places_outside_of_the_file_are_refused(place: Place, problem: str, folder: Path) -> None:
    with pytest.raises(MNNError, match=problem):
        load_onnx(onnx_model(folder, **place))


@pytest.mark.parametrize(
    ("offset", "length"),
    [(4096, SIZE), (-4, SIZE), (1 << 62, SIZE), (0, SIZE * 64), (0, 1 << 62), (0, -4), (0, SIZE - 4), (0, 3)],
)
def test_mnn_places_outside_of_the_file_are_refused(offset: int, length: int, folder: Path) -> None:
    with pytest.raises(MNNError):
        load_mnn(mnn_model(folder, "", offset, length))


@EVERY_FORM
def test_data_that_got_shorter_is_refused(form: str, folder: Path) -> None:
    make, load, usual = FORMS[form]
    path = make(folder)
    (folder / usual).write_bytes(WEIGHT.tobytes()[:-4])
    with pytest.raises(MNNError, match="incomplete"):
        load(path)
    (folder / usual).unlink()
    with pytest.raises(MNNError, match="cannot open"):
        load(path)


@EVERY_FORM
def test_models_in_memory_have_no_folder(form: str, folder: Path) -> None:
    make, load, _ = FORMS[form]
    data = make(folder).read_bytes()
    with pytest.raises(MNNError, match=r"path|memory"):
        load(data)  # type: ignore[arg-type]
