"""ncnn models (``.param`` with ``.bin``) to graphs, without ncnn. One file per operator family fills the registry;
:func:`load` is the way in."""

from MNN.frontends.ncnn.load import load

__all__ = ["load"]
