"""Operators against answers that TensorFlow gave (``record.py``)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.tensorflow.coverage import PAGE, RECORDED, page
from tests.tensorflow.recorded import Recorded, cases, difference

PATTERNS = {case.name: case for case in cases(Path(__file__).with_name("patterns.zip"))}
CASES: dict[str, list[Recorded]] = defaultdict(list)
for _case in cases(RECORDED):
    CASES[_case.name.split("/")[0]].append(_case)


@pytest.mark.parametrize("op", CASES)
def test_operator_gives_what_tensorflow_gives(op: str) -> None:
    found = {case.name: difference(case) for case in CASES[op]}
    assert not any(found.values()), found


@pytest.mark.parametrize("name", PATTERNS)
def test_program_gives_what_tensorflow_gives(name: str) -> None:
    assert not difference(PATTERNS[name])


def test_the_page_in_the_docs_is_what_would_be_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
