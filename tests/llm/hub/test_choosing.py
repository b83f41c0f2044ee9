"""Which files of a repository are fetched."""

from __future__ import annotations

import pytest

from MNN.errors import MNNError, UnsupportedError
from MNN.llm.hub.choosing import chosen

TEXT = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "chat_template.jinja",
    "vocab.txt",
]
OTHER = ["README.md", ".gitattributes", "pytorch_model.bin", "onnx/model.onnx", "original/consolidated.00.pth", "a.png"]
SHARDS = [f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
INDEX = "model.safetensors.index.json"


def sizes(*files: str) -> dict[str, int]:
    return {file: 1000 + len(file) for file in files}


@pytest.mark.parametrize(
    ("weights", "left"),
    [
        (["model.safetensors"], ["model.fp16.safetensors", "tf_model.h5"]),
        ([*SHARDS, INDEX], ["consolidated.safetensors", "model.fp16.safetensors.index.json", "q.gguf"]),
        (["adapter_model.safetensors"], ["optimizer.pt"]),
        (["pytorch_lora.safetensors"], []),
        (["model.safetensors", "1_Pooling/config.json", "modules.json"], ["openvino/config.json"]),
    ],
)
def test_safetensors(weights: list[str], left: list[str]) -> None:
    found = chosen(sizes(*TEXT, *OTHER, *weights, *left), (), "it")
    assert set(found) == {*TEXT, *weights}
    assert found[-1] == "config.json"


def test_one_gguf_model_and_several() -> None:
    assert chosen(sizes("m.Q4_0.gguf", "config.json", "mmproj-m.gguf"), (), "it") == ["m.Q4_0.gguf"]
    parts = [f"big/m.Q4_0-0000{number}-of-00002.gguf" for number in (1, 2)]
    assert chosen(sizes(*parts), (), "it") == parts
    several = sizes(*parts, "m.Q8_0.gguf")
    with pytest.raises(MNNError, match=r"it has 2 models: big/m.Q4_0.gguf \(2.06 kB\), m.Q8_0.gguf .*--file"):
        chosen(several, (), "it")
    assert chosen(several, ["*Q8_0.gguf"], "it") == ["m.Q8_0.gguf"]
    assert chosen(several, ["m.Q4_0*"], "it") == parts  # by the name alone


def test_folders_of_the_official_engine() -> None:
    own = ["llm.mnn", "llm.mnn.weight", "llm_config.json", "embeddings_bf16.bin", "tokenizer.mtok", "config.json"]
    assert set(chosen(sizes(*own, "README.md", "demo.png"), (), "it")) == set(own)


def test_what_cannot_be_chosen() -> None:
    with pytest.raises(UnsupportedError, match="pickled weights only"):
        chosen(sizes("config.json", "pytorch_model.bin"), (), "it")
    with pytest.raises(MNNError, match=r"has no language model.*It has README\.md"):
        chosen(sizes("README.md"), (), "it")
    with pytest.raises(MNNError, match="It has no files"):
        chosen({}, (), "it")
    with pytest.raises(MNNError, match="and 8 more"):
        chosen(sizes(*(f"{i}.gguf" for i in range(20))), (), "it")


@pytest.mark.parametrize(
    "name", ["../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "c:x.gguf", "a\\..\\x.gguf", "a//x.gguf"]
)
def test_names_that_lead_out_of_the_folder(name: str) -> None:
    with pytest.raises(MNNError, match="leads out of the folder; nothing was fetched"):
        chosen(sizes(name), (), "it")
    with pytest.raises(MNNError, match="leads out of the folder"):
        chosen(sizes(name), ["*"], "it")
