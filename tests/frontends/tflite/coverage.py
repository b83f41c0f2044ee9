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
- **Operators of TensorFlow** (`Flex...`, of converters told `SELECT_TF_OPS`) are converted as those of
  [its own files](tensorflow-coverage.md): recurrent layers of Keras for batches of any size among them, whose loops go
  over lists of tensors. Those that need a whole file of TensorFlow (functions, variables, tables) are refused.
- **Custom operators**: {custom}. Your own are registered with the domain `tflite`, see
  [custom operators](custom-operators.md); their options are those of a FlexBuffer's map.
"""

_MEASURED = """## Speed

One thread, LiteRT 2.3 with XNNPACK beside it: minimum CPU times of runs in turns, arrays in and arrays out, on noise;
errors are the largest difference from LiteRT over the largest output. AMD EPYC (Zen 4, AVX512), 2 cores shared with
other work, 2026-11-28; measure again with `python -m benchmarks.tflite_models`. The geometric mean of the ratios is
1.50, the lowest 1.02.

| model | ms | LiteRT, ms | ratio | error |
| --- | ---: | ---: | ---: | ---: |
| basic_pitch_tflite | 16.970 | 43.267 | 2.55 | 2e-06 |
| pose_detection | 9.432 | 10.984 | 1.16 | 4e-06 |
| pose_landmark_full | 9.918 | 15.552 | 1.57 | 1e-03 |
| hand_landmark_full | 6.083 | 8.330 | 1.37 | 3e-06 |
| hand_landmark_lite | 2.826 | 4.172 | 1.48 | 1e-05 |
| iris_landmark | 0.938 | 1.281 | 1.37 | 6e-07 |
| face_landmark | 0.679 | 1.153 | 1.70 | 5e-07 |
| face_detection_full_range_sparse | 2.522 | 3.700 | 1.47 | 8e-07 |
| face_detection_short_range | 0.696 | 1.087 | 1.56 | 1e-06 |
| palm_detection_full | 6.028 | 9.793 | 1.62 | 2e-06 |
| palm_detection_lite | 5.025 | 8.100 | 1.61 | 1e-06 |
| hand_recrop | 0.385 | 0.915 | 2.38 | 1e-07 |
| selfie_segmentation | 2.107 | 3.533 | 1.68 | 1e-04 |
| selfie_segmentation_landscape | 1.027 | 1.749 | 1.70 | 3e-05 |
| wakeword_melspectrogram | 0.459 | 0.768 | 1.67 | 1e-06 |
| wakeword_embedding_model | 0.540 | 1.117 | 2.07 | 6e-07 |
| wakeword_alexa | 0.013 | 0.013 | 1.03 | 1e-07 |
| wakeword_hey_jarvis | 0.014 | 0.016 | 1.16 | 1e-07 |
| wakeword_hey_mycroft | 0.013 | 0.014 | 1.09 | 0e+00 |
| wakeword_hey_rhasspy | 0.007 | 0.007 | 1.02 | 8e-08 |
| wakeword_okay_nabu | 0.006 | 0.007 | 1.16 | 0e+00 |

The wake words take 4 to 12 microseconds, most of them to read 0.2 to 0.8 MB of weights, which takes both engines about
as long. On `pose_landmark_full` noise is enlarged: XNNPACK is 3e-04 from LiteRT's reference kernels, this
engine 3e-04 to 7e-04 (two inputs), and the two up to 1e-03 from each other.

Architectures with drawn weights in every number format (`python benchmarks/export_tflite.py DIR` writes them,
`python -m benchmarks.tflite_models DIR/*.tflite` measures): geometric mean 1.45 without the models of 16-bit
activations, which XNNPACK leaves to LiteRT's reference kernels; the lowest 1.02. In `dynamic` models
LiteRT rounds activations to 8 bits where this engine multiplies floats; 8e-03 is one step of 8 bits.

| model | ms | LiteRT, ms | ratio | error |
| --- | ---: | ---: | ---: | ---: |
| efficientnet_lite0.dynamic | 6.772 | 17.502 | 2.58 | 6e-02 |
| efficientnet_lite0.float | 6.807 | 9.833 | 1.44 | 4e-06 |
| efficientnet_lite0.half | 6.695 | 9.945 | 1.49 | 5e-06 |
| efficientnet_lite0.int16 | 7.212 | 259.052 | 35.92 | 6e-03 |
| efficientnet_lite0.int8 | 4.852 | 5.198 | 1.07 | 8e-03 |
| mobilenet_v1.dynamic | 8.276 | 12.535 | 1.51 | 6e-02 |
| mobilenet_v1.float | 8.422 | 11.771 | 1.40 | 4e-06 |
| mobilenet_v1.half | 11.043 | 14.877 | 1.35 | 3e-06 |
| mobilenet_v1.int16 | 9.000 | 307.640 | 34.18 | 7e-03 |
| mobilenet_v1.int8 | 4.125 | 4.225 | 1.02 | 8e-03 |
| mobilenet_v2.dynamic | 5.758 | 13.870 | 2.41 | 7e-02 |
| mobilenet_v2.float | 5.402 | 7.293 | 1.35 | 4e-06 |
| mobilenet_v2.half | 5.217 | 7.273 | 1.39 | 4e-06 |
| mobilenet_v2.int16 | 6.148 | 216.403 | 35.20 | 6e-03 |
| mobilenet_v2.int8 | 3.050 | 3.396 | 1.11 | 8e-03 |
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
