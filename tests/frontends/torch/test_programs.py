"""Whole programs, as torch.export and TorchScript write them, against torch's answers run after run."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
from MNN.errors import FormatError, MNNError
from MNN.frontends import kind_of, load_graph
from MNN.frontends.common.problems import Report, UnsupportedModelError
from MNN.frontends.torch import script
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.script.code import Code
from MNN.frontends.torch.script.load import Given
from MNN.frontends.torch.script.missing import report_missing
from MNN.ir.graph import Graph
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel
from tests.frontends.torch.near import compare
from tests.frontends.torch.peer import written

EXPORTED = (
    "convolutions attention encoder recurrent in_place counter started moving window sizes images transposed scripted"
    " conditional shared pooled_to_size composed regions checked"
).split()
SCRIPTED = (
    "convolutions recurrent in_place counter moving window sizes images transposed scripted branching shared composed"
).split()
TRACED = "convolutions recurrent images transposed scripted shared composed".split()


def file(name: str) -> Path:
    return written("program_cases") / f"cases-{name}"


def runs(name: str) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Inputs and torch's answers."""
    with np.load(f"{file(name)}.npz") as held:
        arrays = dict(held)

    def listed(kind: str, run: int) -> list[np.ndarray]:
        keys = [k for k in arrays if k.startswith(f"{run}_{kind}_")]
        return [arrays[f"{run}_{kind}_{i}"] for i in range(len(keys))]

    count = 1 + max(int(k.split("_")[0]) for k in arrays)
    return [(listed("in", i), listed("out", i)) for i in range(count)]


class Runner:
    """A graph that is run again and again; states are handed on, as MNN.load does."""

    def __init__(self, graph: Graph) -> None:
        session = Session(graph)
        self.model: Any = StatefulModel(session) if session.own_states else session

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        feeds: Mapping[str, np.ndarray] = dict(zip(self.model.inputs, arrays, strict=True))
        return list(self.model.run(feeds).values())


def check(graph: Graph, name: str, most: int | None = None) -> None:
    run = Runner(graph)
    for at, (inputs, wanted) in enumerate(runs(name)[:most]):
        found = run(inputs)
        assert len(found) == len(wanted)
        for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert not compare(ours, theirs), f"{name}, run {at}, output {i}: {compare(ours, theirs)}"


@pytest.mark.parametrize("form", ["", "-core"])
@pytest.mark.parametrize("name", EXPORTED)
def test_exported(name: str, form: str) -> None:
    path = Path(f"{file(name)}{form}.pt2")
    assert kind_of(path) == "torch"
    graph = load_graph(path)
    assert all(value.name for value in graph.outputs)  # a single tensor has no path within the result
    check(graph, name)


@pytest.mark.parametrize("name", SCRIPTED)
def test_scripted(name: str) -> None:
    given = [Given(tuple(x.shape)) for x in runs(name)[0][0]]
    same = all([x.shape for x in r[0]] == [x.shape for x in runs(name)[0][0]] for r in runs(name))
    graph = script.load(f"{file(name)}.pt", {str(i): g for i, g in enumerate(given)})
    check(graph, name, None if same else 1)


@pytest.mark.parametrize("name", ["sizes", "convolutions", "shared"])
def test_scripted_with_open_sizes(name: str) -> None:
    rank = runs(name)[0][0][0].ndim
    sizes = runs(name)[0][0][0].shape
    names = ("batch", "n") if name == "sizes" else ("batch",)
    graph = script.load(f"{file(name)}.pt", {"x": Given((*names, *sizes[len(names) : rank]))})
    check(graph, name)


@pytest.mark.parametrize("name", TRACED)
def test_traced(name: str) -> None:
    """Traced modules bring the shapes of their inputs."""
    check(load_graph(f"{file(name)}-traced.pt"), name, 1)


@pytest.mark.parametrize("form", ["", "-traced"])
def test_quantized_programs_are_a_step_off_at_most(form: str) -> None:
    (inputs, wanted), *_ = runs("quantized")
    graph = script.load(f"{file('quantized')}{form}.pt", {"0": Given((2, 3, 10, 10))})
    found = Runner(graph)(inputs)
    step = np.abs(wanted[0][wanted[0] != 0]).min()  # answers are multiples of the last scale
    assert np.abs(found[0] - wanted[0]).max() <= step * 1.01


def test_scripted_convolutions_need_no_shapes() -> None:
    """The rank of the input follows from the weights."""
    check(load_graph(f"{file('convolutions')}.pt"), "convolutions")


def test_ranks_that_nothing_tells_are_asked_for() -> None:
    with pytest.raises(MNNError, match=r"unknown rank.*--input-shape"):
        load_graph(f"{file('in_place')}.pt")


