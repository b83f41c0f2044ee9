"""Writes docs/caffe-coverage.md: ``python -m tests.frontends.caffe.coverage``."""

from __future__ import annotations

from pathlib import Path

from MNN.frontends.caffe.inputs import SOURCES
from MNN.frontends.caffe.operators.losses import READ_NOTHING
from MNN.frontends.caffe.registry import table
from tests.frontends.caffe.cases import FAMILIES, Draw

PAGE = Path(__file__).parents[3] / "docs" / "caffe-coverage.md"
_HEAD = """# Caffe networks

<!-- written by python -m tests.frontends.caffe.coverage; do not edit -->

Caffe's networks are read without Caffe. A network is two files, its description (`deploy.prototxt`) and its weights
(`net.caffemodel`); give either, and the other one is found beside it: `mnn convert net.caffemodel net.mnn`,
`mnn run deploy.prototxt`, `MNN.load("net.caffemodel")`. Where the description lies elsewhere,
`mnn convert net.caffemodel net.mnn --prototxt elsewhere/deploy.prototxt` takes it, and so does
`mnnconvert -f CAFFE --modelFile net.caffemodel --prototxt deploy.prototxt --MNNModel net.mnn`.

Looked for is a file of the same name, then one called `deploy`, then the only one in the folder. Where there is no
description, the network within the caffemodel is taken, which is the one that was trained. A description without
weights is an error that names the layers that need some.

- **Older files**: layers of all three forms (`layer`, `layers` with types in capitals, `layers` with a `layer` inside),
  `input_dim`, weights with four sizes, in f64 or in half precision (NVIDIA's).
- **Phases**: layers of the test phase are taken, by the rules in `include` and `exclude` and the network's own `state`.
- **Training networks**: layers that read data become inputs, whose shape follows from crops, batches and the first
  convolution, or is said with `--input-shape data=1x3x227x227`. `SoftmaxWithLoss` gives the probabilities; measures and
  other losses ({dropped}) are left out, and what they would read are outputs.
- **Names**: inputs and outputs have the blobs' names. A blob that layers change in place has its name after the last.
- **Pooling** rounds up as Caffe does, and lets the last window begin inside of the padded blob only.
- **Detections** (`DetectionOutput`) are rows of the sample's number, label, score and corners, the best of a sample
  first; where nothing is found there are none (Caffe gives one row of -1).
- **Recurrent layers** begin with zeros in every run, unless states are handed in and out (`expose_hidden: true`).
- **Pictures**: `transform_param` of data layers is not part of a network. Subtract the mean yourself, in the order of
  channels of the training (blue first as a rule); `MNN.frontends.caffe.read_mean("mean.binaryproto")` reads mean files.
- **Your own layers**: register an operator with the domain `caffe`, named like the layer's type (or the class of a
  Python layer); its attributes are the fields of the layer's messages, its operands the blobs, then the weights. See
  [custom operators](custom-operators.md).

Parameters that a layer here does not know are an error, not ignored.

## By layer

Each is compared on random parameters (`python -m tests.frontends.caffe.trial --cases 100`): with OpenCV 4.11, or with
its definition written out in numpy where OpenCV has it not, or not as Caffe does. So are AlexNet, VGG, GoogLeNet,
ResNet, SqueezeNet, MobileNet-SSD, FCN and YOLOv3 with random weights, beside OpenCV.
"""


def page() -> str:
    """The page as it should be."""
    families = {name.split(" ")[0]: name for name in FAMILIES}
    rows = []
    for kind in sorted(table.known()):
        case = FAMILIES[families[kind]](Draw(0)) if kind in families else None
        how = "as the layers that it is a name of" if case is None else "numpy" if case.wanted else "OpenCV"
        rows.append(f"| {kind} | {how} |")
    rows += [f"| {kind} | an input of the network |" for kind in sorted(SOURCES)]
    rows += [f"| {kind} | left out |" for kind in sorted(READ_NOTHING)]
    listed = "\n".join(["| layer | compared with |", "| --- | --- |", *rows])
    return f"{_HEAD.format(dropped=', '.join(sorted(READ_NOTHING)))}\n{listed}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
