#!/usr/bin/env python3
"""What a call costs beside its work: functions on 1 KiB against an empty call.

    python python/bench/overhead.py

The empty call has the same arguments. The third column also has the work on 256 numbers; the last one,
the same call on one number, has nearly none: it is what passing arrays in and out costs.
"""

import subprocess
import sys
import timeit

import ml_dtypes
import numpy as np

import pith
from pith._core import _nothing


def microseconds(function, arguments):
    number = 500
    best = min(timeit.repeat(lambda: function(*arguments), number=number, repeat=120))
    return best / number * 1e6


def calls(n):
    """Name, function and arguments, for arrays of n numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n).astype(np.float32)
    row, factors = x.reshape(1, n), np.abs(x) + 1
    half, brain = x.astype(np.float16), x.astype(ml_dtypes.bfloat16)
    q = pith.quantize(x, "int8")
    codes, scales = pith.blockwise_compress(x, 64)
    blockwise, top_k = pith.BlockwiseCodec(64), pith.TopKCodec(0.1)
    mask = pith.prune(x, 0.5).mask
    layer = pith.Linear(rng.normal(size=(16, n)).astype(np.float32))
    weight, scale = np.ones((16, n), np.int8), np.ones(16, np.float32)
    stats, columns, observer = pith.ValueStats(), pith.ColumnStats(n), pith.Observer()
    return [
        ("quantize, Scheme", pith.quantize, (x, q.scheme)),
        ("quantize, name", pith.quantize, (x, "int8")),
        ("quantize, float16", pith.quantize, (half, q.scheme)),
        ("quantize, bfloat16", pith.quantize, (brain, q.scheme)),
        ("dequantize", pith.dequantize, (q,)),
        ("dynamic_quantize", pith.dynamic_quantize, (x,)),
        ("dynamic_quantize, float16", pith.dynamic_quantize, (half,)),
        ("dynamic_quantize_rows", pith.dynamic_quantize_rows, (row,)),
        ("compute_scale", pith.compute_scale, (x,)),
        ("measure_error", pith.measure_error, (x, x)),
        ("convert to f16", pith.convert, (x, "f16")),
        ("convert to bf16", pith.convert, (x, "bf16")),
        ("prune", pith.prune, (x, 0.5)),
        ("apply_mask", pith.apply_mask, (x, mask)),
        ("count_nonzero", pith.count_nonzero, (x,)),
        ("clip", pith.clip, (x, 0.1)),
        ("limit", pith.limit, (x, 0.9)),
        ("smooth_factors", pith.smooth_factors, (factors, factors)),
        ("smooth_weights", pith.smooth_weights, (row, factors)),
        ("column_absmax", pith.column_absmax, (row,)),
        ("ValueStats.add", stats.add, (x,)),
        ("ColumnStats.add", columns.add, (row,)),
        ("Observer.record", observer.record, ("up", row)),
        ("blockwise_compress", pith.blockwise_compress, (x, 64)),
        ("blockwise_decompress", pith.blockwise_decompress, (codes, scales, 64)),
        ("BlockwiseCodec.compress", blockwise.compress, (x,)),
        ("TopKCodec.compress", top_k.compress, (x,)),
        ("decompress", pith.decompress, (blockwise.compress(x),)),
        ("w8a8_matvec, 16 rows", pith.w8a8_matvec, (weight, scale, x)),
        ("Linear, 16 rows", layer, (row,)),
        ("np.multiply, for comparison", np.multiply, (x, x)),
    ]


def import_seconds():
    code = "import time; t = time.perf_counter(); import pith; print(time.perf_counter() - t)"
    runs = [subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(9)]
    return sorted(map(float, runs))


def main():
    times = import_seconds()
    print(f"import pith: {times[0] * 1e3:.1f} ms, median {times[len(times) // 2] * 1e3:.1f} ms")
    print("| call on 1 KiB | us | more than an empty call | that of one number |")
    print("|---|---|---|---|")
    worst = 0.0
    for (name, function, arguments), (_, one, other) in zip(calls(256), calls(1)):
        empty = microseconds(_nothing, arguments)
        t, least = microseconds(function, arguments), microseconds(one, other)
        print(f"| {name} | {t:.2f} | {t - empty:.2f} | {least - empty:.2f} |", flush=True)
        worst = max(worst, least - empty)
    print(f"\nAn empty call takes {empty:.2f} us; the most of the last column is {worst:.2f} us.")


if __name__ == "__main__":
    main()
