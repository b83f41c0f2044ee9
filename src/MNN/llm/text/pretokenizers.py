# ruff: noqa: RUF001 - the characters of patterns are what they are
"""How texts are cut into words before pairs of bytes are merged: the kinds that GGUF files name.

A kind is a list of steps; each pattern isolates what it matches within the words so far. The patterns are those of the
models' own ``tokenizer.json``; the names are those of ``tokenizer.ggml.pre``.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{{0}}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{{0}}"
_SLASHED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN = _CASED.replace("{0}", "") + r"|\p{N}|" + _SLASHED
_GPT4O = _CASED.replace("{0}", CONTRACTIONS + "?") + r"|\p{N}{1,3}|" + _SLASHED
_BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_DEEPSEEK_RANGES = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c "
    "38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b "
    "1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 "
    "1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 "
    "2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b "
    "2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 "
    "fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df "
    "1e900-1e943 "
).split()
_DEEPSEEK_LETTERS = "".join("-".join(chr(int(end, 16)) for end in ends.split("-")) for ends in _DEEPSEEK_RANGES)
_DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GROUPS = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
"""Digits by three, counted from the last one."""
_ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
_BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_SEED = rf"{CONTRACTIONS}|{_WORDS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"

_NO_HAN_UPPER, _NO_HAN_LOWER = (rf"(?:(?!\p{{Han}}){letters})" for letters in (_UPPER, _LOWER))
_KIMI = (
    rf"\p{{Han}}+|[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN_UPPER}*{_NO_HAN_LOWER}+{CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN_UPPER}+{_NO_HAN_LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}|{_REST}"
)


@dataclass(frozen=True)
class Kind:
    """``steps``: patterns, one after another. ``whole_words``: words that are tokens stay whole, whatever the merges.

    ``begins``: whether texts begin with the token for that where the file does not say. ``composed``: whether
    characters are composed first (NFC).
    """

    steps: tuple[str, ...]
    whole_words: bool = False
    begins: bool = False
    composed: bool = False


_DIGITS = r"\p{N}"
_PUNCTUATION = r"[\p{P}$+<=>^~|]+"
_PUNCTUATION_AND_GRAVE = r"[\p{P}$+<=>^~|`]+"
_THREE = "[0-9][0-9][0-9]"

_LLAMA3_KIND = Kind((_LLAMA3,), whole_words=True, begins=True)
_GPT2_KIND = Kind((GPT2,))
_DIGITS_KIND = Kind((_DIGITS, GPT2))
_QWEN2_KIND = Kind((_QWEN2,), composed=True)
_GPT4O_KIND = Kind((_GPT4O,))

KINDS: dict[str, Kind] = {
    "default": Kind((_PUNCTUATION, GPT2, r"\p{N}+", _THREE)),
    **dict.fromkeys("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2".split(), _LLAMA3_KIND),
    **dict.fromkeys("dbrx smaug-bpe glm4 chatglm-bpe".split(), Kind((_LLAMA3,))),
    **dict.fromkeys("gpt-2 phi-2 mpt olmo jais trillion mellum modern-bert exaone4 gigachat".split(), _GPT2_KIND),
    **dict.fromkeys("jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe".split(), _GPT2_KIND),
    **dict.fromkeys("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2".split(), _DIGITS_KIND),
    **dict.fromkeys("qwen2 deepseek-r1-qwen megrez kormo".split(), _QWEN2_KIND),
    **dict.fromkeys("stablelm2 hunyuan grok-2 solar-open".split(), Kind((_QWEN2,))),
    "qwen35": Kind((_QWEN35,), composed=True),
    "falcon": Kind((_PUNCTUATION_AND_GRAVE, GPT2, _THREE)),
    **dict.fromkeys("bloom gpt3-finnish poro-chat".split(), Kind((_BLOOM,))),
    "viking": Kind((_BLOOM, _DIGITS)),
    "tekken": Kind((_TEKKEN,), whole_words=True, begins=True),
    **dict.fromkeys("gpt-4o llama4 kanana2 minimax-m2".split(), _GPT4O_KIND),
    "deepseek-llm": Kind(
        (
            "[\r\n]",
            rf"\s?[{_DEEPSEEK_LETTERS}]+",
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$",
            _HAN,
            r"\p{N}+",
        )
    ),
    "deepseek-coder": Kind(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN, _DIGITS)),
    **dict.fromkeys("deepseek-v3 hunyuan-dense joyai-llm".split(), Kind((r"\p{N}{1,3}", _CJK, _DEEPSEEK_V3))),
    "afmoe": Kind((_GROUPS, _ASIAN, _DEEPSEEK_V3)),
    **dict.fromkeys("bailingmoe bailingmoe2 llada-moe".split(), Kind((_BAILING,))),
    "kimi-k2": Kind((_KIMI,)),
    "seed-coder": Kind((_SEED,)),
}
"""By the name that files have for them."""
