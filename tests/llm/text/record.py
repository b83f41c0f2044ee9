"""What other libraries make of random texts: recorded for the tests, or compared.

    python -m tests.llm.text.record                  # writes tests/llm/text/recorded.json and models/ anew
    python -m tests.llm.text.record --compare 2000   # that many random texts of every tokenizer, against this engine

Needs transformers, torch, gguf, sentencepiece, tiktoken and regex beside what this package needs (transformers 5.24,
sentencepiece 0.2.3 and tiktoken of November 2026 recorded what is there now).
"""

from __future__ import annotations

import argparse
import base64
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import regex
import sentencepiece
import tiktoken
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from MNN.llm.text.pretokenizers import KINDS
from tests import zoo
from tests.llm.text.check import MODELS, RULES, Case, cases, cut, digest, distinct_kinds, ours
from tests.llm.text.texts import text

HERE = Path(__file__).parent
TEXTS = 60
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""Of Qwen's own ``tokenization_qwen.py``."""


def theirs(case: Case) -> Callable[[str], list[int]]:
    """Another library's way from a text to ids."""
    if case.name == "smollm2":
        path = zoo.path("smollm2_gguf")
        return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).encode
    if case.name == "minilm":
        return PreTrainedTokenizerFast(tokenizer_file=str(zoo.path("minilm_tokenizer"))).encode
    if case.name == "qwen":
        lines = zoo.path("qwen_tiktoken").read_bytes().splitlines()
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
        import unicodedata

        encoding = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks=ranks, special_tokens={})
        return lambda text: encoding.encode_ordinary(unicodedata.normalize("NFC", text))
    if case.name == "tekken":
        data = json.loads(zoo.path("mistral_tekken").read_text(encoding="utf-8"))
        config, first = data["config"], data["config"]["default_num_special_tokens"]
        kept = data["vocab"][: config["default_vocab_size"] - first]
        ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in kept}
        encoding = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
        return lambda text: [1, *(i + first for i in encoding.encode_ordinary(text))]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(case.file))
    begin = [processor.bos_id()] if processor.bos_id() >= 0 else []
    return lambda text: begin + processor.encode(text)


def train() -> None:
    """Small SentencePiece models of this repository's pages, of both kinds and with different settings."""
    pages = sorted((HERE.parents[2] / "docs").glob("*.md"))
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line.strip()]
    (HERE / "models").mkdir(exist_ok=True)
    rules = Path(tempfile.mkdtemp()) / "rules.tsv"
    spelt = [[" ".join(f"{ord(c):X}" for c in side) for side in rule] for rule in RULES.items()]
    rules.write_text("".join("\t".join(sides) + "\n" for sides in spelt), encoding="utf-8")
    for name, options in MODELS.items():
        options = {key: str(rules) if value == "rules" else value for key, value in options.items()}
        file = HERE / "models" / f"{name}.model"
        with file.open("wb") as stream:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_writer=stream, hard_vocab_limit=False, num_threads=1,
                character_coverage=0.995, minloglevel=2, **options
            )  # fmt: skip


def cuts(name: str) -> Callable[[str], list[str]]:
    """A kind of words by the ``regex`` module: each pattern isolates within the words so far."""
    patterns = [regex.compile(step, regex.V1) for step in KINDS[name].steps]

    def apply(whole: str) -> list[str]:
        words = [whole]
        for pattern in patterns:
            found = []
            for word in words:
                place = 0
                for match in pattern.finditer(word):
                    found += [word[place : match.start()], match.group()]
                    place = match.end()
                found.append(word[place:])
            words = [word for word in found if word]
        return words

    return apply


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=int, default=0)
    options = parser.parse_args()
    if not options.compare:
        train()
    recorded: dict[str, list[str]] = {}
    for case in cases():
        other, own = theirs(case), ours(case)
        if options.compare:
            wrong = [
                i for i in range(options.compare) if other(text(i, case.digits)) != own.encode(text(i, case.digits))
            ]
            print(f"{case.name}: {len(wrong)} of {options.compare} differ {wrong[:5]}", flush=True)
        else:
            recorded[case.name] = [digest(other(text(i, case.digits))) for i in range(TEXTS)]
    for name in distinct_kinds():
        words = cuts(name)
        if options.compare:
            wrong = [i for i in range(options.compare // 10) if words(text(i)) != cut(name, text(i))]
            print(f"words of {name}: {len(wrong)} of {options.compare // 10} differ {wrong[:5]}", flush=True)
        else:
            recorded[f"words of {name}"] = [digest(words(text(i))) for i in range(TEXTS)]
    if not options.compare:
        (HERE / "recorded.json").write_text(json.dumps(recorded) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
