"""Random models of one operator each. A family is a function from a :class:`~tests.frontends.tflite.cases.draw.Draw` to
a :class:`~tests.frontends.tflite.cases.draw.Case`, entered under the operator's name."""

from __future__ import annotations

from tests.frontends.tflite.cases import (
    arranging,
    assigning,
    creating,
    dynamic,
    elementwise,
    images,
    products,
    quantized,
    quantized_exact,
    quantized_forms,
    quantized_moving,
    quantized_tables,
    recurrent,
    reducing,
    stablehlo,
)
from tests.frontends.tflite.cases.draw import FAMILIES, FORMS, Case, Draw

__all__ = [
    "FAMILIES", "FORMS", "Case", "Draw", "arranging", "assigning", "creating", "dynamic", "elementwise", "images",
    "products", "quantized", "quantized_exact", "quantized_forms", "quantized_moving", "quantized_tables", "recurrent",
    "reducing", "stablehlo",
]  # fmt: skip
