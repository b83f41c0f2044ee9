"""Forks while other threads hold what no child could wait for: a module that they import, LLVM, a model's file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_FORK = """
import os, signal, sys, threading, time
from pathlib import Path

import MNN

place = Path(sys.argv[1])
(place / "slow_module.py").write_text("import time\\ntime.sleep(0.3)\\ndone = True")
MNN.__path__.append(str(place))
from MNN.backends.cpu.codegen import toolchain
from MNN.model import Opened

begun = threading.Event()

def by_import():
    import MNN.slow_module
    assert MNN.slow_module.done

def in_llvm():
    import llvmlite.binding as llvm
    with llvm.ffi.lib._lock:
        begun.set()
        time.sleep(0.3)
    llvm.parse_assembly("")

def in_ours():
    with toolchain.LOCK:
        begun.set()
        time.sleep(0.3)

class Slow(Opened):
    def __init__(self):
        super().__init__(b"")

    def __call__(self):
        with self._reading.lock:
            begun.set()
            time.sleep(0.3)

import llvmlite.binding

for way in (by_import, in_llvm, in_ours, Slow()):
    begun.clear()
    thread = threading.Thread(target=way)
    thread.start()
    while not (begun.is_set() or (way is by_import and "MNN.slow_module" in sys.modules)):
        time.sleep(0.001)
    child = os.fork()
    if not child:
        signal.alarm(5)
        way()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_does_not_wait_for_threads_of_its_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORK, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["7"] * 4), done.stderr
