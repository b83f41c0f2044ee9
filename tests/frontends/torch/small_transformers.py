"""Small random models of the architectures of transformers, and inputs that they take.

A configuration is made small where its fields have names of sizes; what the architecture then refuses is tried with
fewer of them made small, down to nothing but the number of layers. Inputs are found in the same way: of all that the
``forward`` of an architecture could mean by its parameters, the first that it runs with.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

WIDTHS = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "embedding_size": 32, "emb_dim": 32,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "ffn_dim": 48, "d_ff": 48,
    "n_inner": 48, "hidden_dim": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "d_kv": 8, "head_dim": 8,
    "projection_dim": 16, "rotary_dim": 8, "moe_intermediate_size": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_head_dim": 16, "index_head_dim": 16, "index_n_heads": 2,
    "index_topk": 4,
}  # fmt: skip
NUMBERS = {
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_encoder_layers": 2, "vocab_size": 120, "max_position_embeddings": 64,
    "n_positions": 64, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "n_routed_experts": 4,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "dropout": 0.0, "prediction_length": 4,
    "depth": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "num_queries": 10, "mlp_ratio": 2,
    "audio_token_id": 117, "image_token_id": 118, "image_token_index": 118, "video_token_id": 116,
    "vision_start_token_id": 115, "vision_end_token_id": 114, "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 2, "num_blocks": 2, "context_length": 12,
}  # fmt: skip
IMAGES = {"image_size": 32, "patch_size": 8, "num_mel_bins": 16}
LISTS = {
    "hidden_sizes": 16, "embed_dims": 16, "embed_dim": 16, "depths": 1, "num_heads": 2, "num_attention_heads": 2,
    "encoder_hidden_sizes": 16, "layers": 1, "dims": 16, "decoder_hidden_sizes": 16,
}  # fmt: skip
"""Fields that are a number for each stage: the first one, doubled from stage to stage where it is a width."""
BINS = ("num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel", "num_mels", "model_in_dim")
LEVELS = (
    (WIDTHS | NUMBERS | IMAGES, True),
    (WIDTHS | NUMBERS | IMAGES, False),
    (WIDTHS | NUMBERS | IMAGES | {"num_key_value_heads": 4}, False),
    (WIDTHS | NUMBERS, False),
    (NUMBERS | IMAGES, True),
    (NUMBERS | {"image_size": 64}, False),
    ({k: v for k, v in NUMBERS.items() if "token" not in k}, False),
    ({k: v for k, v in NUMBERS.items() if "layer" in k}, False),
    ({}, False),
)
"""What is made small, more to less, and whether lists are."""


def _smaller(config: Any, names: dict[str, Any], lists: bool) -> dict[str, Any]:
    """Arguments for a configuration of the same type, with parts of it as dictionaries."""
    held = getattr(config, "__dict__", {})
    given: dict[str, Any] = {}
    for key in names:
        try:
            value = getattr(config, key, None)
        except Exception:  # noqa: BLE001
            continue
        if value is None and key == "prediction_length" and hasattr(config, key):
            given[key] = names[key]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            given[key] = type(value)(names[key])
    for key, value in held.items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            given[key] = _smaller(value, names, lists) | {"model_type": value.model_type}
            for kept in ("backbone", "out_indices", "out_features"):
                if getattr(value, kept, None) is not None and (not lists or "timm" in value.model_type):
                    given[key][kept] = getattr(value, kept)
        elif isinstance(value, dict) and "rope_theta" in value and "head_dim" in names:
            given[key] = value | {"mrope_section": [2, 1, 1]}
        elif lists and key in LISTS and isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
            first = LISTS[key]
            given[key] = [min(first, 2) if first <= 2 else first * 2 ** min(i, 2) for i in range(len(value))]
    return given


def _classes(kind: str) -> Iterator[type]:
    """Classes of models of an architecture: transformers' choice, then those of its file, the plainest first."""
    config_type = CONFIG_MAPPING[kind]
    mapping = transformers.models.auto.modeling_auto.MODEL_MAPPING
    if config_type in mapping:
        found = mapping[config_type]
        yield from found if isinstance(found, (list, tuple)) else [found]
    name = config_type.__module__.replace("configuration_", "modeling_")
    try:
        module = import_module(name)
    except Exception:  # noqa: BLE001
        return
    fitting = [
        c
        for c in vars(module).values()
        if inspect.isclass(c) and issubclass(c, torch.nn.Module) and getattr(c, "config_class", None) is config_type
        and c.__module__ == name and "PreTrainedModel" not in c.__name__
    ]  # fmt: skip
    yield from sorted(fitting, key=lambda c: ("For" in c.__name__, "coder" in c.__name__, len(c.__name__)))


