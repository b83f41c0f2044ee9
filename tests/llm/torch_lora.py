"""Runs where torch is: ``python -m tests.llm.torch_lora GIVEN.npz RESULTS.npz``.

A Llama in plain torch (with the names of Hugging Face's checkpoints) with adapters of low rank, trained by AdamW; what
is written are the losses of all steps."""

import json
import sys
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from tests.train.torch_steps import steps


def turned(x, cos, sin):
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


class Llama:
    def __init__(self, given, config):
        self.weights = {n[2:]: torch.from_numpy(given[n]) for n in given.files if n.startswith("w/")}
        self.pairs = {n[2:]: torch.nn.Parameter(torch.from_numpy(given[n])) for n in given.files if n.startswith("p/")}
        self.config = config

    def linear(self, x, name):
        y = functional.linear(x, self.weights[f"{name}.weight"])
        if f"{name}.lora_A" in self.pairs:
            low = functional.linear(x, self.pairs[f"{name}.lora_A"])
            y = y + self.config["scale"] * functional.linear(low, self.pairs[f"{name}.lora_B"])
        return y

    def norm(self, x, name):
        return functional.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.config["rms_norm_eps"])

    def attention(self, x, at):
        count, groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        q, k, v = (self.linear(x, f"{at}.{kind}_proj").unflatten(-1, (n, -1)).transpose(1, 2)
                   for kind, n in (("q", count), ("k", groups), ("v", groups)))  # fmt: skip
        size = q.shape[-1]
        angles = torch.arange(x.shape[1])[:, None] * self.config["rope_theta"] ** -(torch.arange(0, size, 2) / size)
        q, k = (turned(t, angles.cos(), angles.sin()) for t in (q, k))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.linear(mixed.transpose(1, 2).flatten(2), f"{at}.o_proj")

    def logits(self, tokens):
        x = self.weights["model.embed_tokens.weight"][tokens]
        for i in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{i}"
            x = x + self.attention(self.norm(x, f"{at}.input_layernorm"), f"{at}.self_attn")
            y = self.norm(x, f"{at}.post_attention_layernorm")
            gate = functional.silu(self.linear(y, f"{at}.mlp.gate_proj"))
            x = x + self.linear(gate * self.linear(y, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
        return functional.linear(self.norm(x, "model.norm"), self.weights["model.embed_tokens.weight"])


def main(source, target):
    with np.load(source) as given:
        config = json.loads(given["config"].tobytes())
        torch.set_num_threads(config["threads"])
        model, tokens = Llama(given, config), torch.from_numpy(given["tokens"]).long()
        optimizer = torch.optim.AdamW(model.pairs.values(), config["rate"], weight_decay=0.01)

        def loss(batch):
            logits = model.logits(batch[:, :-1])
            return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

        losses = steps(optimizer, (partial(loss, batch) for batch in tokens))
        np.savez(target, losses=np.array(list(losses)))


if __name__ == "__main__":
    main(*sys.argv[1:])
