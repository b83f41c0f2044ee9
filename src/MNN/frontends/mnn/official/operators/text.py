"""The official form of the operators of ``ops/text``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import STRINGS
from MNN.frontends.mnn.official.record import Official

OPERATORS: dict[str, Official] = {
    "StringConcat": Official(advice=STRINGS),
    "StringNormalizer": Official(advice=STRINGS),
    "StringSplit": Official(advice=STRINGS),
    "TfIdfVectorizer": Official(advice=STRINGS),
}