def _drawn(model: torch.nn.Module) -> torch.nn.Module:
    """Weights that tell: routers of zeros would leave a choice open, new normalisations would hide their numbers."""
    with torch.no_grad():
        for p in model.parameters():
            alike = p.dim() > 1 and bool((p == p.flatten()[:1]).all())
            if alike or not torch.isfinite(p).all() or p.abs().max() > 10:
                p.normal_(0, 0.05)
        for module in model.modules():
            if isinstance(getattr(module, "running_var", None), torch.Tensor):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.7, 1.3)
    return model.eval()


def _configured(config_type: type, given: dict[str, Any]) -> Any:
    """A configuration, without fields that it complains about by name."""
    given = dict(given)
    for _ in range(6):
        try:
            return config_type(**given)
        except (TimeoutError, KeyboardInterrupt):
            raise
        except Exception as error:
            named = [k for k in given if k in str(error)]
            if not named:
                raise
            del given[named[0]]
    return config_type(**given)


def models(kind: str, most: int = 70_000_000) -> Iterator[torch.nn.Module]:
    """Models of an architecture with so many parameters at most, the smallest first. What its configuration refuses is
    left out."""
    config_type = CONFIG_MAPPING[kind]
    default = config_type()
    seen: list[dict[str, Any]] = []
    for cls in _classes(kind):
        built = 0
        for names, lists in LEVELS:
            given = _smaller(default, names, lists)
            if given in seen and built:
                continue
            seen.append(given)
            try:
                config = _configured(config_type, given)
                config._attn_implementation = "eager"
                with torch.device("meta"):
                    count = sum(p.numel() for p in cls(config).parameters())
                if count > most:
                    continue
                config = _configured(config_type, given)
                config._attn_implementation = "eager"
                torch.manual_seed(3)
                model = cls(config)
            except (TimeoutError, KeyboardInterrupt):
                raise
            except Exception as error:  # noqa: BLE001
                models.said = f"{type(error).__name__}: {error}"  # type: ignore[attr-defined]
                continue
            built += 1
            yield _drawn(model)


def _texts(config: Any, names: Any, batch: int, length: int, g: torch.Generator) -> dict[str, torch.Tensor]:
    text = getattr(config, "text_config", None) or config
    size = min(int(getattr(text, "vocab_size", None) or 100), 100)
    found: dict[str, torch.Tensor] = {}
    for name in ("input_ids", "decoder_input_ids"):
        if name in names:
            found[name] = torch.randint(3, size, (batch, length), generator=g)
    if "input_ids" in names and "attention_mask" in names:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length - 2 :] = 0
        found["attention_mask"] = mask
    if "bbox" in names:
        found["bbox"] = torch.randint(0, 50, (batch, length, 4), generator=g).sort(-1).values
    return found


def _parts(config: Any) -> list[Any]:
    return [config, *(v for v in vars(config).values() if hasattr(v, "model_type"))]


def _field(config: Any, names: tuple[str, ...], default: int) -> int:
    """The first number of a name in a configuration or its parts."""
    for part in _parts(config):
        for name in names:
            try:
                value = getattr(part, name, None)
            except Exception:  # noqa: BLE001
                continue
            if isinstance(value, int) and not isinstance(value, bool) and value:
                return value
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                return int(value[0])
    return default


