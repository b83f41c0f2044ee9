"""Random networks of one layer or a few, by family; every file of this room adds some."""

from MNN.discovery import import_modules
from tests.frontends.caffe.cases.draw import FAMILIES, Case, Draw

for _ in import_modules(__name__):
    pass

__all__ = ["FAMILIES", "Case", "Draw"]
