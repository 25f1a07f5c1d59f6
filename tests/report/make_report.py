"""Reports of models that do not exist, large and small, for tests of the page and the schema.

    make_report(layers=111)   # a language model of 1,001 tensors
    make_report(layers=0)     # one tensor, whose name would like to be a script
    make_sorted_report(300)   # as many layers, sorted by name: 0, 1, 10, 100, ...
    make_odd_report()         # a few small tensors, each with something to look at

Only what `pith report` reads is made; it computes all other figures.
"""

import math
import random

TURNED = "turned\u202e.\x1b\nweight"
HOSTILE = "layers.0.</script><img src=x onerror=alert(1)>&'\"`|.weight"


def bell(bins, centre, width, rng):
    return [int(400 * math.exp(-(((i - centre) / width) ** 2) / 2) * rng.uniform(0.9, 1.1)) for i in range(bins)]


def figures(count, zeros, error):
    deviation = 0.02
    return {
        "count": count, "non_finite": 0, "saturated": 0, "zeros_before": 0, "zeros_after": zeros,
        "sum_error": 0.8 * error * count, "sum_error_squared": error**2 * count,
        "sum_squared_before": deviation**2 * count, "sum_squared_after": 0.99 * deviation**2 * count,
        "max_error": 4 * error, "max_index": count // 3,
    }


def compressed(name, shape, scheme, bits, sparsity, decibels, rng):
    count = math.prod(shape)
    tensor = {
        "name": name, "shape": shape, "dtype": "bf16", "action": "compressed", "rule": "line 4: '*.weight'",
        "scheme": scheme, "bytes_before": 2 * count, "bytes_after": int(count * bits / 8),
        "checksum": f"{rng.getrandbits(64):016x}",
        "error": figures(count, int(count * sparsity), 0.02 / 10 ** (decibels / 20)),
        "weights": {"low": -0.31, "high": 0.31, "counts": bell(64, 31.5, 9, rng)},
    }
    if "int4" in scheme:
        tensor["codes"] = {"low": -8, "high": 8, "counts": [0] + bell(15, 7, 2.6, rng)}
    else:
        counts = bell(64, 32, 9, rng)
        counts[32] += sum(counts) if sparsity else 0
        tensor["codes"] = {"low": -128, "high": 128, "counts": counts}
    if sparsity:
        cells = [127 + 60 * math.sin(r / 5 + c / 9) + rng.gauss(0, 30) for r in range(32) for c in range(32)]
        density = "".join(f"{max(0, min(255, int(cell))):02x}" for cell in cells)
        tensor["nonzeros"] = {"rows": 32, "cols": 32, "density": density}
    return tensor


def kept(name, shape):
    size = 2 * math.prod(shape)
    return {"name": name, "shape": shape, "dtype": "bf16", "action": "kept", "rule": "vector", "scheme": "bf16",
            "bytes_before": size, "bytes_after": size}


def layer(number, rng):
    pruned = "prune 0.5 l1, int8 row f32, sparse"
    parts = [
        ("self_attn.q_proj", [2048, 2048], "int8 row f32", 8.02, 0, 41),
        ("self_attn.k_proj", [256, 2048], "int8 row f32", 8.02, 0, 40),
        ("self_attn.v_proj", [256, 2048], "int8 row f32", 8.02, 0, 42),
        ("self_attn.o_proj", [2048, 2048], "int8 row f32", 8.02, 0, 41.5),
        ("mlp.gate_proj", [5632, 2048], pruned, 5.03, 0.5, 16),
        ("mlp.up_proj", [5632, 2048], pruned, 5.03, 0.5, 15.5),
        ("mlp.down_proj", [2048, 5632], "int4 block(32) f16", 4.5, 0, 20),
    ]
    for name, shape, scheme, bits, sparsity, decibels in parts:
        noise = rng.gauss(0, 1) - 3 * math.exp(-number / 2)
        yield compressed(f"model.layers.{number}.{name}.weight", shape, scheme, bits, sparsity, decibels + noise, rng)
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield kept(f"model.layers.{number}.{name}.weight", [2048])


def make_report(layers):
    rng = random.Random(1)
    if layers == 0:
        tensors = [compressed(HOSTILE, [64, 48], "prune 0.5 l1, int8 row f32", 8.7, 0.5, 15, rng)]
    else:
        tensors = [compressed("model.embed_tokens.weight", [32000, 2048], "int8 row f32", 8.02, 0, 43, rng)]
        for number in range(layers):
            tensors += layer(number, rng)
        head = kept("lm_head.weight", [32000, 2048])
        head |= {"action": "aliased", "alias_of": "model.embed_tokens.weight", "scheme": "", "bytes_after": 0}
        tensors.append(head)
    before = sum(t["bytes_before"] for t in tensors)
    after = sum(t["bytes_after"] for t in tensors)
    parameters = sum(math.prod(t["shape"]) for t in tensors if t["action"] != "aliased")

    def stage(name, options, bytes_after):
        return {"name": name, "options": options, "processed": 7 * layers, "skipped": 2 * layers,
                "parameters": parameters, "nonzero_after": int(parameters * 0.75), "bytes_before": before,
                "bytes_after": bytes_after}

    return {
        "schema_version": 1,
        "tool": "pith 0.1.0",
        "source": {"path": "model/", "format": "safetensors", "files": 1, "bytes": before + 40000},
        "output": {"path": "model-small/", "format": "safetensors", "files": 1, "bytes": after + 60000},
        "recipe": "version: 1\nrules:\n  - match: \"*.weight\"\n    stages:\n      - quantize: int8-row\n",
        "environment": {"threads": 2, "isa": "avx2", "cpu": "Some Processor"},
        "seconds": 1.93,
        "facts": [{"name": "accuracy", "value": "97.5 % \u2192 97.2 %"}],
        "warnings": ["norms are kept as they are <i>"],
        "stages": [stage("prune", "0.5 by L1", before), stage("quantize", "int8 row f32", after)],
        "tensors": tensors,
    }


def make_sorted_report(layers):
    rng = random.Random(1)
    names = sorted(f"model.layers.{number}.self_attn.q_proj.weight" for number in range(layers))
    tensors = [
        compressed(name, [64, 64], "int8 row f32", 8.5, 0, 20 if ".77." in name else 40 + rng.random(), rng)
        for name in names
    ]
    return make_report(0) | {"tensors": tensors}


def make_odd_report():
    rng = random.Random(1)
    pruned = "prune 0.5 l1, int8 row f32"
    tensors = [
        compressed("int4", [64, 128], "int4 block(32) f16", 4.5, 0, 20, rng),
        compressed("int8", [128, 128], "int8 row f32", 8.1, 0, 40, rng),
        compressed("whole", [8, 8], "int8 row f32", 8.5, 0, 40, rng),
        compressed("wide", [64, 128], pruned, 8.1, 0.5, 12, rng),
        compressed("tall", [500, 2], pruned, 8.1, 0.5, 12, rng),
        compressed("kernels", [32, 4, 3, 3], pruned, 8.1, 0.5, 12, rng),
        compressed(TURNED, [8, 8], "int8 row f32", 8.5, 0, 40, rng),
    ]
    tensors[1]["codes"]["counts"][63] = 1
    for picture, bins in (("weights", 64), ("codes", 64)):
        tensors[2][picture]["counts"] = [1] * bins
    report = make_report(0) | {"tensors": tensors}
    for files, bytes_of in (("source", "bytes_before"), ("output", "bytes_after")):
        report[files] = report[files] | {"bytes": sum(tensor[bytes_of] for tensor in tensors)}
    report["output"]["bytes"] += 2000
    return report
