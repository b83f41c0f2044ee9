"""The commands as processes: what a shell sees."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import MNN
from tests.cli.conftest import run_command

ROOT = Path(MNN.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX processes")


def shell(*arguments: object, module: str = "MNN.cli.main", **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *(str(a) for a in arguments)]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, capture_output=True, text=True, env=ENVIRONMENT, check=False, **{"timeout": 120, **options}
    )


def test_demo(tmp_path):
    done = shell("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "right answers │ 40 of 40" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if "against numpy" in line)
    assert float(line.split("difference")[1].split()[0]) < 1e-5
    assert "one picture" in done.stdout
    assert not os.listdir(tmp_path)


def test_installed_commands(tmp_path):
    for name in ("mnn", "mnnconvert"):
        script = shutil.which(name, path=str(Path(sys.executable).parent))
        assert script, f"the command {name} is missing; install the package (pip install -e .)"
        done = subprocess.run([script, "--help"], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0
        assert "--fp16" in done.stdout or "convert" in done.stdout


def test_help_and_version():
    done = shell("--help")
    assert done.returncode == 0
    for name in ("demo", "convert", "info", "dump", "run", "bench", "compare"):
        assert name in done.stdout
        found = run_command(name, "--help")
        assert found.code == 0
        assert f"{name} [OPTIONS]" in found.out
    assert MNN.__version__ in run_command("--version").out


def test_errors_go_to_the_error_stream(tmp_path):
    done = shell("convert", "none.onnx", "a.mnn", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: no such file: none.onnx\n")


def test_results_can_be_piped(converted):
    done = shell("info", converted)
    assert done.stderr == ""
    with subprocess.Popen(
        [sys.executable, "-m", "MNN.cli.main", "dump", str(converted)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()  # like "| head -1"
        assert b"Traceback" not in child.stderr.read()


@POSIX
def test_a_disk_that_is_full_leaves_nothing(digits, tmp_path):
    """The limit on file sizes stands in for the disk: half of the model fits."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    options = {"cwd": tmp_path, "preexec_fn": limit}
    for extra in ([], ["--saveExternalData"]):
        done = shell("convert", *extra, digits, "a.mnn", **options)
        assert done.returncode == 2
        assert "cannot write a.mnn" in done.stderr
        assert "Traceback" not in done.stderr
        assert not os.listdir(tmp_path)


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_stopped_while_writing_leaves_nothing(digits, tmp_path, number):
    script = (
        "import os, signal, sys, time\n"
        "from MNN.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored under jobs in the background
        "def slow(descriptor):\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "os.fsync = slow\n"
        f"sys.argv = ['mnn', 'convert', {str(digits)!r}, 'a.mnn']\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"writing\n"
        assert len(os.listdir(tmp_path)) == 1  # the unfinished file, hidden
        child.send_signal(number)
        start = time.monotonic()
        child.wait(30)
        assert time.monotonic() - start < 20
    assert child.returncode != 0
    assert not os.listdir(tmp_path)


@POSIX
def test_no_permission(digits, converted, tmp_path):
    """As an ordinary user: files that may not be read, folders that may not be written."""
    script = (
        "import os, sys, stat\n"
        "from MNN.cli.main import app, guarded\n"
        "def run(*arguments):\n"
        "    try:\n"
        "        guarded(app, 'mnn', list(arguments))\n"
        "    except SystemExit as end:\n"
        "        return end.code\n"
        "good = 'good.mnn'\n"
        "assert run('convert', good, 'open/first.mnn') in (0, None)\n"  # imports what is imported late
        "assert run('run', good, '--random') in (0, None)\n"
        "assert run('dump', good, 'open/first.json') in (0, None)\n"
        "assert run('info', 'none') == run('info') == 2\n"
        "os.chmod('shut', 0o555); os.chmod('secret.mnn', 0); os.chmod('secret.npy', 0); os.chmod('.', 0o777)\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print([run('convert', 'secret.mnn', 'open/a.mnn'), run('info', 'secret.mnn'),\n"
        "       run('convert', good, 'shut/a.mnn'), run('dump', good, 'shut/a.json'),\n"
        "       run('run', good, '-i', 'secret.npy'), run('run', good, '--random', '-o', 'shut/out')])\n"
    )
    for name in ("shut", "open"):
        (tmp_path / name).mkdir()
    for name in ("good.mnn", "secret.mnn"):
        shutil.copyfile(converted, tmp_path / name)
    (tmp_path / "secret.npy").write_bytes(b"\x93NUMPY")
    parents = [p for p in tmp_path.parents if p.stat().st_uid == os.getuid() and not p.stat().st_mode & 1]
    for folder in parents:  # the ordinary user must reach this folder
        os.chmod(folder, folder.stat().st_mode | 0o711)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=False)
    assert done.stdout.splitlines()[-1:] == ["[2, 2, 2, 2, 2, 2]"], done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("Permission denied") + done.stderr.count("is not readable") == 6, done.stderr
