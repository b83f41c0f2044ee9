"""Random models by layer; importing the files enters their families."""

from tests.frontends.ncnn.cases import arranging, elementwise, images, products, quantized
from tests.frontends.ncnn.cases.draw import FAMILIES, Case, Draw

__all__ = ["FAMILIES", "Case", "Draw", "arranging", "elementwise", "images", "products", "quantized"]
