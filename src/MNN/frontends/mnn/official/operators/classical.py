"""The official form of the operators of ``ops/classical``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import STRINGS
from MNN.frontends.mnn.official.record import Official

OPERATORS: dict[str, Official] = {
    "LabelEncoder": Official(advice=STRINGS),
    "TreeEnsemble": Official(advice="the official engine has no decision trees: use this engine"),
}
