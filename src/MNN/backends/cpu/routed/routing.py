"""Which rows take which matrix, found at run time: a counting sort of rows by what they choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.gemm.routed_rows import WORDS
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


@dataclass(frozen=True)
class RoutingSpec(GeneratedSpec):
    """Writes what routed rows are found by (:mod:`MNN.backends.cpu.gemm.routed_rows`): ``rows_a`` and ``rows_c``, the
    offsets ``rows_x`` and ``rows_y`` of rows in the order of their matrices, and ``units`` of at most ``mb`` rows,
    ``n_units`` of them, the last ones empty.

    Slots: these (i32), ``index`` with the offsets ``rows_i`` of each row's choice, ``m`` rows, ``matrices``, and
    ``error``, into which 1 is stored where a choice is not within 0..matrices-1 (it then counts as 0). One block does
    everything, in time that follows ``m`` and ``matrices``.
    """

    shaped: ClassVar[bool] = True

    index: DType

    def slots(self) -> tuple[str, ...]:
        tables = "index", "rows_i", "rows_x", "rows_y", "rows_a", "rows_c", "units"
        return *tables, "m", "matrices", "mb", "n_units", "error"

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """An i64 for each matrix: how many rows take it, then where the next of them goes."""
        return 8 * args["matrices"]

    def traffic(self, args: Arguments) -> dict[str, int]:
        m = number(args, "m")
        found = dict.fromkeys(("rows_i", "rows_x", "rows_y", "rows_a", "rows_c"), 4 * m)
        return found | {"index": m * self.index.size, "units": 4 * WORDS * number(args, "n_units")}


__all__ = ["RoutingSpec"]
