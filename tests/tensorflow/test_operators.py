"""Operators against answers that TensorFlow gave (``record.py``)."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.tensorflow.coverage import PAGE, RECORDED, page
from tests.tensorflow.recorded import Recorded, cases, difference

CASES: dict[str, list[Recorded]] = defaultdict(list)
for _case in cases(RECORDED):
    CASES[_case.name.split("/")[0]].append(_case)


@pytest.mark.parametrize("op", CASES)
def test_operator_gives_what_tensorflow_gives(op: str) -> None:
    found = {case.name: difference(case) for case in CASES[op]}
    assert not any(found.values()), found


def test_the_page_in_the_docs_is_what_would_be_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
