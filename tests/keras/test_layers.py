"""Layers against answers that Keras gave (``record.py``), in both kinds of its files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.keras.coverage import PAGE, RECORDED, page
from tests.keras.recorded import Recorded, cases, difference

OLD = list(cases(Path(__file__).parent / "old_models.zip"))
CASES: dict[str, list[Recorded]] = defaultdict(list)
for _case in cases(RECORDED):
    CASES[_case.name.split("/")[0]].append(_case)


@pytest.mark.parametrize("family", CASES)
def test_layer_gives_what_keras_gives(family: str) -> None:
    found = {(case.name, case.file): difference(case) for case in CASES[family]}
    assert not any(found.values()), found


@pytest.mark.parametrize("case", OLD, ids=lambda case: f"{case.name}-{case.file}")
def test_models_of_keras_2_give_what_it_gives(case: Recorded) -> None:
    assert not difference(case)


def test_the_page_in_the_docs_is_what_would_be_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
