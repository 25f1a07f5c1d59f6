#!/usr/bin/env python3
"""Perplexity of a small language model whose linear layers are computed by Pith.

    python python/tools/perplexity.py MODEL_FOLDER IDS.npy [--windows N] [--every K] [--markdown]

MODEL_FOLDER has model.safetensors and config.json of a Llama with the tensor names of Hugging
Face; IDS.npy has token ids. Windows of 512 ids do not overlap; every next id is predicted. The
forward pass is numpy's; only the linear layers (and so not the embedding, nor the head that is
tied to it) change from scheme to scheme.
"""

import argparse
import json
import pathlib
import time

import numpy as np

import pith

LINEARS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


class Llama:
    """The network; `layer(name, weight)` makes what computes a linear layer."""

    def __init__(self, folder, layer):
        config = json.loads((folder / "config.json").read_text())
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads", self.heads)
        self.eps = config.get("rms_norm_eps", 1e-5)
        self.theta = config.get("rope_theta", 10000.0)
        self.layers = config["num_hidden_layers"]
        model = pith.open(folder / "model.safetensors")
        self.w = {name: t.read() for name, t in model.items()}
        self.bytes = 0
        self.linear = {}
        for i in range(self.layers):
            for part in LINEARS:
                name = f"model.layers.{i}.{part}"
                self.linear[name], size = layer(name, self.w.pop(name + ".weight"))
                self.bytes += size
        self.embedding = self.w["model.embed_tokens.weight"]
        self.head = self.w.get("lm_head.weight", self.embedding)

    def norm(self, x, name):
        scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(self.eps))
        return x * scale * self.w[name]

    def rotate(self, x):
        """Rotary positions, half-split order; x is (windows, heads, positions, size)."""
        half = x.shape[-1] // 2
        frequency = self.theta ** (-np.arange(half) / half)
        angle = np.arange(x.shape[-2])[:, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def attention(self, x, prefix):
        windows, positions, width = x.shape
        size = width // self.heads

        def heads(part, count):
            y = self.linear[f"{prefix}.{part}"](x)
            return y.reshape(windows, positions, count, size).transpose(0, 2, 1, 3)

        q = self.rotate(heads("q_proj", self.heads))
        k = self.rotate(heads("k_proj", self.kv_heads))
        v = heads("v_proj", self.kv_heads)
        k, v = (np.repeat(t, self.heads // self.kv_heads, axis=1) for t in (k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(size))
        scores += np.triu(np.full((positions, positions), -np.inf, np.float32), 1)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        y = (scores / scores.sum(axis=-1, keepdims=True)) @ v
        y = np.ascontiguousarray(y.transpose(0, 2, 1, 3)).reshape(windows, positions, width)
        return self.linear[f"{prefix}.o_proj"](y)

    def logits(self, ids):
        x = self.embedding[ids]
        for i in range(self.layers):
            p = f"model.layers.{i}"
            x = x + self.attention(self.norm(x, f"{p}.input_layernorm.weight"), f"{p}.self_attn")
            h = self.norm(x, f"{p}.post_attention_layernorm.weight")
            gate = self.linear[f"{p}.mlp.gate_proj"](h)
            up = self.linear[f"{p}.mlp.up_proj"](h)
            x = x + self.linear[f"{p}.mlp.down_proj"](gate / (1 + np.exp(-gate)) * up)
        return self.norm(x, "model.norm.weight") @ self.head.T


def mean_loss(model, ids, windows, batch=4):
    """Mean negative log-likelihood of the next id."""
    total, count = 0.0, 0
    for first in range(0, len(windows), batch):
        starts = windows[first : first + batch]
        x = np.stack([ids[s : s + 512] for s in starts])
        y = np.stack([ids[s + 1 : s + 513] for s in starts])
        z = model.logits(x).astype(np.float64)
        z -= z.max(axis=-1, keepdims=True)
        log_sum = np.log(np.exp(z).sum(axis=-1))
        total += (log_sum - np.take_along_axis(z, y[..., None], axis=-1)[..., 0]).sum()
        count += y.size
    return total / count, count


def dense(name, weight):
    return pith.Linear(weight, scheme=None), weight.nbytes


def quantized(scheme, activations):
    def layer(name, weight):
        q = pith.quantize(weight, scheme)
        return pith.Linear(q, activations=activations), q.stored_bytes

    return layer


def blocks(bits, size, activations="f32"):
    """Blocks of a row where they divide it, else blocks that run through all rows."""

    def layer(name, weight):
        fits = weight.shape[1] % size == 0
        group = "block" if fits else "flat_block"
        scheme = pith.Scheme(bits=bits, group=group, block_size=size, scale_type="f16")
        q = pith.quantize(weight, scheme)
        return pith.Linear(q, activations=activations), q.stored_bytes

    return layer


def pruned(sparsity, then=None):
    def layer(name, weight):
        p = pith.prune(weight, sparsity, name=name)
        if then is None:
            return pith.Linear(p.values, scheme=None), len(p.mask.bytes) + 4 * p.nonzero
        q = pith.quantize(p.values, then)
        kept = p.mask.count * q.scheme.bits // 8
        return pith.Linear(q, activations="f32"), len(p.mask.bytes) + kept + q.scales.nbytes

    return layer


SCHEMES = [
    ("f32", dense),
    ("W8A8: int8 per row, activations int8 per token", quantized("int8-row", "int8_rows")),
    ("W8A8, scales of compressed-tensors", quantized("w8a8", "int8_rows")),
    ("int8 weights, per tensor", quantized("int8", "f32")),
    ("int8 weights, per row", quantized("int8-row", "f32")),
    ("int8 weights, blocks of 64", blocks(8, 64)),
    ("int4 weights, groups of 32", blocks(4, 32)),
    ("int4 weights, per row", quantized("int4-row", "f32")),
    ("50 % pruned, f32", pruned(0.5)),
    ("50 % pruned, then int8 per row", pruned(0.5, "int8-row")),
    ("25 % pruned, then int8 per row", pruned(0.25, "int8-row")),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("ids", type=pathlib.Path)
    parser.add_argument("--windows", type=int, help="only the first so many")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th window")
    parser.add_argument("--only", help="only schemes with this in their name")
    options = parser.parse_args()
    ids = np.load(options.ids).astype(np.int64)
    windows = list(range(0, len(ids) - 512, 512))[: options.windows][:: options.every]
    print(f"| linear layers | bytes | of f32 | loss | perplexity | more than f32 |")
    print("|---|---|---|---|---|---|")
    base_bytes = base_loss = None
    begin = time.monotonic()
    for name, layer in SCHEMES:
        if options.only and options.only not in name and name != "f32":
            continue
        model = Llama(options.folder, layer)
        loss, count = mean_loss(model, ids, windows)
        base_bytes, base_loss = base_bytes or model.bytes, base_loss or loss
        print(
            f"| {name} | {model.bytes:,} | {model.bytes / base_bytes:.1%} | {loss:.5f} "
            f"| {np.exp(loss):.4f} | {np.exp(loss - base_loss) - 1:+.2%} |",
            flush=True,
        )
    print(f"\n{count:,} targets; {time.monotonic() - begin:.0f} s in all.")


if __name__ == "__main__":
    main()
