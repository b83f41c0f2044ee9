"""The linear-time matcher against Python's own on what both understand, and what it refuses."""

from __future__ import annotations

import re
import time

import pytest

from MNN.errors import UnsupportedError
from MNN.ops.text.regex import Pattern

TEXTS = [
    "", "a", "b", "ab", "aab", "abab", "abc", "aaa", "a b", "a\nb", "A", "é", "1", "_", "foo.bar@gmail.com", "x-y",
    "www.example.com", "-", "]", "^", "12:30", "0x1F", "ABab", " ", "\t",
]  # fmt: skip
PATTERNS = [
    "", "a", "a*", "a+?", "(a|b)*", "(ab)+", "a{2,3}", "a{2}b?", "[ab]+", "[^ab]+", "[a-z.]+", r"\w+", r"\W", r"\d+",
    r"[\w.\-]+@(yahoo|gmail)\.com", r"www\.[\w.-]+\.\bcom\b", r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", ".",
    ".*",
    r"a\Bb|ab\b", "^a$", "(?:a|ab)(?:c|bcd)?", "(a*)*", "(a*)+b", "(|a)+", r"[]^-]", "(?i)ab+", "(?s)a.b", "(?P<n>a)b?",
    r"\d{1,2}:\d\d", r"0x[0-9a-fA-F]{1,8}", r"\s", r"\S+", "(a?){3}", "a??b", "[^\\s]+",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_like_pythons(pattern):
    made, wanted = Pattern(pattern), re.compile(pattern, re.ASCII)
    assert [made.matches(t) for t in TEXTS] == [wanted.fullmatch(t) is not None for t in TEXTS]


def test_the_end_is_the_end_of_the_text():
    assert not Pattern("a$").matches("a\n")
    assert not Pattern(r"\s").matches("\v")  # as RE2 has it


def test_time_does_not_explode():
    start = time.perf_counter()
    assert not Pattern("(a*)*b").matches("a" * 2000)
    assert not Pattern("(a|a)*c").matches("a" * 2000)
    assert not Pattern("(a?){30}a{30}b").matches("a" * 100)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(a)\1", "groupref"),
        ("(?=a)b", "not understood"),
        ("(?<!a)b", "not understood"),
        ("(?P=n)", "not understood"),
        ("(?m)a", "not understood"),
        (r"\pN", "not understood"),
        ("[[:alpha:]]", "not understood"),
        ("a{,3}", "not understood"),
        ("(", "cannot be read"),
        ("a{1001}", "more than 1000 repetitions"),
        ("((a{1000}){1000}){1000}", "more than 20000 states"),
        ("(" * 5000 + ")" * 5000, "cannot be read"),
    ],
)
def test_what_is_refused(pattern, words):
    with pytest.raises(UnsupportedError, match=words):
        Pattern(pattern)
