#!/usr/bin/env python3
"""Sizes and errors of real networks, compressed; compared with results.csv.

    run.py --pith PITH --models FOLDER            exit 1 if a figure changed
    run.py --pith PITH --models FOLDER --write    writes results.csv anew: the diff shows the change

FOLDER holds trained networks as safetensors files; without it there is nothing to compare, and the
exit code is 77, which ctest takes for a test that was skipped. Figures have six digits; bytes are
exact.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ["stories260K/model.safetensors", "use-lite/model.safetensors",
          "cifar-resnet/resnet20.safetensors", "g2p-gru/model.safetensors"]
RECIPES = {
    "int8": ["--quantize", "int8"],
    "int8-row": ["--quantize", "int8-row"],
    "int8-flat64": ["--quantize", "int8-flat64"],
    "int4-flat32": ["--recipe", "int4-flat32.yaml"],
    "prune 0.5 + int8": ["--prune", "0.5", "--quantize", "int8"],
    "fp16": ["--quantize", "fp16"],
}
# Blocks along rows need rows that they divide.
MORE = {"stories260K/model.safetensors": {
    "int8-block32": ["--recipe", "int8-block32.yaml"],
    "int4-g32": ["--recipe", "int4-g32.yaml"],
    "q8_0": ["--quantize", "q8_0", "--ignore", "down_proj"],
    "q4_0": ["--quantize", "q4_0", "--ignore", "down_proj"],
}}
FIELDS = ["model", "recipe", "bytes", "ratio", "rmse", "sqnr_db", "worst_sqnr_db", "worst_tensor"]


def compress(pith, source, flags):
    flags = [os.path.join(HERE, "recipes", f) if f.endswith(".yaml") else f for f in flags]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.safetensors")
        command = [pith, "compress", source, "-o", out, "--no-sync", "--json"] + flags
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)}: {result.stderr.decode()}")
        size = os.path.getsize(out)
    return size, json.loads(result.stdout)


def figures(pith, models):
    for model in MODELS:
        source = os.path.join(models, model)
        for name, flags in {**RECIPES, **MORE.get(model, {})}.items():
            size, report = compress(pith, source, flags)
            errors = [(t["error"], t["name"]) for t in report["tensors"] if t.get("error")]
            squares = sum(e["sum_error_squared"] for e, _ in errors)
            signal = sum(e["sum_squared_before"] for e, _ in errors)
            count = sum(e["count"] for e, _ in errors)
            ratio = [(db(e["sum_squared_before"], e["sum_error_squared"]), n) for e, n in errors]
            worst = min(ratio)
            yield {"model": model, "recipe": name, "bytes": size,
                   "ratio": f"{os.path.getsize(source) / size:.4f}",
                   "rmse": f"{(squares / count) ** 0.5:.6g}", "sqnr_db": f"{db(signal, squares):.4f}",
                   "worst_sqnr_db": f"{worst[0]:.4f}", "worst_tensor": worst[1]}


def db(signal, error):
    import math
    return 10 * math.log10(signal / error) if error > 0 else math.inf


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pith", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if not os.path.isdir(arguments.models):
        print(f"skipped: {arguments.models} is not there")
        sys.exit(77)
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(figures(arguments.pith, arguments.models))
    path = os.path.join(HERE, "results.csv")
    if arguments.write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.getvalue())
        return
    with open(path, encoding="utf-8") as file:
        known = file.read().splitlines()
    now = text.getvalue().splitlines()
    changed = [line for line in now if line not in known] + [f"- {line}" for line in known
                                                              if line not in now]
    for line in changed:
        print(line)
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
