"""Makes the environments of the other engines: ``python -m benchmarks.setup_peers [--work DIR]``.

Two virtual environments, with pinned versions, in DIR (default ``MNN_BENCH_DIR``, else the user's cache folder; never
inside this repository): ``peers`` runs the engines, ``converters`` (torch and the engines' own converters) brings
models into their formats. About 4 GB; each is made only if it is not there yet in this form.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from .peers.catalog import ENVIRONMENTS

REPOSITORY = Path(__file__).resolve().parents[1]


def work_folder(chosen: Path | None = None) -> Path:
    """Where environments, models and converted files go."""
    if chosen is None and os.environ.get("MNN_BENCH_DIR"):
        chosen = Path(os.environ["MNN_BENCH_DIR"])
    if chosen is None:
        chosen = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mnn-py-benchmarks"
    chosen = chosen.absolute()
    if chosen.resolve().is_relative_to(REPOSITORY):
        raise SystemExit(f"{chosen} lies inside the repository; choose a folder outside of it")
    return chosen


def interpreter(work: Path, name: str) -> Path:
    """The Python of environment ``name``."""
    return work / name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def make(work: Path, name: str) -> None:
    """Create environment ``name`` unless it is there with these very requirements."""
    requirements = ENVIRONMENTS[name]
    tag = hashlib.sha256("\n".join(requirements).encode()).hexdigest()
    mark = work / name / "requirements.sha256"
    if mark.is_file() and mark.read_text() == tag:
        print(f"{work / name}: ready")
        return
    shutil.rmtree(work / name, ignore_errors=True)
    venv.create(work / name, with_pip=True)
    subprocess.run([str(interpreter(work, name)), "-m", "pip", "install", "--quiet", *requirements], check=True)
    disarm(work, name)
    mark.write_text(tag)
    print(f"{work / name}: made")


def disarm(work: Path, name: str) -> None:
    """Remove what the official MNN wheel and OpenVINO would send home.

    On start, MNN's command-line tools install a logging package into whatever Python comes first and upload usage; the
    engine and converter used here (``_tools``) do not need them. OpenVINO works without its telemetry package.
    """
    python = interpreter(work, name)
    found = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    (Path(found.stdout.strip()) / "MNN" / "tools" / "utils" / "log.py").unlink(missing_ok=True)
    for script in ("mnn", "mnnconvert", "mnnquant"):
        for suffix in ("", ".exe"):
            python.with_name(script + suffix).unlink(missing_ok=True)
    subprocess.run([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "openvino-telemetry"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for environments and models")
    parser.add_argument("--only", choices=sorted(ENVIRONMENTS), help="make one environment only")
    options = parser.parse_args()
    work = work_folder(options.work)
    work.mkdir(parents=True, exist_ok=True)
    for name in [options.only] if options.only else ENVIRONMENTS:
        make(work, name)


if __name__ == "__main__":
    main()
