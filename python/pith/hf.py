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
from collections.abc import Callable, Sequence

from . import InvalidArgument, NotFound, Report
from . import compress as _compress

__all__ = ["SCHEMES", "compress", "quantization_config"]

#: Names that transformers' users know, and Pith's for them.
SCHEMES = {"W8A8": "w8a8", "W8A16": "w8a16", "W4A16": "w4a16"}


def compress(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    scheme: str = "W8A8",
    *,
    ignore: Sequence[str] = ("lm_head",),
    overwrite: bool = False,
    max_memory: int = 1 << 30,
    progress: bool | Callable[[str, int, int], None] | None = None,
) -> Report:
    """Compresses a folder to W8A8, W8A16 or W4A16 in the convention of compressed-tensors.

    Embeddings are never quantized, and `ignore` names what else is not: words that are found
    anywhere in a tensor's name, as regular expressions.
    """
    if scheme.upper() not in SCHEMES:
        raise InvalidArgument(f"scheme: '{scheme}' is not one of {', '.join(SCHEMES)}")
    if not (pathlib.Path(source) / "config.json").is_file():
        raise NotFound(f"{source}: there is no config.json; a folder of Hugging Face was expected")
    return _compress(
        source,
        output,
        quantize=SCHEMES[scheme.upper()],
        ignore=list(ignore),
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
