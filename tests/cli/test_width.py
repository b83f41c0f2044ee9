"""At 80 columns every command can be read: no line is wider, nothing is cut, and headings and options are whole."""

from __future__ import annotations

import io
import re

import pytest
import typer
from rich.cells import cell_len
from rich.console import Console

from MNN.backends.cpu.measuring import machine
from MNN.cache.entries import Cache
from MNN.cli import mnnconvert
from MNN.cli.display.tables import Column, add_row, number, show, stacked, words
from MNN.cli.main import app
from tests.cli import models
from tests.cli.conftest import run_command

WIDTH = 80


@pytest.fixture(autouse=True)
def _narrow(tmp_path, monkeypatch):
    """A terminal of 80 columns; a cache of its own, and a machine that is measured in no time."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MNN_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    for name, value in (("_RUN_NS", 2e4), ("_TRIES", 1), ("_ROUNDS", 1), ("_MOST_BYTES", 4 << 20)):
        monkeypatch.setattr(machine, name, value)
    monkeypatch.chdir(tmp_path)


def _readable(text: str) -> None:
    wide = [line for line in text.splitlines() if cell_len(line.rstrip()) > WIDTH]
    assert not wide, wide
    assert "…" not in text


COMMANDS = {
    "demo": (["demo"], ["converted", "first result", "against numpy"]),
    "convert": (["convert", "digits.onnx", "a.mnn", "--check", "1e-4"], ["13 operators became 9"]),
    "info": (["info", "digits.onnx"], ["operator", "count", "image: f32 batch x 1 x 8 x 8"]),
    "run": (["run", "digits.onnx", "--random"], ["output", "dtype", "shape", "min", "mean", "max", "largest at"]),
    "long names": (["run", "long.onnx", "--random"], ["output", "dtype", "shape", "min", "mean", "max", "largest at"]),
    "compare": (["compare", "digits.onnx"], ["tensor", "error", "operator", "node", "shape"]),
    "bench": (
        ["bench", "digits.onnx", "--runs", "2", "--threads", "1,2", "--precision", "high,low", "--batch", "1,2",
         "--check"],
        ["model", "threads", "precision", "batch", "min", "median", "p90", "p99", "Python", "GFLOP/s", "load", "first",
         "arena", "peak", "error"],
    ),
    "profile": (
        ["bench", "digits.onnx", "--profile", "--runs", "2"],
        ["no", "min", "median", "share", "GFLOP/s", "kB", "ops/", "% of roof", "node", "kernel", "algorithm, and why",
         "commands", "operator"],
    ),
    "tune": (
        ["bench", "digits.onnx", "--tune", "--runs", "2"],
        ["work", "uses", "estimated", "measured", "candidates", "choices"],
    ),
    "machine": (["bench", "--machine"], ["at most", "1 thread", "f32 multiply-adds", "reading DRAM"]),
    "cache": (["cache", "size"], ["of at most 4 GB in"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_commands(mnn, digits, tmp_path, name):
    (tmp_path / "digits.onnx").write_bytes(digits.read_bytes())
    _long_names(tmp_path)
    arguments, headings = COMMANDS[name]
    result = mnn(*arguments)
    assert result.code == 0, result
    text = result.out.replace(str(tmp_path), "")  # the one thing whose length is not the command's
    _readable(text)
    for heading in headings:
        assert re.search(rf"(?<![\w…]){re.escape(heading)}(?![\w…])", text), (heading, text)


def _long_names(folder):
    from onnx import TensorProto, helper

    names = ["/backbone/layer1/layer1.0/conv1/Conv_output_0_with_a_name_that_is_long", "y"]
    value = (TensorProto.FLOAT, [1, 3, 4, 5])
    nodes = [helper.make_node("Relu", ["x"], [n]) for n in names]
    models.save(folder / "long.onnx", nodes, {"x": value}, dict.fromkeys(names, value))


def test_the_kept_things_are_listed(mnn):
    Cache.default().put("0" * 64, b"a kernel")
    result = mnn("cache", "list")
    _readable(result.out.splitlines()[0])
    assert result.out.splitlines()[0].split() == ["kept", "entries", "size", "last", "used"]


def _all_commands(command, names=()):
    yield names, command
    for name, part in getattr(command, "commands", {}).items():
        yield from _all_commands(part, (*names, name))


PAGES = [*_all_commands(typer.main.get_command(app)), (("mnnconvert",), typer.main.get_command(mnnconvert.app))]


@pytest.mark.parametrize(("names", "command"), PAGES, ids=lambda v: " ".join(v) if isinstance(v, tuple) else "")
def test_help_has_every_option_in_full(names, command):
    if names == ("mnnconvert",):
        result = run_command("--help", application=mnnconvert.app)
    else:
        result = run_command(*names, "--help")
    assert result.code == 0
    _readable(result.out)
    assert "..." not in result.out.replace("[ARGS]...", "").replace("]...", "").replace("2GB, ...", "").replace(
        "models...", ""
    )
    for parameter in command.params:
        for option in (*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ())):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", result.out, re.IGNORECASE), (
                option,
                result.out,
            )


def _columns() -> list[Column]:
    columns = [words("name", least=10), number("a", "one"), number("b", "one"), words("text", "two", 20)]
    add_row(columns, "x" * 30, "1" * 12, "2" * 12, "word " * 20)
    return columns


def test_tables_are_stacked_by_part():
    whole = list(stacked(_columns(), 80))
    assert [[c.heading for c in t] for t in whole] == [["name", "a", "b", "text"]]
    apart = list(stacked(_columns(), 50))
    assert [[c.heading for c in t] for t in apart] == [["name", "a", "b"], ["name", "text"]]
    narrow = list(stacked(_columns(), 30))
    assert [[c.heading for c in t] for t in narrow] == [["name", "a"], ["name", "b"], ["name", "text"]]


@pytest.mark.parametrize("width", [36, 50, 80, 200])
def test_no_cell_is_lost(width):
    screen = Console(width=width, record=True, quiet=False, file=io.StringIO())
    show(screen, _columns())
    text = screen.export_text()
    assert "1" * 12 in text
    assert "2" * 12 in text
    assert text.count("word") == 20
    assert max(cell_len(line) for line in text.splitlines()) <= width
