"""Settings as PyMNN spells them: backends, precision, threads; by name, by number or by enumeration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from MNN.errors import MNNError
from MNN.runtime.config import Config
from MNN.warning import warn

_BACKENDS = {
    0: "CPU", 1: "METAL", 2: "CUDA", 3: "OPENCL", 4: "AUTO", 5: "NN", 6: "OPENGL", 7: "VULKAN", 9: "TRT", 10: "HIAI",
}  # fmt: skip
_PRECISIONS = {
    "normal": "normal", "high": "high", "low": "low", "low_bf16": "low", "0": "normal", "1": "high", "2": "low",
    "3": "low",
}  # fmt: skip


def check_backend(backend: object) -> bool:
    """Accepts the name or number of a backend, and says whether it is here. Those that this engine lacks fall back to
    the CPU with a warning, as in PyMNN; anything else raises :class:`MNNError`."""
    name = backend.name if isinstance(backend, Enum) else backend
    name = _BACKENDS.get(name, name) if isinstance(name, int) else name
    if not isinstance(name, str) or name.upper() not in _BACKENDS.values():
        raise MNNError(f"backend {backend!r} is not known; it is one of {', '.join(_BACKENDS.values())}")
    here = name.upper() in ("CPU", "AUTO")
    if not here:
        warn(f"this engine has no backend {name.upper()}; the model runs on the CPU")
    return here


def precision_name(precision: object) -> str:
    """The engine's name of a precision. Raises :class:`MNNError` for unknown ones."""
    name = precision.name if isinstance(precision, Enum) else precision
    found = _PRECISIONS.get(str(name).lower())
    if found is None:
        raise MNNError(f"precision {precision!r} is not known; it is one of normal, high, low")
    return found


def config_of(settings: object) -> Config:
    """A configuration from PyMNN's dictionary: ``backend``, ``precision``, ``numThread``. Other keys have no meaning
    here (``power``, ``memory``, ``saveTensors``, ``inputPaths``, ``outputPaths``) and are ignored."""
    if settings is None:
        return Config()
    if not isinstance(settings, Mapping):
        raise MNNError(
            f"settings are a dictionary such as {{'backend': 'CPU', 'numThread': 4}}, found {type(settings).__name__}"
        )
    check_backend(settings.get("backend", "CPU"))
    threads = settings.get("numThread", 1)
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise MNNError(f"numThread must be a whole number, found {threads!r}")
    return Config(threads=max(threads, 1), precision=precision_name(settings.get("precision", "normal")))


class RuntimeManager:
    """Settings shared by modules. Compiled kernels are always shared and cached on disk, so that ``set_cache`` and
    ``update_cache`` have nothing left to do."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.external = ""

    def set_cache(self, path: str) -> None:
        """Taken for PyMNN's sake: kernels are cached for all models in one place (``MNN_CACHE_DIR``)."""

    def update_cache(self) -> None:
        """Taken for PyMNN's sake, like :meth:`set_cache`."""

    def set_external(self, path: str, kind: int = 0) -> None:
        """Taken for PyMNN's sake: external weights are found beside the model."""
        self.external = path

    def set_mode(self, mode: int) -> None:
        """Taken for PyMNN's sake: it changes nothing here."""

    def set_hint(self, hint: int, value: int) -> None:
        """Taken for PyMNN's sake: it changes nothing here."""


def create_runtime_manager(configs: Sequence[Mapping[str, object]] | Mapping[str, object]) -> RuntimeManager:
    """Settings from one dictionary, or from a sequence whose first one counts."""
    if isinstance(configs, Mapping):
        return RuntimeManager(config_of(configs))
    if not isinstance(configs, Sequence) or not configs:
        raise MNNError(f"expected a dictionary of settings or a sequence of them, found {configs!r}")
    return RuntimeManager(config_of(configs[0]))
