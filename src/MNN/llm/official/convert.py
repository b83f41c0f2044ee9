"""Language models as folders that the official engine runs, and this one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np

from MNN.errors import MNNError, UnsupportedError
from MNN.frontends.mnn.write import write_mnn
from MNN.llm.engine.loaded import LoadedWeights
from MNN.llm.files import Weights, open_weights, read_config
from MNN.llm.files.adapters import merged
from MNN.llm.models.families import build_with, usual
from MNN.llm.models.weights import Weights as ModelWeights
from MNN.llm.official.folder import is_official
from MNN.llm.official.form import CHUNK, Form, FormedWeights, Told, calibrated_weights
from MNN.llm.official.layers import OfficialLayers, has_windows
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.llm.text.mtok_writing import mtok
from MNN.schema.reader import read_net

_SETTINGS = {
    "llm_model": "llm.mnn", "llm_weight": "llm.mnn.weight", "backend_type": "cpu", "thread_num": 4, "precision": "low",
    "memory": "low", "sampler_type": "mixed", "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05,
    "tokenizer_file": "tokenizer.mtok",
}  # fmt: skip


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    form: Form | None = None,
    told: Told | None = None,
    lora: str | os.PathLike[str] | None = None,
    text: str | None = None,
) -> Path:
    """Writes a model as a folder of the official engine: graph, weights, tokenizer, and the table of embeddings.

    ``source``: a .gguf file or a Hugging Face folder. ``told`` hears what is done, and how many of how many. ``lora``:
    a folder of a PEFT adapter that is merged into the weights. ``text``: one like those that the model will read, some
    thousand words; weights are then rounded so that what the model makes of it changes little
    (:mod:`MNN.weight_quantization.compensated`), which takes a minute or more. The target is there when all of it is.
    Raises :class:`MNNError` where there is a file or a folder already, and where the model has parts that the official
    engine has no form for.
    """
    folder, say = Path(target), told or _nothing
    if folder.exists():
        raise MNNError(f"{folder} is there already; name a new folder, or remove it first")
    if is_official(Path(source)):
        raise MNNError(f"{source} is a folder of the official engine already; convert what it was made of")
    config, tensors, tokenizer = read_config(source), open_weights(source), load_tokenizer(source)
    if lora is not None:
        tensors = merged(tensors, lora)
    if not folder.parent.is_dir():
        raise MNNError(f"there is no folder {folder.parent} to write into")
    made = folder.with_name(f".{folder.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        made.mkdir()
        _write(made, config, tensors, tokenizer, form or Form(), say, text)
        made.rename(folder)
    except OSError as error:
        raise MNNError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _write(
    folder: Path, config: dict[str, object], tensors: Weights, tokenizer: Tokenizer, form: Form, say: Told,
    text: str | None,
) -> None:  # fmt: skip
    known = usual(config)
    windows = has_windows(known.values)
    form = form.for_source(tensors)

    def built(weights: ModelWeights) -> OfficialLayers:
        net = OfficialLayers(weights, known.width, windows, known.family)
        build_with(config, net)
        return net

    done = None
    if text is not None:
        built(LoadedWeights(tensors))  # which refuses what has no form, before a text is read for minutes
        done = calibrated_weights(config, tensors, form, tokenizer.encode(text), say)
    net = built(FormedWeights(tensors, form, say, done))
    say("llm.mnn", 0, 1)
    write_mnn(net.graph, folder / "llm.mnn", external=True)
    foreign = {op.main.type for op in read_net(folder / "llm.mnn").oplists or [] if op.type == "Extra"}
    if foreign:
        raise UnsupportedError(
            f"{tensors.source}: models of the kind '{known.family}' need operators that the official engine lacks: "
            f"{', '.join(sorted(map(str, foreign)))}"
        )
    (folder / "tokenizer.mtok").write_bytes(mtok(tokenizer))
    _write_table(folder / "embeddings_bf16.bin", tensors, net.embeddings, say)
    (folder / "config.json").write_text(json.dumps(_SETTINGS, indent=4), encoding="utf-8")
    told: dict[str, object] = {
        "model_type": known.family, "hidden_size": known.width, "layer_nums": known.layers, "attention_mask": "float",
        "attention_type": "mix" if windows else "full", "is_mrope": False, "max_position_embeddings": known.longest,
    }  # fmt: skip
    if windows:
        told["sliding_window"] = net.window or known.longest
    if tokenizer.chat_template is not None:
        texts = tokenizer.special.texts
        named = {name: texts[f"{name}_token"] for name in ("bos", "eos") if f"{name}_token" in texts}
        told["jinja"] = {"chat_template": tokenizer.chat_template, **named}
    (folder / "llm_config.json").write_text(json.dumps(told, indent=4, ensure_ascii=False), encoding="utf-8")


def _write_table(file: Path, tensors: Weights, name: str, say: Told) -> None:
    if name not in tensors:
        raise UnsupportedError(f"{tensors.source} has no table of embeddings '{name}'")
    table = tensors[name]
    rows = table.shape[0]
    with file.open("wb") as out:
        for first in range(0, rows, CHUNK):
            some = table.rows(np.arange(first, min(first + CHUNK, rows)))
            out.write(some.astype(ml_dtypes.bfloat16).tobytes())
            say("embeddings", min(first + CHUNK, rows), rows)


def _nothing(what: str, done: int, total: int) -> None:
    """Says nothing."""


__all__ = ["convert"]
