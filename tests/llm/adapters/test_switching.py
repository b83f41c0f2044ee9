"""Adapters beside a model, chosen text by text, against what peft computes (``tests/llm/adapters/record.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.engine.paged import Work
from MNN.llm.engine.scheduler import Scheduler
from MNN.llm.files import open_weights
from MNN.llm.files.adapters import read_adapter
from MNN.llm.models.cache import PAGE
from MNN.runtime.config import Config
from tests.llm.adapters.cases import NAMES, Case, check, error, opened, write
from tests.llm.files.writing import safetensors
from tests.llm.test_scheduler import asked, finish, unused

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))


def recorded(family: str) -> Case:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    with np.load(HERE / "recorded.npz") as file:
        return Case(**notes, logits=file[family])


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "deepseek_v3", "gpt_neox", "qwen3_5_text"])
def test_like_peft(tmp_path: Path, family: str) -> None:
    assert check(recorded(family), tmp_path) <= 1e-4


def test_another_comes_where_one_has_left(tmp_path: Path) -> None:
    case = recorded("qwen2")
    decoder = opened(case, tmp_path)
    bank, changes = decoder.bank, read_adapter(open_weights(tmp_path), tmp_path / NAMES[0])
    assert bank is not None
    with pytest.raises(MNNError, match="no room for the adapter 'three': its rank"):
        bank.add("three", changes)
    decoder.feed(decoder.text(NAMES[0]), case.prompt)
    text = decoder.text(NAMES[0])
    bank.remove(NAMES[0])
    bank.add("three", changes)
    assert decoder.adapters == (NAMES[1], "three")
    for name, wanted in (("", case.logits[0]), (NAMES[1], case.logits[2]), ("three", case.logits[1])):
        assert error(decoder.feed(decoder.text(name), case.prompt, every=True)[-len(wanted) :], wanted) <= 1e-4
    with pytest.raises(MNNError, match="there is no adapter 'one'; there are two, three"):
        decoder.feed(text, case.prompt)
    with pytest.raises(MNNError, match="no adapter 'four'; its adapters are two, three"):
        decoder.text("four")
    with pytest.raises(MNNError, match="'one' is taken, or was"):
        bank.add(NAMES[0], changes)


def test_answers_share_beginnings_with_those_of_their_adapter_alone(tmp_path: Path) -> None:
    decoder = opened(recorded("llama"), tmp_path)
    scheduler = Scheduler(decoder)
    prompt = np.random.default_rng(3).integers(1, 48, 2 * PAGE + 5).tolist()
    for turn in range(2):
        answers = [asked(prompt, 12, logit_bias={0: -100.0}) for _ in range(3)]
        for one, name in zip(answers, ("", *NAMES), strict=True):
            one.adapter = name
            scheduler.add([one])
        assert not [told for told in finish(scheduler) if told.error]
        for one in answers:
            text = decoder.text(one.adapter)
            logits = decoder.feed(text, [*prompt, *one.tokens[:-1]], every=True)[len(prompt) - 1 :]
            logits[:, 0] = -np.inf
            gaps = logits.max(1) - logits[np.arange(12), one.tokens]
            assert gaps.max() <= 1e-4 * np.abs(logits[:, 1:]).max()
            assert one.cost.reused == (len(prompt) - 1 if turn else 0)
        text = decoder.text()
    assert unused(scheduler, decoder)


def test_what_cannot_be_switched(tmp_path: Path) -> None:
    case = recorded("llama")
    write(case, tmp_path)
    made = open_model(tmp_path)
    assert isinstance(made, Opened)
    settings = Config(cache=False)
    config = json.loads((tmp_path / NAMES[0] / "adapter_config.json").read_text())
    with pytest.raises(MNNError, match="loaded without adapters"):
        made.decoder(settings, 64).text("one")
    (tmp_path / NAMES[0] / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(UnsupportedError, match="use_dora"):
        made.decoder(settings, 64, adapters={"one": tmp_path / NAMES[0]})
    other = tmp_path / "other"
    other.mkdir()
    write(recorded("qwen2"), other)
    with pytest.raises(FormatError, match="another model"):
        made.decoder(settings, 64, adapters={"one": other / NAMES[0]})
    deep = tmp_path / "deep"
    deep.mkdir()
    write(recorded("deepseek_v3"), deep)
    layer = "model.layers.0.mlp.experts.0.gate_proj"
    _retarget(deep / NAMES[0], layer, recorded("deepseek_v3").shapes[f"{layer}.weight"])
    whole = open_model(deep)
    assert isinstance(whole, Opened)
    with pytest.raises(UnsupportedError, match=r"gate_proj' cannot be switched .* merge them"):
        whole.decoder(settings, 64, adapters={"one": deep / NAMES[0]})


def _retarget(folder: Path, layer: str, shape: list[int]) -> None:
    rank = json.loads((folder / "adapter_config.json").read_text())["r"]
    at, sizes = f"base_model.model.{layer}.lora_", {"A": (rank, shape[1]), "B": (shape[0], rank)}
    arrays = {f"{at}{kind}.weight": np.ones(size, np.float32) for kind, size in sizes.items()}
    (folder / "adapter_model.safetensors").write_bytes(safetensors(arrays))


@pytest.mark.parametrize("family", ["qwen2", "gemma3_text"])
def test_only_what_a_step_needs_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """Steps without adapters, with one and with two run graphs of their own, by turns on the same pages."""
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    case = recorded(family)
    folder = tmp_path / "model"
    folder.mkdir()
    adapters, made = write(case, folder), open_model(folder)
    assert isinstance(made, Opened)
    decoder = made.decoder(Config(precision="high", cache=True), 256, kv_bits=32, adapters=adapters)
    variants, prompt = decoder.variants, case.prompt
    assert variants is not None
    kinds = [variants.choose(names) for names in ((), (NAMES[0],), ("", NAMES[1]), NAMES)]
    assert len(set(kinds)) == 4
    columns = [0 if kind.bank is None else kind.bank.columns for kind in kinds]
    assert columns == [0, *(one["r"] for one in case.adapters), sum(one["r"] for one in case.adapters)]
    texts, count = {name: decoder.text(name) for name in ("", *NAMES)}, case.logits.shape[1]
    wanted = dict(zip(texts, case.logits, strict=True))
    rng, end = np.random.default_rng(2), len(prompt)
    while any(len(text.tokens) < end for text in texts.values()):
        chosen = [n for n, text in texts.items() if len(text.tokens) < end and rng.random() < 0.5]
        works = []
        for name in chosen:
            at = len(texts[name].tokens)
            works.append(Work(texts[name], prompt[at : at + int(rng.integers(1, 4))]))
        for name, logits in zip(chosen, decoder.step(works) if works else (), strict=True):
            behind = len(texts[name].tokens) - (end - count) - 1
            if behind >= 0:
                assert error(logits[-1], wanted[name][behind]) <= 1e-4
    decoder.remove_adapter(NAMES[0])
    decoder.add_adapter("three", read_adapter(open_weights(folder), adapters[NAMES[0]]))
    again = decoder.feed(decoder.text("three"), prompt, every=True)[-count:]
    assert error(again, wanted[NAMES[0]]) <= 1e-4
    assert error(decoder.feed(decoder.text(""), prompt, every=True)[-count:], wanted[""]) <= 1e-4
