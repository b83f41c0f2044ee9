"""Texts of models with recurrent layers: they go back to where states are kept, and are what they are alone; no slot is
lost."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.answer import Answer
from MNN.llm.beams import BeamWriter, Search
from MNN.llm.engine.marks import MarkForm, Marks
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.engine.paged import Work
from MNN.llm.engine.pages import NoPagesError, PagePool
from MNN.llm.engine.scheduler import Scheduler
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.families import build, build_with
from MNN.llm.models.heads.features import FeatureForm, FeatureLayers
from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation import Lookup
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays
from tests.llm.files.modules import LAYER, modules
from tests.llm.files.writing import gguf
from tests.llm.test_families import RECORDED, expected
from tests.llm.test_scheduler import WORDS, Letters, asked, check_alone, finish, shared, unused

HYBRID = ("granitemoehybrid", "qwen3_next")


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-4) -> None:
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("family", HYBRID)
def test_back_and_on(family: str) -> None:
    """Wherever a text goes back to, and however it goes on, its logits are those of a text read at once."""
    decoder, rng = shared(family), np.random.default_rng(3)
    given = rng.integers(1, WORDS, 150).tolist()
    whole = decoder.feed(decoder.text(), given, every=True)
    text = decoder.text()
    for _ in range(16):
        length = len(text.tokens)
        if length > 3 and rng.random() < 0.4:
            back = int(rng.integers(0, length))
            decoder.cut(text, back)
            assert len(text.tokens) <= back
            continue
        count = min(int(rng.choice([1, 1, 3, 9, 70])), len(given) - length)
        if not count:
            break
        drafted = int(rng.integers(0, count))
        rows = decoder.step([Work(text, given[length : length + count], drafted + 1, drafted=drafted)])[0]
        close(rows, whole[length + count - drafted - 1 : length + count])
    del text
    gc.collect()
    assert decoder.slots.used == 0


def test_beginnings_are_read_once() -> None:
    """Behind every 64 tokens there is a place to go on from for texts that begin alike."""
    decoder = shared("lfm2")
    scheduler, rng = Scheduler(decoder, 4), np.random.default_rng(4)
    beginning = rng.integers(1, WORDS, 150).tolist()
    ones = [asked([*beginning, *rng.integers(1, WORDS, 9).tolist()], 6) for _ in range(3)]
    for one in ones:
        scheduler.add([one])
        finish(scheduler)
        check_alone(decoder, one)
    assert [one.cost.reused for one in ones] == [0, 128, 128]
    longer = asked([*ones[0].prompt, *ones[0].tokens, 5, 6], 4)
    scheduler.add([longer])
    finish(scheduler)
    check_alone(decoder, longer)
    assert longer.cost.reused >= len(ones[0].prompt)  # a conversation goes on
    assert unused(scheduler, decoder)


def test_few_slots() -> None:
    """Texts wait for slots as they do for pages."""
    decoder, rng = shared("granitemoehybrid"), np.random.default_rng(5)
    taken = [decoder.slots.take() for _ in range(decoder.slots.free - 9)]
    scheduler = Scheduler(decoder, 8)
    ones = [asked(rng.integers(1, WORDS, int(rng.integers(2, 90))).tolist(), 12) for _ in range(6)]
    for one in ones:
        scheduler.add([one])
    told = finish(scheduler)
    assert not [one for one in told if one.error]
    for one in ones:
        check_alone(decoder, one)
    for slot in taken:
        decoder.slots.give_back(slot)
    assert unused(scheduler, decoder)


@pytest.mark.parametrize("family", ["granitemoehybrid"])
def test_drafts_of_a_single_answer(family: str) -> None:
    """With drafts from the text itself the answer is the one without."""
    decoder, tokenizer = shared(family), Letters()
    prompt = cases.tokens(6, 20) * 2

    def answer(drafter: Any) -> Answer:
        options = SamplingOptions(temperature=0.0, logit_bias={0: -100.0})
        given: Any = {"prompt": prompt, "tokenizer": tokenizer, "options": options, "most": 30}
        found = Answer(**given, decoder=decoder, history=decoder.text(), drafter=drafter)
        found.read()
        return found

    drafted = answer(Lookup(2, 1))
    assert drafted.cost.drafted > drafted.cost.kept
    check_alone(decoder, drafted)
    assert len(drafted.tokens) == 30


def test_beams() -> None:
    """Beams' probabilities are those that their texts have alone."""
    decoder = shared("qwen3_next")
    tokenizer: Any = type("Words", (Letters,), {"decode": lambda self, tokens: "".join(chr(48 + t) for t in tokens)})()
    found = BeamWriter(decoder, tokenizer, Search(4, 1.0, False), SamplingOptions(temperature=0.0), 9).write(
        decoder.text(), prompt := cases.tokens(8, 15)
    )
    assert len(found) == 4
    for one in found:
        text, total = decoder.text(), 0.0
        logits = decoder.feed(text, prompt)[-1].astype(np.float64)
        for token in one.tokens if one.ended == "length" else [*one.tokens, 0]:
            total += logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            logits = decoder.feed(text, [token])[-1].astype(np.float64)
        assert abs(total - one.log_probability) < 1e-3
    gc.collect()


