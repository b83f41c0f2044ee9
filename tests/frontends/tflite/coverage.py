"""Writes docs/tflite-coverage.md: ``python -m tests.frontends.tflite.coverage``."""

from __future__ import annotations

from pathlib import Path

from MNN.frontends.tflite.registry import CUSTOM, TABLE
from MNN.frontends.tflite.schema import TFLITE
from MNN.frontends.tflite.unsupported import ADVICE
from tests.frontends.tflite.cases import FAMILIES

PAGE = Path(__file__).parents[3] / "docs" / "tflite-coverage.md"
_HEAD = """# TensorFlow Lite operators

<!-- written by python -m tests.frontends.tflite.coverage; do not edit -->

`.tflite` files (TensorFlow Lite, now LiteRT) are read without TensorFlow: `mnn convert model.tflite model.mnn`,
`mnn run model.tflite`, `MNN.load("model.tflite")`. Inputs and outputs keep the names and shapes that the file has, so
images are NHWC; inside, permutations cancel.

Of the {builtin} builtin operators of the schema **{known} are supported**, and {compared} of these are compared with
LiteRT {version} on random models (`python -m tests.frontends.tflite.trial --cases 100` runs more of them).

- **Quantised models** keep their integers: convolutions and products of 8 bits are computed in integers, results are at
  most one step from LiteRT's, and what only moves is exact. Activations of 16 bits are computed in floats between
  their integers. Integer weights beside float inputs (dynamic range, 4 bits, blocks) are multiplied by the floats as
  they are, which LiteRT rounds to 8 bits first.
- **Weights** in half precision, sparse (`DENSIFY`) and in other files (external buffers) are read as they are.
- **Models that remember**: resource variables and the states of recurrent layers are [states](states.md) of the model
  that `MNN.load` gives; first values that `CALL_ONCE` sets are kept. Within branches and loops variables can
  only be read.
- **Control flow**: `IF`, `WHILE`, `CALL`, several subgraphs. Signatures are in `Graph.meta["signatures"]`;
  `MNN.frontends.tflite.load(path, signature="decode")` takes another entry than the first.
- **Custom operators**: {custom}. Your own are registered with the domain `tflite`, see
  [custom operators](custom-operators.md); their options are those of a FlexBuffer's map.
"""

_MEASURED = """## Speed

MediaPipe's models on one thread, LiteRT 2.3 with XNNPACK beside it: minimum CPU times of runs in turns, on noise;
errors are the largest difference from LiteRT over the largest output. (On `pose_landmark_full` XNNPACK is up to 6e-04
from LiteRT's reference kernels, and this engine up to 7e-04: on noise the network enlarges rounding.) Intel(R) Xeon(R)
Processor, 2 cores shared with other work, 2026-11-25; measure again with `python -m benchmarks.tflite_models`.
The geometric mean of the ratios is 1.46, the lowest 1.20.

| model | ms | LiteRT, ms | ratio | error |
| --- | ---: | ---: | ---: | ---: |
| pose_detection | 7.07 | 8.50 | 1.20 | 5e-06 |
| pose_landmark_full | 11.34 | 14.10 | 1.24 | 3e-04 |
| hand_landmark_full | 5.28 | 7.01 | 1.33 | 6e-06 |
| hand_landmark_lite | 2.65 | 3.74 | 1.41 | 6e-06 |
| iris_landmark | 0.77 | 1.02 | 1.32 | 6e-07 |
| face_landmark | 0.70 | 1.08 | 1.55 | 5e-07 |
| face_detection_full_range_sparse | 2.21 | 3.01 | 1.36 | 1e-06 |
| face_detection_short_range | 0.69 | 1.01 | 1.46 | 6e-07 |
| palm_detection_full | 5.07 | 8.17 | 1.61 | 1e-06 |
| palm_detection_lite | 4.23 | 7.09 | 1.68 | 1e-06 |
| hand_recrop | 0.49 | 0.96 | 1.96 | 7e-08 |
| selfie_segmentation | 2.40 | 3.47 | 1.44 | 1e-04 |
| selfie_segmentation_landscape | 1.15 | 1.89 | 1.64 | 2e-05 |
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
        quantised = any(name.startswith(f"{op} ") for name in FAMILIES)
        how = "LiteRT, quantised too" if quantised else "LiteRT" if op in FAMILIES else "LiteRT does not run it"
        rows.append(f"| {op} | {'yes' if op in known else 'no'} | {how if op in known else ADVICE[op]} |")
    table = "\n".join(["| operator | supported | compared with, or what to do |", "| --- | --- | --- |", *rows])
    return f"{head}\n{_MEASURED}\n## By operator\n\n{table}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
