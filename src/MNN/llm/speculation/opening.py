"""From what a user says to a drafter."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from MNN.errors import MNNError, UnsupportedError
from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.engine.loaded import LoadedWeights
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.files import Weights, open_weights
from MNN.llm.models.families import usual
from MNN.llm.speculation.draft import Drafter
from MNN.llm.speculation.lookup import Lookup
from MNN.llm.speculation.model import ModelDrafter
from MNN.llm.text import Tokenizer
from MNN.runtime.config import Config

_NUMBERED = re.compile(r"(\.layers\.|\.h\.)(\d+)(\.)")
_BY_LAYER = ("layer_types", "mlp_only_layers", "no_rope_layers")
"""What configurations list layer by layer."""


class Model(Protocol):
    """What drafts are made with: a :class:`MNN.llm.LanguageModel`."""

    decoder: Decoder
    tokenizer: Tokenizer
    conversation: Text


def drafter_of(draft: str | Model | Drafter, tokenizer: Tokenizer, heads: Drafter | None = None) -> Drafter:
    """The drafter that a user means: ``"lookup"``, ``"heads"``, another model, or one of their own.

    ``tokenizer``: of the model that checks; ``heads``: those that it was loaded with. Raises :class:`MNNError` for
    other names, and for a model with others.
    """
    if draft == "lookup":
        return Lookup()
    if draft == "heads":
        if heads is None:
            raise MNNError(
                "the model was loaded without heads that draft; name their folder, load(path, heads=FOLDER) or "
                "--draft heads:FOLDER"
            )
        return heads
    if isinstance(draft, str):
        raise MNNError(f"there is no draft {draft!r}; give 'lookup', 'heads', or a model that was loaded")
    if isinstance(draft, Drafter):
        return draft
    if not hasattr(draft, "decoder"):
        raise MNNError(f"{draft!r:.80} cannot draft; give 'lookup', or a model that was loaded")
    known = tokenizer.core.get_vocab()
    other = next((word for word, at in draft.tokenizer.core.get_vocab().items() if known.get(word, at) != at), None)
    if other is not None:
        raise MNNError(
            f"{draft!r} cannot draft for this model: its tokenizer is another one (the token {other!r:.40} has another "
            "number)"
        )
    return ModelDrafter(draft.decoder, text=draft.conversation)


def skipping(
    path: str | os.PathLike[str], layers: Sequence[int], threads: int, precision: str = "normal",
    bits: int | None = None, max_length: int | None = None, activation_bits: int | None = None,
) -> ModelDrafter:  # fmt: skip
    """A model that drafts for itself with some of its ``layers`` (Zhang et al. 2023, arXiv:2309.08168). Other arguments
    are those of :func:`MNN.llm.load`; nothing is kept on disk.

    Raises :class:`MNNError` for layers that it does not have, :class:`UnsupportedError` for models whose layers are not
    all alike, and for folders of the official engine.
    """
    opened = open_model(path)
    if not isinstance(opened, Opened):
        raise UnsupportedError(f"{path}: layers of the official engine's folders cannot be left out")
    count = usual(opened.config).layers
    kept = sorted(set(layers))
    if not kept or kept[0] < 0 or kept[-1] >= count:
        raise MNNError(f"the model has the layers 0 to {count - 1}; {list(layers)} cannot be kept")
    config = _thin(opened.config, kept)
    settings = Config(threads=threads, precision=precision, cache=False)
    thin = _Thin(opened.path, config, opened.file, tuple(kept))
    return ModelDrafter(thin.decoder(settings, max_length, bits, activation_bits))


def _thin(config: Mapping[str, object], kept: Sequence[int]) -> dict[str, object]:
    """A configuration with some of its layers."""
    odd = [name for name in ("first_k_dense_replace", "decoder_sparse_step") if config.get(name) not in (None, 0, 1)]
    if odd or "text_config" in config or config.get("mlp_only_layers"):
        raise UnsupportedError(f"layers of models of the kind {config.get('model_type')!r} cannot be left out")
    found = dict(config)
    for name in ("num_hidden_layers", "num_layers", "n_layer"):
        if name in found:
            found[name] = len(kept)
    for name in _BY_LAYER:
        told = found.get(name)
        if isinstance(told, list) and len(told) > kept[-1]:
            found[name] = [told[i] for i in kept]
    return found


@dataclass(frozen=True)
class _Thin(Opened):
    """A model's files, of which some layers are read."""

    kept: tuple[int, ...] = ()

    def weights(self, bits: int | None = None, row_bits: int = 0) -> LoadedWeights:
        """Weights in which the layers that are kept follow each other."""
        tensors = open_weights(self.path)
        places = {old: new for new, old in enumerate(self.kept)}
        some = {}
        for name in tensors:
            found = _NUMBERED.search(name)
            if found is None:
                some[name] = tensors[name]
            elif int(found[2]) in places:
                some[f"{name[: found.start()]}{found[1]}{places[int(found[2])]}.{name[found.end() :]}"] = tensors[name]
        return LoadedWeights(Weights(some, tensors.source), bits, row_bits)


__all__ = ["drafter_of", "skipping"]
