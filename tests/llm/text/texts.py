# ruff: noqa: RUF001 - these characters are meant
"""Random texts of all scripts, for tokenizers."""

from __future__ import annotations

import random

WORDS = (
    "the of and model's I'LL don't we've they'd isn't Hello world function return import numpy as np x1 y22 z333 2024"
    " 3.14159 1,000,000 café naïve Straße ﬁne Übergröße façade Привет мир Ελληνικά שלום مرحبا नमस्ते สวัสดี 你好世界"
    ' こんにちは 안녕하세요 ἄνθρωπος e\u0301clair n\u0303 http://a.org/b?c=d user@mail.com <tag> </tag> {"key": [1, 2]}'
    " !!! ??? ... -- — “quoted” ‘single’ ½ ² Ⅳ № ™ € £ ∑ ∞ ≠ → 👍 👩‍👩‍👧‍👦 🇩🇪 🏳️‍🌈 ①②③"
).split()
SPACES = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n ", "    ", "\u00a0", "\u3000", ""]
RANGES = [
    (0x20, 0x7E), (0xA1, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939),
    (0xE01, 0xE2E), (0x1E00, 0x1EFF), (0x2010, 0x2027), (0x2190, 0x21FF), (0x3041, 0x3096), (0x30A1, 0x30FA),
    (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xFF01, 0xFF5E), (0x1F300, 0x1F5FF), (0x1D400, 0x1D433), (0x20000, 0x20100),
]  # fmt: skip
"""Characters that were there in Unicode 6 already, so that all libraries know them alike."""


def text(seed: int, digits: bool = True) -> str:
    """One text of up to 60 words and single characters. ``digits``: whether numbers are among them."""
    rng = random.Random(seed)
    parts = []
    for _ in range(rng.randint(0, 60)):
        if rng.random() < 0.6:
            parts.append(rng.choice(WORDS))
        else:
            low, high = rng.choice(RANGES)
            parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
        parts.append(rng.choice(SPACES))
    found = "".join(parts)
    return found if digits else "".join(c for c in found if not c.isnumeric())
