"""Every layer on random parameters, beside numpy and OpenCV. ``MNN_CAFFE_CASES`` sets how many of each (4 by default);
``python -m tests.frontends.caffe.trial --cases 100`` runs many and lists what differs."""

from __future__ import annotations

import os

import pytest

from MNN.frontends.caffe.registry import table
from tests.frontends.caffe.cases import FAMILIES
from tests.frontends.caffe.coverage import PAGE, page
from tests.frontends.caffe.trial import trial

CASES = int(os.environ.get("MNN_CAFFE_CASES", "4"))


@pytest.fixture(scope="module")
def wrong() -> dict[str, list[str]]:
    """What differs, by family: all are computed at once, as OpenCV starts slowly."""
    return trial(list(FAMILIES), range(CASES))


@pytest.mark.parametrize("name", FAMILIES)
def test_layers_give_what_others_do(name: str, wrong: dict[str, list[str]]) -> None:
    assert not wrong[name], "\n".join(wrong[name])


def test_every_layer_is_tried() -> None:
    untried = set(table.known()) - {name.split(" ")[0] for name in FAMILIES}
    assert not untried - {"InfogainLoss", "Silence", "DepthwiseConv", "DeconvolutionDepthwise", "NormalizeBBox"}, (
        untried
    )


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.frontends.caffe.coverage"
