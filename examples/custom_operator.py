"""An operator of your own: registered in Python, used by an ONNX model, kept in a .mnn file.

    python examples/custom_operator.py [--out model.mnn]

Needs nothing but the package. The operator limits numbers softly, limit * tanh(x / limit). It is written in primitives,
so that it is compiled for this processor together with its neighbours. See docs/custom-operators.md for operators that
are numpy functions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

import MNN
from MNN.converter import convert
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.custom import CustomOperator, register_operator


@register_operator
class SoftClip(CustomOperator):
    """limit * tanh(x / limit), for ``com.example::SoftClip`` with the attribute ``limit``."""

    domain = "com.example"
    attributes = {"limit": 1.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x = inputs[0]
        assert x is not None  # only optional inputs can be
        limit = b.like(self.float_attr(node, "limit"), x)
        return [b.op("mul", limit, b.op("tanh", b.op("div", x, limit)))]


def model() -> ModelProto:
    """y = SoftClip(x + 1), for any number of rows."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    nodes = [
        helper.make_node("Add", ["x", "one"], ["sum"]),
        helper.make_node("SoftClip", ["sum"], ["y"], domain="com.example", limit=2.0),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in "xy")
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(helper.make_graph(nodes, "example", [x], [y], [one]), opset_imports=domains)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to keep the .mnn file")
    options = parser.parse_args()
    x = np.linspace(-8, 8, 12, dtype=np.float32).reshape(3, 4)
    expected = 2 * np.tanh((x + 1) / 2)
    with tempfile.TemporaryDirectory() as folder:
        target = options.out or Path(folder) / "model.mnn"
        convert(model().SerializeToString(), target)
        found = MNN.load(target).run({"x": x})["y"]  # the class must be registered wherever the file is run
    print(np.array2string(found, precision=4))
    print(f"largest difference from numpy: {np.abs(found - expected).max():.1e}")


if __name__ == "__main__":
    main()