def candidates(model: torch.nn.Module, batch: int, length: int) -> Iterator[dict[str, torch.Tensor]]:
    """Inputs that the model's ``forward`` may mean, the likeliest first."""
    names = inspect.signature(model.forward).parameters
    config = model.config

    def g() -> torch.Generator:
        return torch.Generator().manual_seed(batch * 100 + length)

    text = _texts(config, names, batch, length, g())
    side = _field(config, ("image_size", "input_size", "img_size"), 64)
    channels = _field(config, ("num_channels", "in_channels", "num_input_channels"), 3)
    frames = _field(config, ("num_frames",), 2)
    bins = _field(
        config, ("num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel", "num_mels", "model_in_dim"), 80
    )
    features = _field(config, ("input_size", "num_input_channels", "hidden_size", "d_model"), 1)
    past = (_field(config, ("context_length",), 32), _field(config, ("num_input_channels",), 1))
    books = _field(config, ("num_codebooks", "n_codebooks"), 4)
    width = _field(config, ("hidden_size", "d_model", "n_embd"), 32)
    main = next((n for n in names if n not in ("self", "kwargs", "args")), "")
    images = [torch.randn(batch, channels, s, s, generator=g()) for s in dict.fromkeys((side, 64, 128, 224))]
    sounds = 2 * _field(config, ("max_source_positions",), 32)
    kinds: dict[str, list[torch.Tensor]] = {
        "pixel_values": [*images, torch.randn(batch, frames, channels, side, side, generator=g())],
        "input_features": [
            torch.randn(batch, bins, sounds, generator=g()), torch.randn(batch, 64, bins, generator=g()),
            torch.randn(batch, 1, bins, 64, generator=g()), torch.randn(batch, 64, 128, generator=g()),
            torch.randn(batch, 128, 64, generator=g()), torch.randn(batch, 1, 1001, 64, generator=g()),
            torch.randn(batch, 64, 160, generator=g()),
        ],
        "input_values": [
            torch.randn(batch, 1600, generator=g()), torch.randn(batch, 1, 3200, generator=g()),
            torch.randn(batch, 1024, bins, generator=g()), torch.randn(batch, 64, 80, generator=g()),
        ],
        "past_values": [
            torch.randn(batch, *past, generator=g()),
            torch.randn(batch, 64, generator=g()),
        ],
        "spectrogram": [torch.randn(batch, 20, bins, generator=g())],
        "hidden_states": [torch.randn(batch, length, width, generator=g()), *images],
        "query_embeds": [torch.randn(batch, length, width, generator=g())],
        "inputs_embeds": [torch.randn(batch, length, width, generator=g())],
        "audio_codes": [torch.randint(0, 50, (batch, books, length), generator=g())],
        "inputs": [
            torch.randn(batch, length, _field(config, ("d_model",), features), generator=g()),
            torch.randint(3, 100, (batch, length), generator=g()),
        ],
        "visual_feats": [torch.randn(batch, 5, _field(config, ("visual_feat_dim",), 2048), generator=g())],
        "states": [torch.randn(batch, length, _field(config, ("state_dim",), 17), generator=g())],
        "flattened_patches": [torch.randn(batch, 12, 2 + 768, generator=g())],
    }  # fmt: skip
    kinds["pixel_values_videos"] = [kinds["pixel_values"][-1]]
    kinds["encoder_hidden_states"] = kinds["hidden_states"]
    media = [n for n in kinds if n in names]
    own = [n for n in media if n == main or names[n].default is inspect.Parameter.empty]
    if text:
        token = next((v for k in ("image_token_id", "image_token_index") if (v := getattr(config, k, None))), None)
        if token is not None and hasattr(model, "get_image_features") and "pixel_values" in names:
            for picture in images[:1]:
                yield from _with_image(model, text, picture, int(token))
    for name in own or media:
        for tensor in kinds[name]:
            more = {n: kinds[n][0] for n in own if n != name}
            yield {**text, name: tensor, **more}
            yield {name: tensor, **more}
            if name not in ("pixel_values", "hidden_states") and "attention_mask" in names and tensor.dim() == 3:
                mask = torch.ones(batch, tensor.shape[-1], dtype=torch.int64)
                yield {name: tensor, "attention_mask": mask}
            for other in ("input_features_mask", "feature_attention_mask", "past_values_padding", "past_observed_mask"):
                if other in names:
                    lengths = {tensor.shape[1], tensor.shape[-1]}
                    for n in lengths:
                        yield {**text, name: tensor, other: torch.ones(batch, n, dtype=torch.int64)}
    for name in media:
        for tensor in kinds[name]:
            yield {**text, name: tensor}
    if text:
        yield text
        yield {n: v for n, v in text.items() if n != "attention_mask"}


def _with_image(
    model: Any, text: dict[str, torch.Tensor], picture: torch.Tensor, token: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Texts in which as many places are an image's as the model makes of one."""
    try:
        made = model.get_image_features(picture)
        made = getattr(made, "pooler_output", made)
        parts = list(made) if not isinstance(made, torch.Tensor) else [made]
        width = parts[0].shape[-1]
        count = sum(p.numel() for p in parts) // width // picture.shape[0]
    except (TimeoutError, KeyboardInterrupt):
        raise
    except Exception:  # noqa: BLE001
        return
    ids = text["input_ids"]
    marks = torch.full((ids.shape[0], count), token)
    found = dict(text)
    found["input_ids"] = torch.cat([ids[:, :3], marks, ids[:, 3:]], 1)
    if "attention_mask" in found:
        found["attention_mask"] = torch.cat([torch.ones_like(marks), found["attention_mask"]], 1)
    yield {**found, "pixel_values": picture}
