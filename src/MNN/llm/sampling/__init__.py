"""The choice of the next token: distributions narrowed, penalties, stop strings, log-probabilities."""

from __future__ import annotations

from MNN.llm.sampling.options import ORDER, SamplingOptions
from MNN.llm.sampling.sampler import LogProbability, Sampler, log_probability
from MNN.llm.sampling.stopping import StopStrings

__all__ = ["ORDER", "LogProbability", "Sampler", "SamplingOptions", "StopStrings", "log_probability"]
