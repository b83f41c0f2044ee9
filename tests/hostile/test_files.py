"""Files cut short, damaged and edited: each ends in a right load or an MNNError, in time, in memory, alive.

Every case is loaded, planned and run, in turns by the reference implementation, with compiled kernels, and with
kernels that test every access, or converted.
A case that fails is repeated with ``python -m tests.hostile.child FILE FORM WAY CASE``.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from MNN.frontends.mnn import write_mnn
from MNN.frontends.onnx.load import load
from tests import zoo
from tests.hostile.attempt import attempt
from tests.hostile.child import CUTS, SECONDS
from tests.hostile.models import FORMATS, MODELS, model
from tests.hostile.operators import files
from tests.hostile.watch import watch

MUTATIONS = 1200
EDITS = 240
PROCESSES = 2
WAYS = "meaning,kernels,meaning,convert,meaning,convert,checked"


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", MODELS)
def test_damaged_files_are_refused_or_right(name: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.{form}"
    path.write_bytes(model(name, form))
    kinds = {"cut": CUTS, "mutate": MUTATIONS, "edit": EDITS}
    commands = [
        ["tests.hostile.child", str(path), form, WAYS, *(f"{k}:{i}-{n - 1}/{PROCESSES}" for k, n in kinds.items())]
        for i in range(PROCESSES)
    ]
    outcome = watch(commands)
    assert not outcome.bad, f"{len(outcome.bad)} bad cases of {path.name}:\n" + "\n".join(outcome.bad[:20])
    assert outcome.cases == sum(kinds.values())
    assert outcome.slowest[0] < SECONDS + 1, outcome.slowest
    print(f"\n{path.name}: {dict(sorted(outcome.ended.items()))}, slowest {outcome.slowest}")
    # The damage is of both kinds: what the verifiers catch, and what only planning or running can tell.
    assert outcome.ended["refused"] > 120
    assert outcome.ended["ran"] > 40
    assert outcome.ended["refused when planned"] > 4


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_real_model_is_refused_or_right(form: str, tmp_path: Path) -> None:
    """Fewer cases, of a model that someone trained and published."""
    path = tmp_path / f"swift_f0.{form}"
    if form == "onnx":
        path.write_bytes(zoo.path("swift_f0").read_bytes())
    else:
        write_mnn(load(zoo.path("swift_f0")), path)
    cases = ["cut:0-199/10", "mutate:0-79", "edit:0-39"]
    outcome = watch([["tests.hostile.child", str(path), form, "meaning,kernels", *cases]])
    assert not outcome.bad, f"{len(outcome.bad)} bad cases of {path.name}:\n" + "\n".join(outcome.bad[:20])
    assert outcome.cases == 140
    assert outcome.ended["ran"] > 10


@pytest.mark.slow
def test_operators_with_senseless_numbers_are_refused_or_right() -> None:
    count = len(files())
    borders = [count * i // PROCESSES for i in range(PROCESSES + 1)]  # lies about one operator share its kernels
    ways = "checked,kernels,checked,convert"
    commands = [
        ["tests.hostile.child", "operators", "onnx", ways, f"case:{begin}-{end - 1}"]
        for begin, end in itertools.pairwise(borders)
    ]
    outcome = watch(commands)
    assert not outcome.bad, f"{len(outcome.bad)} bad cases:\n" + "\n".join(outcome.bad[:20])
    assert outcome.cases == count > 3000
    assert outcome.ended["ran"] > 500
    assert outcome.ended["refused when planned"] > 500


@pytest.mark.parametrize("way", ["meaning", "kernels"])
def test_operators_that_are_attacked_run_as_they_should_be(way: str) -> None:
    """The lies are near the truth: what they are derived from does run."""
    whole = [(name, data) for name, data in files() if ":0 " in name]
    found = {name: attempt(data, "onnx", way) for name, data in whole}
    assert {n: e for n, e in found.items() if e != "ran"} == {}
