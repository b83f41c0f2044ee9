"""How many columns are taken at a time, and whether tiles of weights pass by the first-level cache."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.amx.grouping import grouping
from MNN.backends.cpu.amx.layout import rows_layout
from MNN.backends.cpu.amx.spec import PANEL
from tests.backends.cpu.amx.test_tiles import amx_target


@pytest.mark.parametrize("wide", [False, True])
def test_when_tiles_pass(wide: bool) -> None:
    """B's tiles pass by the first-level cache where it cannot hold them and A's."""
    k, n = (768, 256) if wide else (64, 64)
    layout = rows_layout(np.arange(128) * k, np.zeros(1, np.int64), k, 128)
    assert grouping(amx_target(), n, n, layout, 1).passing == wide


@pytest.mark.parametrize(("k", "n", "columns"), [(64, 1024, 256), (128, 256, 128), (1024, 256, 256)])
def test_panels_stay_near_where_they_can(k: int, n: int, columns: int) -> None:
    """As many as the first-level cache holds beside a pair's rows and sums, where every pair takes them again; as many
    as before where it holds none of them, and of rows that come once."""
    target = dataclasses.replace(amx_target(), l1_bytes=48 << 10, l2_bytes=8 << 20)
    for rows, wanted in ((512, columns), (PANEL, min(n, 256))):
        layout = rows_layout(np.arange(rows) * k, np.zeros(1, np.int64), k, rows)
        groups = grouping(target, n, n, layout, 1, overlap=True)
        assert groups.group == wanted
        assert groups.held == 2 * PANEL * groups.line
        assert groups.passing == (k > 128 or (rows == PANEL and k > 64))
