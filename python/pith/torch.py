"""A bridge to torch, imported only when asked for.

    import pith.torch
    pith.torch.capture(model, batches).save("stats.safetensors")
    pith.torch.swap_linears(model, "small.safetensors")

`capture` runs the model on batches and keeps statistics of what goes into its Linear layers;
`swap_linears` replaces these layers by ones that compute with compressed weights, on CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from . import Checkpoint, Linear, NotFound, Observer
from . import open as _open

__all__ = ["PithLinear", "capture", "swap_linears", "to_numpy"]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The values of a tensor: without a copy for contiguous float32 and float16 on CPU.

    bfloat16, which numpy lacks, becomes float32.
    """
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.cpu().contiguous().numpy()


def _linears(model: torch.nn.Module) -> dict[str, torch.nn.Linear]:
    """Those that are called: MultiheadAttention only takes the weight of its out_proj."""
    unused = torch.nn.modules.linear.NonDynamicallyQuantizableLinear
    return {
        name: m
        for name, m in model.named_modules()
        if isinstance(m, torch.nn.Linear) and not isinstance(m, unused)
    }


def capture(
    model: torch.nn.Module,
    batches: Iterable[Any],
    *,
    select: Callable[[str], bool] | None = None,
    non_finite: str = "error",
) -> Observer:
    """Statistics of the inputs of all Linear layers over the batches, by module name.

    A batch is given to the model as it is: a tensor as the only argument, a tuple as
    arguments, a dict as keywords. Nothing of the activations is kept but their statistics
    (for each input channel the largest magnitude and the sum of squares), so memory does not
    grow with the batches. `select` chooses modules by name. Weights do not change, and hooks
    are removed whatever happens.
    """
    observer = Observer(non_finite)
    hooks = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            if inputs[0].numel():
                observer.record(name, to_numpy(inputs[0]))

        return hook

    for name, module in _linears(model).items():
        if select is None or select(name):
            hooks.append(module.register_forward_pre_hook(watch(name)))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for batch in batches:
                if isinstance(batch, dict):
                    model(**batch)
                elif isinstance(batch, (tuple, list)):
                    model(*batch)
                else:
                    model(batch)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return observer


class PithLinear(torch.nn.Module):
    """A Linear layer of Pith in the place of torch's, for inference on CPU."""

    def __init__(self, layer: Linear, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.bias = None if bias is None else bias.detach().float()  # if `layer` has none
        self.in_features, self.out_features = layer.inputs, layer.outputs
        # torch's encoder layers take the weights of their parts for a path of their own, unless
        # one of these has a hook.
        self.register_forward_pre_hook(lambda module, inputs: None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.from_numpy(self.layer(to_numpy(x)))
        if self.bias is not None:
            y += self.bias
        return y.to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.layer.scheme or 'dense'}"


def swap_linears(
    model: torch.nn.Module,
    compressed: str | os.PathLike[str] | Checkpoint,
    *,
    activations: str = "int8_rows",
    prefix: str = "",
    strict: bool = True,
) -> list[str]:
    """Replaces torch.nn.Linear by layers of a compressed checkpoint; returns their names.

    A module NAME takes the tensor prefix + NAME + ".weight", and its bias from there or from
    the module. Modules whose weight is stored uncompressed stay as they are, and so do heads
    that share the weight of an embedding. With strict, another module without a tensor is
    NotFound, and nothing changes; else it stays.
    """
    checkpoint = compressed if isinstance(compressed, Checkpoint) else _open(compressed)
    tied = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    layers: dict[str, PithLinear] = {}
    for name, module in _linears(model).items():
        key = f"{prefix}{name}.weight"
        tensor = checkpoint.get(key)
        if tensor is None:
            if strict and id(module.weight) not in tied:
                raise NotFound(f"tensor '{key}' is not in the checkpoint; strict=False skips it")
            continue
        if tensor.dtype in ("f32", "f16", "bf16", "f64"):
            continue
        made = Linear.load(checkpoint, key, activations=activations)
        stored = f"{prefix}{name}.bias" in checkpoint
        layers[name] = PithLinear(made, None if stored else module.bias)
    for name, layer in layers.items():
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, layer)
    return list(layers)
