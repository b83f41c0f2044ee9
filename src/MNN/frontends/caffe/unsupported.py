"""Layers that are not supported, and what to do about each."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.frontends.common.problems import REGISTER

DOMAIN = "caffe"
"""Where users register operators of their own for layers (``MNN.ops.custom``)."""
_OWN = f"{REGISTER} (domain '{DOMAIN}')"

ADVICE: Mapping[str, str] = {
    "Python": f"the layer is a program that the file only names: {REGISTER} (domain '{DOMAIN}', named after its class)",
}


def advice(kind: str) -> str:
    """What to do about a type of layer."""
    return ADVICE.get(kind, f"take it out of the prototxt where it is for training only, or {_OWN}")
