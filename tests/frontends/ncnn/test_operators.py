"""Every layer that ncnn runs, on random models, beside ncnn. ``MNN_NCNN_CASES`` sets how many of each (2 by default);
``python -m tests.frontends.ncnn.trial --cases 100`` runs many and lists what differs."""

from __future__ import annotations

import os

import pytest

from MNN.frontends.ncnn.layer_types import NAMES
from MNN.frontends.ncnn.registry import TABLE
from MNN.frontends.ncnn.unsupported import ADVICE
from tests.frontends.ncnn.cases import FAMILIES
from tests.frontends.ncnn.compare import ours
from tests.frontends.ncnn.coverage import APART, PAGE, page
from tests.frontends.ncnn.peer import answers
from tests.frontends.ncnn.trial import made, trial

CASES = int(os.environ.get("MNN_NCNN_CASES", "2"))
BINARY = (
    "Convolution",
    "Reshape expression",
    "Slice",
    "Concat",
    "InnerProduct",
    "LSTM",
    "PriorBox",
    "Spectrogram",
    "Flip",
)


@pytest.fixture(scope="module")
def wrong() -> dict[str, list[str]]:
    """What differs, by family."""
    return trial(list(FAMILIES), range(CASES))


@pytest.mark.parametrize("name", FAMILIES)
def test_random_models_give_what_ncnn_gives(wrong: dict[str, list[str]], name: str) -> None:
    assert not wrong[name], "\n".join(wrong[name])


def test_every_layer_is_supported_or_has_advice() -> None:
    assert set(TABLE.known()) <= set(NAMES)
    assert set(NAMES) - set(TABLE.known()) == set(ADVICE)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.frontends.ncnn.coverage"


def test_nearly_all_supported_layers_are_compared() -> None:
    compared = {name.split()[0] for name in FAMILIES}
    assert set(TABLE.known()) - compared == set(APART)


def test_binary_files_are_the_same_models() -> None:
    """ncnn reads our ``.param.bin`` as it reads the text, and so do we."""
    cases = {name.replace(" ", "-"): made(name, 1) for name in BINARY}
    text, binary = (answers({k: c.model for k, c in cases.items()}, binary=b) for b in (False, True))
    for key, case in cases.items():
        assert not binary[key].error, key
        found = ours(case.model, binary=True)
        for name, expected in text[key].outputs.items():
            for other in (binary[key].outputs[name], found[name]):  # the text has seven digits of each number
                assert abs(other - expected).max() <= 1e-4 * abs(expected).max(), key
