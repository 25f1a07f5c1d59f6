#!/usr/bin/env python3
"""What a call costs beside its work: functions on 1 KiB against an empty call.

    python python/bench/overhead.py

The work itself is subtracted: the same function on 4 bytes has nearly none.
"""

import timeit

import numpy as np

import pith
from pith._core import _nothing


def microseconds(function, *arguments, **keywords):
    number = 20000
    return min(
        timeit.repeat(lambda: function(*arguments, **keywords), number=number, repeat=7)
    ) / number * 1e6


def main():
    kib = np.random.default_rng(0).normal(size=256).astype(np.float32)
    message = pith.BlockwiseCodec(64).compress(kib)
    layer = pith.Linear(np.random.default_rng(1).normal(size=(16, 256)).astype(np.float32))
    q = pith.quantize(kib, "int8")
    scheme = q.scheme
    row = kib.reshape(1, 256)
    stats = pith.ValueStats()
    empty = microseconds(_nothing, kib)
    print(f"empty call: {empty:.2f} us")
    print("| call on 1 KiB | us | more than an empty call |")
    print("|---|---|---|")
    for name, call in {
        "dynamic_quantize": (pith.dynamic_quantize, kib),
        "dynamic_quantize_rows": (pith.dynamic_quantize_rows, row),
        "quantize, Scheme": (pith.quantize, kib, scheme),
        "dequantize": (pith.dequantize, q),
        "convert to f16": (pith.convert, kib, "f16"),
        "measure_error": (pith.measure_error, kib, kib),
        "prune": (pith.prune, kib),
        "clip": (pith.clip, kib, 0.1),
        "smooth_weights": (pith.smooth_weights, row, kib + 10),
        "decompress": (pith.decompress, message),
        "ValueStats.add": (stats.add, kib),
        "Linear 256 -> 16": (layer, row),
        "np.multiply, for comparison": (np.multiply, kib, kib),
    }.items():
        t = microseconds(*call)
        print(f"| {name} | {t:.2f} | {t - empty:.2f} |")


if __name__ == "__main__":
    main()
