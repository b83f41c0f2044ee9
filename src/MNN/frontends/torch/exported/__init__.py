"""Programs of ``torch.export`` (``.pt2``)."""

from MNN.frontends.torch.exported.load import load

__all__ = ["load"]
