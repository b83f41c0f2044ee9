"""Text of language models: tokenizers and chat templates.

:func:`load_tokenizer` reads a model's tokenizer, whatever file it is in. Needs the extra ``llm``.
"""

from __future__ import annotations

import os

from MNN.llm.files.gguf.reader import read_gguf
from MNN.llm.files.places import find
from MNN.llm.text.from_folder import tokenizer_in
from MNN.llm.text.from_gguf import tokenizer_of
from MNN.llm.text.mtok import read_mtok
from MNN.llm.text.special import SpecialTokens
from MNN.llm.text.streaming import TextStream
from MNN.llm.text.tokenizer import Tokenizer

__all__ = ["SpecialTokens", "TextStream", "Tokenizer", "load_tokenizer"]


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of a model: of a .gguf file, or of a folder with ``tokenizer.json`` or the official
    engine's ``tokenizer.mtok``.

    MNNError where there is none.
    """
    place = find(path)
    if place.gguf is not None:
        return tokenizer_of(read_gguf(place.gguf))
    binary = place.folder / "tokenizer.mtok"
    if binary.is_file() and not (place.folder / "tokenizer.json").is_file():
        return read_mtok(binary)
    return tokenizer_in(place.folder)
