"""Fetching a model from the Hugging Face Hub: file by file, going on where it was broken off."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from MNN.errors import MNNError
from MNN.formatting import nbytes
from MNN.llm.hub.choosing import chosen
from MNN.progress import ReportProgress, silent

ENDPOINT, TOKEN, NO_TELEMETRY = "HF_ENDPOINT", "HF_TOKEN", "HF_HUB_DISABLE_TELEMETRY"
_PIECE = 8 << 20


def download(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    files: Sequence[str] = (),
    revision: str | None = None,
    told: ReportProgress = silent,
) -> Path:
    """Fetches a model from the Hub, and gives its folder.

    ``name``: as ``HuggingFaceTB/SmolLM2-135M-Instruct``. ``folder``: where to, by default the last part of the name.
    ``files``: patterns of those to fetch (``*Q4_K_M.gguf``), by default what the model needs here. ``revision``: a
    branch, tag or commit. ``told`` hears of megabytes. What is there already is not fetched again, and a file that was
    broken off goes on where it ended. Private and gated models need a token in ``HF_TOKEN`` (or ``hf auth login``);
    ``HF_ENDPOINT`` names another server.

    Raises :class:`MNNError` where the extra ``hub`` is not installed, the network or the model cannot be reached, the
    disk has no room, another file would be replaced, or what came is not what the server promised.
    """
    hub = _library()
    endpoint = (os.environ.get(ENDPOINT) or "https://huggingface.co").rstrip("/")
    name = name.removeprefix(f"{endpoint}/").strip("/")
    where = f"{name:.100} at {endpoint}"
    place = Path(name.rpartition("/")[2] if folder is None else folder)
    with _explained(where, name, endpoint, revision):
        found = hub.HfApi(endpoint=endpoint).model_info(name, revision=revision, files_metadata=True)
    held = {entry.rfilename: _File.of(entry) for entry in found.siblings or ()}
    sizes = {file: entry.size for file, entry in held.items()}
    wanted = chosen(sizes, files, where)
    missing = _missing({file: held[file] for file in wanted}, place, where, told)
    _check_room(place, sum(sizes[file] for file in missing))
    total = sum(sizes[file] for file in missing)
    with _explained(where, name, endpoint, revision):
        for number, file in enumerate(missing):
            before = sum(sizes[other] for other in missing[:number])
            url = hub.hf_hub_url(name, file, revision=found.sha or revision, endpoint=endpoint)
            _fetch(url, place / file, held[file], where, _reporting(told, file, before, total))
    return place


@dataclass(frozen=True)
class _File:
    """What the server says of a file: bytes, and the SHA-256 (of large ones) or what git calls it by."""

    size: int
    sha256: str = ""
    blob: str = ""

    @classmethod
    def of(cls, entry: Any) -> _File:
        large = entry.lfs
        return cls(int(entry.size or 0), large.sha256 if large is not None else "", entry.blob_id or "")

    def is_in(self, file: Path) -> bool:
        """Whether a file holds what the server has."""
        if file.stat().st_size != self.size:
            return False
        if not self.sha256 and not self.blob:
            return True
        summed = hashlib.sha256() if self.sha256 else hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        with file.open("rb") as held:
            while piece := held.read(_PIECE):
                summed.update(piece)
        return summed.hexdigest() == (self.sha256 or self.blob)


def _library() -> ModuleType:
    os.environ.setdefault(NO_TELEMETRY, "1")  # read when it is imported
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MNNError(
            f'the package {error.name} is needed to fetch models; install it with: pip install "mnn-py[hub]"'
        ) from error


@contextlib.contextmanager
def _explained(where: str, name: str, endpoint: str, revision: str | None) -> Iterator[None]:
    """Errors of the library become sentences."""
    errors = importlib.import_module("huggingface_hub.errors")
    token = f"set {TOKEN} to a token of yours ({endpoint}/settings/tokens)"
    try:
        yield
    except errors.HFValidationError as error:
        raise MNNError(f"{name!r:.100} is no model's name; one looks like owner/model ({error})") from error
    except errors.GatedRepoError as error:
        raise MNNError(
            f"{where} is for those who agreed to its terms: do so at {endpoint}/{name}, and {token}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise MNNError(f"{where} has no revision {revision!r:.100}; give a branch, a tag or a commit") from error
    except errors.RepositoryNotFoundError as error:
        raise MNNError(f"there is no model {where}, or it is a private one: then {token}") from error
    except errors.OfflineModeIsEnabled as error:
        raise MNNError(f"{where} cannot be fetched: HF_HUB_OFFLINE is set") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        advice = f"; {token}" if status in (401, 403) else "; try again later" if status == 429 else ""
        raise MNNError(f"{where}: the server answered with status {status}{advice}") from error
    except errors.HTTPError as error:  # no answer at all
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise MNNError(
            f"{where} cannot be reached ({reason:.200}). Look at the network; run it again to go on where it ended"
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise  # of the disk
        raise MNNError(f"{where}: {str(error).splitlines()[0]:.300}; run it again") from error


def _missing(wanted: Mapping[str, _File], place: Path, where: str, told: ReportProgress) -> list[str]:
    """What is not there yet. MNNError where something else is in the way."""
    missing = []
    for number, (file, entry) in enumerate(wanted.items()):
        told("looking at what is there", number, len(wanted))
        found = place / file
        above = next((folder for folder in found.parents if folder.exists() and not folder.is_dir()), None)
        if above is not None:
            raise MNNError(f"{above} is a file; name a folder for the model")
        if not found.exists():
            missing.append(file)
        elif not entry.is_in(found):
            raise MNNError(f"{found} is there, but is not that of {where}; name another folder, or remove it")
    return missing


def _check_room(place: Path, size: int) -> None:
    above = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(above).free
    if size > free:
        raise MNNError(f"the model needs {nbytes(size)}; there is room for {nbytes(free)} at {above}")


def _fetch(url: str, file: Path, entry: _File, where: str, bar: type[Any]) -> None:
    """A file, whole or not at all; what came of it stays beside it, under a name that says which content it is of."""
    hub = importlib.import_module("huggingface_hub.file_download")
    headers = importlib.import_module("huggingface_hub.utils").build_hf_headers()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{(entry.sha256 or entry.blob)[:12] or 'new'}.part")
    with part.open("ab"):
        pass
    with part.open("r+b") as held:  # the library may begin anew where a server cannot go on
        begin = held.seek(0, os.SEEK_END)
        if begin > entry.size or not (entry.sha256 or entry.blob):
            begin = held.seek(0)
            held.truncate()
        hub.http_get(url, held, resume_size=begin, headers=headers, expected_size=entry.size, tqdm_class=bar)
    if not entry.is_in(part):
        part.unlink()
        raise MNNError(f"{file} came damaged: it is not what {where} promised, and is not kept; run it again")
    part.replace(file)


def _reporting(told: ReportProgress, file: str, before: int, total: int) -> type[Any]:
    """What the library tells how far a file is, as it tells bars of ``tqdm``."""
    bars: Any = importlib.import_module("tqdm").tqdm

    class Reporting(bars):  # type: ignore[misc]
        """Shows nothing itself."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})
            self._bytes = int(kwargs.get("initial") or 0)
            self._tell()

        def update(self, n: float | None = 1) -> None:
            self._bytes += int(n or 0)
            self._tell()

        def _tell(self) -> None:
            told(f"{file}, MB", (before + self._bytes) // 1_000_000, max(total // 1_000_000, 1))

    return Reporting


__all__ = ["ENDPOINT", "TOKEN", "download"]
