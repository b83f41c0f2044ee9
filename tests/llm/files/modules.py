"""The modules of each architecture by what GGUF files call their tensors."""

from __future__ import annotations

from MNN.llm.files.gguf.architectures import ARCHITECTURES
from MNN.llm.files.gguf.naming import LLAMA

LAYER = 3
OUTSIDE = {"token_embd", "output_norm", "output", "token_embd_norm", "position_embd", "token_types"}


def modules(architecture: str) -> dict[str, str]:
    """GGUF names without suffix to Hugging Face's, for the weights outside of layers and those of one layer."""
    known = ARCHITECTURES[architecture]
    table = {**(LLAMA if known.shared else {}), **known.names}
    found = {}
    for name, module in table.items():
        plain = module.replace(".{}", "")
        outside = name in OUTSIDE or plain.startswith("model.")
        found[name if outside else f"blk.{LAYER}.{name}"] = plain if outside else f"{known.layers}{LAYER}.{plain}"
    return found
