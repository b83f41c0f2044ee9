"""What the tables of :class:`MNN.backends.cpu.strassen.spec.StrassenSpec` hold (i64)."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

STAGE = Record(
    "stage",
    word("x_rows", "elements from a panel of B to the first term"),
    word("x_panel", "and panels to it"),
    word("y_rows", "the same for the second term"),
    word("y_panel", "the same for the second term"),
    word("keep", "mask of the second term's bits: 0 where there is none"),
    word("flip", "bits of it that flip: the sign, or none"),
)
MOST_USES = 4
USES = 1 + 2 * MOST_USES
"""i64 in an entry of the table of uses: how many, then tiles of C and signs."""

__all__ = ["MOST_USES", "STAGE", "USES"]
