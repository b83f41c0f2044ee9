"""Networks of PyTorch's world for :mod:`benchmarks.pytorch_speed`: of timm, torchvision, transformers, and by hand.

Weights are seeded, and batch normalisations have the statistics of noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Network:
    """A module and its inputs, both made from the seed that is set before."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]


def image(size: int = 224) -> Callable[[], Inputs]:
    return lambda: (torch.randn(1, 3, size, size),)


def _timm(name: str, size: int = 224) -> Network:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False)

    return Network(make, image(size))


def _video(name: str) -> Network:
    def make() -> nn.Module:
        from torchvision.models import video

        return getattr(video, name)(weights=None)

    return Network(make, lambda: (torch.randn(1, 3, 8, 112, 112),))


class First(nn.Module):
    """A model of transformers with an argument by name, of whose answers the first counts."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, given, strict=True)))[0]


def _transformers(name: str, config: str, *arguments: str, part: str = "", given: Callable[[], Inputs]) -> Network:
    def make() -> nn.Module:
        import transformers

        settings = getattr(transformers, config)()
        settings.use_cache = False
        model = getattr(transformers, name)(settings)
        return First(getattr(model, part) if part else model, *arguments)

    return Network(make, given)


def tokens(length: int = 128) -> Callable[[], Inputs]:
    return lambda: (torch.randint(3, 20000, (1, length)),)


def hidden() -> Inputs:
    """Tokens of a decoder and what its encoder has given."""
    return torch.randint(3, 20000, (1, 32)), torch.randn(1, 128, 512)


class Tagger(nn.Module):
    """Two recurrent layers in both directions over 64 embedded words."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20000, 256)
        self.layers = kind(256, 256, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(512, 64)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(words))[0])


class Speech(nn.Module):
    """As voice detectors are: a learnt spectrum, its size, convolutions over time, an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = nn.Conv1d(1, 258, 256, stride=128, padding=64, bias=False)
        sizes = [129, 128, 64, 64, 128]
        pairs = itertools.pairwise(sizes)
        steps = [layer for a, b in pairs for layer in (nn.Conv1d(a, b, 3, padding=1), nn.ReLU())]
        self.encoder = nn.Sequential(*steps)
        self.memory = nn.LSTM(128, 128, batch_first=True)
        self.head = nn.Conv1d(128, 1, 1)

    def forward(self, sound: Tensor) -> Tensor:
        real, imaginary = self.spectrum(sound.unsqueeze(1)).chunk(2, 1)
        found = self.encoder(torch.sqrt(real * real + imaginary * imaginary + 1e-6))
        found, _ = self.memory(found.transpose(1, 2))
        return torch.sigmoid(self.head(torch.relu(found.transpose(1, 2))))


class UNet(nn.Module):
    """Four levels with 32 to 256 channels, joined by concatenation (Ronneberger et al. 2015)."""

    def __init__(self, width: int = 32, levels: int = 4) -> None:
        super().__init__()

        def pair(a: int, b: int) -> nn.Sequential:
            steps = [(nn.Conv2d(i, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for i in (a, b)]
            return nn.Sequential(*(layer for step in steps for layer in step))

        widths = [width << i for i in range(levels)]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip([3, *widths], widths, strict=False))
        falling = widths[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in itertools.pairwise(falling))
        self.join = nn.ModuleList(pair(a, b) for a, b in itertools.pairwise(falling))
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([up(x), beside], 1))
        return self.head(x)


NETWORKS: dict[str, Network] = {
    **{
        name: _timm(name)
        for name in (
            "resnet50", "mobilenetv2_100", "mobilenetv3_large_100", "efficientnet_b0", "regnety_008", "densenet121",
            "convnext_tiny", "vit_small_patch16_224", "swin_tiny_patch4_window7_224", "mixer_s16_224", "ghostnet_100",
            "repvgg_a0", "poolformer_s12", "levit_128s", "tf_efficientnetv2_b0", "hrnet_w18_small", "fastvit_t8",
            "xcit_nano_12_p16_224",
        )
    },
    "mobilevit_s": _timm("mobilevit_s", 256),
    "maxvit_rmlp_pico_rw_256": _timm("maxvit_rmlp_pico_rw_256", 256),
    "unet": Network(UNet, image(256)),
    "r3d_18": _video("r3d_18"),
    "mc3_18": _video("mc3_18"),
    "bert_base": _transformers("BertModel", "BertConfig", "input_ids", given=tokens()),
    "distilbert": _transformers("DistilBertModel", "DistilBertConfig", "input_ids", given=tokens()),
    "t5_small_encoder": _transformers("T5EncoderModel", "T5Config", "input_ids", given=tokens()),
    "t5_small_decoder": _transformers(
        "T5Model", "T5Config", "input_ids", "encoder_hidden_states", part="decoder", given=hidden
    ),
    "gpt2": _transformers("GPT2Model", "GPT2Config", "input_ids", given=tokens(64)),
    "whisper_tiny_encoder": _transformers(
        "WhisperModel", "WhisperConfig", "input_features", part="encoder", given=lambda: (torch.randn(1, 80, 3000),)
    ),
    "wav2vec2_base": _transformers(
        "Wav2Vec2Model", "Wav2Vec2Config", "input_values", given=lambda: (torch.randn(1, 16000),)
    ),
    "lstm_tagger": Network(lambda: Tagger(nn.LSTM), tokens(64)),
    "gru_tagger": Network(lambda: Tagger(nn.GRU), tokens(64)),
    "speech_lstm": Network(Speech, lambda: (torch.randn(1, 16000),)),
}  # fmt: skip


def made(name: str) -> tuple[nn.Module, Inputs]:
    """The network, ready to answer, and its inputs."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name].make(), NETWORKS[name].inputs()
    for weight in model.parameters():
        if weight.dim() > 1 and not weight.any():  # heads that training begins at zero, whose answers would be all zero
            nn.init.normal_(weight, std=0.02)
    normalisations = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if normalisations:
        for layer in normalisations:
            layer.momentum = 1.0
        model.train()
        model(*(torch.cat([x] * 2) + torch.randn(2, *x.shape[1:]) for x in inputs))
    return model.eval(), inputs
