"""The official form of the operators of ``ops/training``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import RANDOM
from MNN.frontends.mnn.official.record import Official

OPERATORS: dict[str, Official] = {
    "Bernoulli": Official(advice=RANDOM),
    "Multinomial": Official(advice=RANDOM),
    "RandomNormal": Official(table="RandomUniform"),
    "RandomUniform": Official(table="RandomUniform"),
}
