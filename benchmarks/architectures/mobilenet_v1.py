"""MobileNetV1 (Howard et al. 2017, arXiv:1704.04861), width 1.0, input 224."""

from __future__ import annotations

from torch import nn

from .layers import Head, conv_norm
from .weights import noise, randomise

# (output channels, stride) of each depthwise-separable block
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


def mobilenet_v1(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2)]
    cin = 32
    for cout, stride in BLOCKS:
        layers += [conv_norm(cin, cin, 3, stride, groups=cin), conv_norm(cin, cout)]
        cin = cout
    layers.append(Head(cin))
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
