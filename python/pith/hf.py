"""Folders of Hugging Face, compressed so that transformers and vLLM load them.

>>> import pith.hf
>>> sorted(pith.hf.SCHEMES)
['W4A16', 'W8A16', 'W8A8']

    report = pith.hf.compress("Llama-3.2-1B", "Llama-3.2-1B-W8A8", "W8A8")

The output follows compressed-tensors: `quantization_config` in config.json, tokenizer and all
other files beside it as they were. Nothing of torch is needed to write it.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable, Sequence

from . import Checkpoint, InvalidArgument, NotFound, Report, Unsupported
from . import compress as _compress
from . import open as _open

__all__ = ["SCHEMES", "compress", "quantization_config"]

#: Names that transformers' users know, and Pith's for them.
SCHEMES = {"W8A8": "w8a8", "W8A16": "w8a16", "W4A16": "w4a16"}

# Matrices that belong to no torch.nn.Linear, which alone compressed-tensors quantizes: routers of
# experts, tables of positions, T5's embedding.
_NO_LINEARS = (
    r"\.(?:gate|router|shared_expert_gate)\.weight$",
    r"relative_attention_bias\.weight$",
    r"^(?:.*\.)?shared\.weight$",
)
# Networks whose layers are transformers' Conv1D: weights as (inputs, outputs).
_CONV1D = ("gpt2", "openai-gpt", "imagegpt", "decision_transformer")


def _unfit(model: Checkpoint) -> list[str]:
    """Expressions for tensors that look like matrices but cannot be compressed in this way."""
    words = {word for word in _NO_LINEARS if any(re.search(word, name) for name in model)}
    for name, tensor in model.items():
        # Experts in one tensor are most of their network: better an error than to leave them.
        if tensor.ndim >= 2 and "experts" not in name:
            if tensor.ndim > 2 or not name.endswith(".weight"):
                words.add("^" + re.sub(r"\d+", r"\\d+", re.escape(name)) + "$")
    return sorted(words)


def compress(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    scheme: str = "W8A8",
    *,
    group_size: int | None = None,
    ignore: Sequence[str] = (),
    overwrite: bool = False,
    max_memory: int = 1 << 30,
    progress: bool | Callable[[str, int, int], None] | None = None,
) -> Report:
    """Compresses a folder to W8A8, W8A16 or W4A16 in the convention of compressed-tensors.

    Weights of the A16 schemes have a scale for each `group_size` of a row (128 if not given),
    which must divide it. Only Linear layers are quantized: no embeddings, heads, convolutions
    or routers of experts, and nothing of `ignore`: regular expressions that are found anywhere
    in a tensor's name. Unsupported for networks of Conv1D layers (GPT-2).
    """
    name = SCHEMES.get(scheme.upper())
    if name is None:
        raise InvalidArgument(f"scheme: '{scheme}' is not one of {', '.join(SCHEMES)}")
    if group_size is not None:
        if name == "w8a8":
            raise InvalidArgument("group_size: W8A8 has one scale for each row")
        name += f"-g{group_size}"
    config = pathlib.Path(source) / "config.json"
    if not config.is_file():
        raise NotFound(f"{source}: there is no config.json; a folder of Hugging Face was expected")
    kind = json.loads(config.read_text()).get("model_type")
    if kind in _CONV1D:
        raise Unsupported(
            f"{config}: model_type '{kind}' has Conv1D layers, which compressed-tensors does not "
            "know; pith.compress(source, output, quantize=...) makes a file that Pith reads"
        )
    unfit = _unfit(_open(source))
    return _compress(
        source,
        output,
        quantize=name,
        ignore=[*ignore, *unfit],
        skip_embeddings=True,
        convention="compressed-tensors",
        overwrite=overwrite,
        max_memory=max_memory,
        progress=progress,
    )


def quantization_config(folder: str | os.PathLike[str]) -> dict | None:
    """What a folder says of its quantization, or None."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return config.get("quantization_config")