def test_all_unknown_operators_of_a_script_are_told(tmp_path: Path) -> None:
    """By one message, with the functions that use them; known ones of other programs are none."""
    changed = tmp_path / "changed.pt"
    with zipfile.ZipFile(f"{file('convolutions')}-traced.pt") as source, zipfile.ZipFile(changed, "w") as target:
        for entry in source.namelist():
            data = source.read(entry)
            if entry.endswith(".py"):
                data = data.replace(b"torch.hardtanh(", b"torch.made_up(").replace(b"torch.linear(", b"ops.lib.own(")
            target.writestr(entry, data)
    with pytest.raises(UnsupportedModelError, match=r"torch\.export") as caught:
        load_graph(changed)
    assert {problem.op for problem in caught.value.problems} == {"made_up", "lib.own"}
    assert all(problem.node.startswith("__torch__.") for problem in caught.value.problems)
    for name in ("branching", "recurrent", "quantized"):
        report = Report()
        report_missing(Code(Archive(f"{file(name)}.pt")), report)
        assert not report.problems


def test_names_of_inputs_axes_and_outputs() -> None:
    model = MNN.load(f"{file('attention')}.pt2")
    assert list(model.inputs) == ["ids", "mask"]
    assert list(model.outputs) == ["states", "pooled"]
    shape = model.inputs["ids"].shape
    assert shape is not None
    assert all(isinstance(n, str) for n in shape)
    assert model.inputs["mask"].shape == shape


def test_states_of_a_program_are_kept_and_reset() -> None:
    model = MNN.load(f"{file('counter')}.pt2")
    assert isinstance(model, StatefulModel)
    (inputs, wanted), *_ = runs("counter")
    first = model.run({"x": inputs[0]})
    model.run({"x": inputs[0]})
    model.state.reset()
    again = model.run({"x": inputs[0]})
    for result in (first, again):
        assert not compare(next(iter(result.values())), wanted[0])


def test_tensors_that_are_no_buffers_are_states_too() -> None:
    graph = load_graph(Path(f"{file('held')}.pt2"))
    assert len(Session(graph).own_states) == 1
    check(graph, "held")


def test_tensors_in_the_same_memory_are_one_state() -> None:
    graph = load_graph(Path(f"{file('beside')}.pt2"))
    assert len(Session(graph).own_states) == 3  # and a mark of the one that does not begin as zeros
    check(graph, "beside")


def test_converted_programs_keep_their_states(tmp_path: Path) -> None:
    from MNN.converter import convert

    convert(f"{file('counter')}.pt2", tmp_path / "counter.mnn")
    model = MNN.load(tmp_path / "counter.mnn")
    for inputs, wanted in runs("counter"):
        assert not compare(next(iter(model.run({"x": inputs[0]}).values())), wanted[0])


def test_inputs_of_scripts_are_described_to_from_torch_and_to_convert(tmp_path: Path) -> None:
    from MNN.converter import Options, convert
    from MNN.frontends import Hints

    (inputs, wanted), *_ = runs("scripted")
    path = f"{file('scripted')}.pt"
    for given in ({"x": (3, 4)}, [inputs[0]], {"x": ("batch", 4)}):
        model = MNN.from_torch(path, given, save=tmp_path / "saved.mnn")
        found = list(model.run({"x": inputs[0]}).values())
        assert all(not compare(a, b) for a, b in zip(found, wanted, strict=True))
    convert(path, tmp_path / "a.mnn", Options(hints=Hints(inputs={"x": "3x4"})))
    for name in ("a", "saved"):
        found = list(MNN.load(tmp_path / f"{name}.mnn").run({"x": inputs[0]}).values())
        assert all(not compare(a, b) for a, b in zip(found, wanted, strict=True))


def test_what_torch_makes_of_a_value_is_fixed() -> None:
    (inputs, _), *_ = runs("scripted")
    model = MNN.from_torch(f"{file('scripted')}.pt", {"x": (3, 4), "factor": 2.0})
    first = next(iter(model.run({"x": inputs[0]}).values()))
    plain = MNN.from_torch(f"{file('scripted')}.pt", {"x": (3, 4)})
    other = next(iter(plain.run({"x": inputs[0]}).values()))
    assert np.allclose(first, 4 * other)


def test_from_torch_says_what_it_takes() -> None:
    with pytest.raises(MNNError, match="a module of torch"):
        MNN.from_torch(3)


def test_weights_without_a_graph_are_told() -> None:
    with pytest.raises(FormatError, match=r"weights without a graph.*torch\.export"):
        load_graph(f"{file('weights')}.pt")


def test_bytes_are_read_as_files_are() -> None:
    data = Path(f"{file('shared')}.pt2").read_bytes()
    check(load_graph(data), "shared")


def test_weights_stay_in_the_file() -> None:
    from MNN.schema.files import origin

    graph = load_graph(f"{file('convolutions')}.pt2")
    held = [v.data for v in graph.values() if isinstance(v.data, np.ndarray) and v.data.size > 20]
    assert held
    assert all(origin(a) is not None for a in held)
