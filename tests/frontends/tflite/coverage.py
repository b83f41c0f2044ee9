"""Writes docs/tflite-coverage.md: ``python -m tests.frontends.tflite.coverage``."""

from __future__ import annotations

from pathlib import Path

from MNN.frontends.tflite.registry import CUSTOM, TABLE
from MNN.frontends.tflite.schema import TFLITE
from MNN.frontends.tflite.unsupported import ADVICE
from tests.frontends.tflite.cases import FAMILIES, FORMS

PAGE = Path(__file__).parents[3] / "docs" / "tflite-coverage.md"
_HEAD = """# TensorFlow Lite operators

<!-- written by python -m tests.frontends.tflite.coverage; do not edit -->

`.tflite` files (TensorFlow Lite, now LiteRT) are read without TensorFlow: `mnn convert model.tflite model.mnn`,
`mnn run model.tflite`, `MNN.load("model.tflite")`. Inputs and outputs keep the names and shapes that the file has, so
images are NHWC; inside, permutations cancel.

Of the {builtin} builtin operators of the schema **{known} are supported**, and {compared} of these are compared with
LiteRT {version} on random models (`python -m tests.frontends.tflite.trial --cases 100` runs more of them).

- **Quantised models** keep their integers: convolutions and products of 8 bits are computed in integers, results
  are at most one step from LiteRT's, and what only moves is exact. `EXP`, `LOG`, `RSQRT`, `TANH`, `LOGISTIC` and
  `SOFTMAX` of 16 bits interpolate in tables as LiteRT's reference kernels do: all 65,536 integers give the same bits,
  at random scales of all sizes. So do `ABS`, `LEAKY_RELU`, `PRELU`, `RELU` and its like of 8 and 16 bits,
  `HARD_SWISH` and `SQUARED_DIFFERENCE` of bytes, `QUANTIZE` between bytes, `L2_NORMALIZATION` and `DIV` of `uint8`,
  `SVDF` and `UNIDIRECTIONAL_SEQUENCE_LSTM` of integers, and convolutions (depthwise ones too) by weights of 4 bits,
  which round twice as those kernels do. What those kernels do not define is right here: quotients of less than half a
  step are zero (LiteRT gives any byte), and peepholes of an LSTM with a projection reach all units.
  `RESIZE_BILINEAR` places pixels at whole 1024ths as they do (XNNPACK at others: a few steps apart where a picture
  grows much). Convolutions (depthwise and transposed ones too), products and means of bytes have the bits of XNNPACK,
  which LiteRT takes for them: it rounds once. LiteRT's reference kernels, which round twice, lie a step away for one
  number in some hundreds, and so does LiteRT itself in forms that XNNPACK does not take: transposed convolutions whose
  filter is smaller than the stride, and `uint8` depthwise ones of one pixel with several filters a channel.
  Activations of 16 bits are multiplied as integers where their sums fit in 32 bits and
  the processor sums two products at once, else in floats between their integers. Beside float inputs, convolutions by
  integers (dynamic range), depthwise ones too, quantise what they
  are given to the range of each sample and multiply bytes: numbers are those of LiteRT's reference kernels, but
  where a number lies half-way between two steps. (XNNPACK, which LiteRT takes where it can, has other steps for
  windows of one pixel.) Matrices of integers (also of 4 bits, and in blocks) are multiplied by rows that are
  rounded to 8 bits where the processor multiplies bytes; filters of transposed convolutions, and matrices within
  loops, by the floats as they are.
- **Weights** in half precision, sparse (`DENSIFY`) and in other files (external buffers) are read as they are.
- **Models that remember**: resource variables and the states of recurrent layers are [states](states.md) of the model
  that `MNN.load` gives; first values that `CALL_ONCE` sets are kept. Branches and loops may assign
  resource variables; a recurrent layer with a state within them is refused (LiteRT forgets it whenever a branch runs).
- **Control flow**: `IF`, `WHILE`, `CALL`, several subgraphs. Signatures are in `Graph.meta["signatures"]`;
  `MNN.frontends.tflite.load(path, signature="decode")` takes another entry than the first.
- **Operators of TensorFlow** (`Flex...`, of converters told `SELECT_TF_OPS`) are converted as those of
  [its own files](tensorflow-coverage.md): recurrent layers of Keras for batches of any size among them, whose loops go
  over lists of tensors. Those that need a whole file of TensorFlow (functions, variables, tables) are refused.
- **Custom operators**: {custom}. Your own are registered with the domain `tflite`, see
  [custom operators](custom-operators.md); their options are those of a FlexBuffer's map.
"""

_MEASURED = """## Speed

Beside LiteRT, in every number format: [TensorFlow Lite's files, beside LiteRT](tflite-speed.md).
"""


def page() -> str:
    """The page as it should be."""
    builtin = [op for op in TFLITE.enum("BuiltinOperator").values if op != "CUSTOM"]
    known = set(TABLE.known())
    custom = sorted(op.removeprefix(CUSTOM) for op in known if op.startswith(CUSTOM))
    supported = [op for op in builtin if op in known]
    head = _HEAD.format(
        builtin=len(builtin), known=len(supported), compared=sum(op in FAMILIES for op in supported), version="2.3",
        custom=", ".join(f"`{op}`" for op in custom),
    )  # fmt: skip
    rows = []
    for op in sorted(builtin):
        quantised = any(name.startswith(f"{op} ") for name in FAMILIES | FORMS)
        how = "LiteRT, quantised too" if quantised else "LiteRT" if op in FAMILIES else "LiteRT does not run it"
        rows.append(f"| {op} | {'yes' if op in known else 'no'} | {how if op in known else ADVICE[op]} |")
    table = "\n".join(["| operator | supported | compared with, or what to do |", "| --- | --- | --- |", *rows])
    return f"{head}\n{_MEASURED}\n## By operator\n\n{table}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
