"""TorchScript archives (``.pt``)."""

from MNN.frontends.torch.script.load import load

__all__ = ["load"]