def test_marks() -> None:
    """Slots are given back, and what is forked is shared."""
    pool = PagePool(230, "slots")
    text = Marks(pool, MarkForm(10, 3, 2))
    assert text.grow(0, 35) == [(0, 10, -1, 0), (10, 10, 0, 1), (20, 10, 1, 2), (30, 5, 2, 3)]
    text.settle(0)
    assert [mark.length for mark in text.kept] == [10, 20, 30, 35]
    text.grow(35, 5, 4)
    text.settle(35)
    assert [mark.length for mark in text.kept] == [10, 20, 30, 36, 40]  # the nearest one of four is gone
    assert (text.reach(39), text.reach(9), text.reach(35)) == (36, 0, 30)
    other = text.fork(36)
    text.cut(12)
    assert [mark.length for mark in text.kept] == [10]
    other.rest()
    assert [mark.length for mark in other.kept] == [10, 20, 30, 36]
    for at in range(36, 66):
        other.grow(at, 1)
        other.settle(at)
    assert len([mark for mark in other.kept[:-2] if mark.lasting]) == 3
    text.cut(0)
    other.cut(0)
    assert pool.used == 0
    small = Marks(PagePool(1), MarkForm())
    with pytest.raises(NoPagesError, match="2 slots of recurrent layers are needed, 1 are free"):
        small.grow(0, 9, 3)
    assert small.kept == []


def test_what_is_refused() -> None:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "lfm2")
    weights = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    with pytest.raises(UnsupportedError, match="'lfm2' have recurrent layers; heads do not draft for them"):
        build_with(notes["config"], FeatureLayers(weights, CacheForm(), FeatureForm("last")))
    with pytest.raises(FormatError, match="expected are 3 times full_attention or conv"):
        build({**notes["config"], "layer_types": ["conv", "wave", "conv"]}, weights)
    assert issubclass(NoPagesError, MNNError)


def test_gguf(tmp_path: Path) -> None:
    """LFM2 in a GGUF file, where layers of attention are those with heads of keys, is what it is in a folder."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "lfm2")
    told, data = notes["config"], cases.weights(notes["shapes"], notes["seed"])
    names = {module: name for name, module in modules("lfm2").items()}
    tensors = {}
    for name, array in data.items():
        layer = re.sub(r"layers\.\d+", f"layers.{LAYER}", name).rpartition(".")[0]
        own = names[layer].replace(f"blk.{LAYER}.", f"blk.{(re.findall(r'layers.([0-9]+)', name) or [''])[0]}.")
        tensors[f"{own}.{name.rpartition('.')[2]}"] = array.reshape(len(array), -1) if array.ndim > 2 else array
    keys = [told["num_key_value_heads"] * (kind == "full_attention") for kind in told["layer_types"]]
    noted = {
        "context_length": 256, "embedding_length": told["hidden_size"], "block_count": 3,
        "attention.head_count": told["num_attention_heads"], "attention.head_count_kv": np.array(keys, np.int32),
        "attention.layer_norm_rms_epsilon": told["norm_eps"], "shortconv.l_cache": told["conv_L_cache"],
        "feed_forward_length": told["intermediate_size"], "rope.freq_base": told["rope_parameters"]["rope_theta"],
    }  # fmt: skip
    if told["rope_parameters"]["rope_type"] == "linear":
        noted |= {"rope.scaling.type": "linear", "rope.scaling.factor": told["rope_parameters"]["factor"]}
    file = tmp_path / "small.gguf"
    file.write_bytes(gguf({"general.architecture": "lfm2"} | {f"lfm2.{k}": v for k, v in noted.items()}, tensors))
    opened = open_model(file)
    assert isinstance(opened, Opened)
    decoder = opened.decoder(Config(precision="high", cache=False), kv_bits=32)
    close(decoder.feed(decoder.text(), notes["prompt"], every=True), expected(notes).logits)
    with pytest.raises(UnsupportedError, match="do not leave memory; leave out cache_memory"):
        opened.decoder(Config(cache=False), cache_memory=1 << 20)
