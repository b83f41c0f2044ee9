"""Speculative decoding: a drafter proposes tokens, the model checks them in one run, and takes those that it would have
written itself (Leviathan et al. 2022, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318).

Drafters have one interface, :class:`Drafter`: n-grams of the text (:class:`Lookup`), a smaller model
(:class:`ModelDrafter`), the model itself without some of its layers (:func:`skipping`), and heads that were trained for
it (:mod:`MNN.llm.speculation.heads`). :func:`drafter_of` makes
one of what a user says.
"""

from __future__ import annotations

from MNN.llm.speculation.draft import Draft, Drafter, Drafting
from MNN.llm.speculation.lookup import Lookup
from MNN.llm.speculation.model import ModelDrafter
from MNN.llm.speculation.opening import drafter_of, skipping

__all__ = ["Draft", "Drafter", "Drafting", "Lookup", "ModelDrafter", "drafter_of", "skipping"]
