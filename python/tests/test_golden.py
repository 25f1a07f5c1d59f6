"""Golden vectors through the Python interface.

Cases of reference behaviour that Pith improves on (tags `defect:` and `nonfinite`) are those
of the C++ tests; here every other case of a function that the interface has is run.
"""

import json

import numpy as np

import pith
from conftest import shared


def f32(field):
    digits = field["hex"]
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    return np.array(words, np.uint32).view(np.float32)


def f16(field):
    digits = field if isinstance(field, str) else field["hex16"]
    words = [int(digits[i : i + 4], 16) for i in range(0, len(digits), 4)]
    return np.array(words, np.uint16).view(np.float16)


def same(actual, expected, tol=None):
    actual, expected = np.atleast_1d(actual).ravel(), np.atleast_1d(expected).ravel()
    assert actual.shape == expected.shape
    tol = tol or {}
    if "ulp" in tol:
        np.testing.assert_array_max_ulp(actual, expected, tol["ulp"])
    else:
        np.testing.assert_allclose(actual, expected, rtol=tol.get("rel", 0), atol=tol.get("abs", 0))
        if not tol and actual.dtype.kind == "f":
            assert (np.signbit(actual) == np.signbit(expected)).all()


def rule(mode):
    if mode["kind"] == "max_abs":
        return {}
    p = [v for k, v in mode.items() if k != "kind"][0]
    return {"rule": "percentile", "percentile": float(f32(p)[0])}


def compute_scale(i, o, tol):
    scale = pith.compute_scale(f32(i["data"]), float(f32(i["clip_val"])[0]), **rule(i["mode"]))
    same(np.float32(scale), f32(o["scale"]), tol.get("scale"))


def dynamic(bits):
    def run(i, o, tol):
        codes, scale = pith.dynamic_quantize(f32(i["data"]), bits=bits, **rule(i["mode"]))
        assert codes.tolist() == o["q"]
        same(np.float32(scale), f32(o["scales"]), tol.get("scales"))

    return run


def dynamic_rows(i, o, tol):
    x = f32(i["data"])
    if x.size != i["rows"] * i["cols"] or x.size == 0:
        return "not a matrix"
    codes, scales = pith.dynamic_quantize_rows(x.reshape(i["rows"], i["cols"]), **rule(i["mode"]))
    assert codes.ravel().tolist() == o["q"]
    same(scales, f32(o["scales"]), tol.get("scales"))


def smooth_factors(i, o, tol):
    n = i["in_features"]
    if n == 0:
        return "no features"
    a, w = f32(i["activations"]).reshape(-1, n), f32(i["weights"]).reshape(-1, n)
    factors = pith.smooth_factors(
        np.abs(a).max(axis=0, initial=0),
        np.abs(w).max(axis=0, initial=0),
        alpha=float(f32(i["alpha"])[0]),
        epsilon=float(f32(i["epsilon"])[0]),
    )
    same(factors, f32(o["factors"]), tol.get("factors"))


def smooth(function, rows):
    def run(i, o, tol):
        data = f32(i["data"])
        if data.size == i[rows] * i["in_features"]:
            data = data.reshape(i[rows], i["in_features"])
        elif o is None and data.size % len(f32(i["factors"])) == 0:
            return "a shape that an array cannot lack"
        same(function(data, f32(i["factors"])), f32(o["data"]) if o else [], tol.get("data"))

    return run


def calibrator(i, o, tol):
    c = pith.SmoothCalibrator(alpha=float(f32(i["alpha"])[0]))
    for r in i["records"]:
        x = f32(r["activations"])
        if x.size == 0 or x.size % r["in_features"]:
            return "rows that an array cannot have"
        c.record(r["layer"], x.reshape(-1, r["in_features"]))
    w = f32(i["weights"]).reshape(i["out_features"], -1)
    same(c.factors(i["layer"], w), f32(o["factors"]) if o else [], tol.get("factors"))


def w8a8(i, o, tol):
    w = np.array(i["weight_q"], np.int8)
    if w.size == i["out_size"] * i["in_size"]:
        w = w.reshape(i["out_size"], i["in_size"])
    same(
        pith.w8a8_matvec(w, f32(i["weight_scales"]), f32(i["activation"])),
        f32(o["y"]) if o else [],
        tol.get("y"),
    )


def int8_matvec(i, o, tol):
    x = f32(i["x"])
    q = np.array(i["q"], np.int8).reshape(-1, x.size)
    same(pith.int8_matvec(q, f32(i["scales"]), x), f32(o["y"]), tol.get("y"))


def blockwise(i, o, tol):
    x = f32(i["data"])
    codes, scales = pith.blockwise_compress(x, i["block_size"], "f16")
    assert codes.tolist() == o["q"]
    assert scales.view(np.uint16).tolist() == f16(o["scales"]).view(np.uint16).tolist()
    same(pith.blockwise_decompress(codes, scales, i["block_size"]), f32(o["decompressed"]))


def blockwise_decompress(i, o, tol):
    q = np.array(i["q"], np.int8)
    if q.size != np.prod(i["shape"]):
        return "a shape that an array cannot lack"
    same(pith.blockwise_decompress(q, f16(i["scales"]), i["block_size"]), f32(o["decompressed"]))


def top_k(i, o, tol):
    x = f32(i["data"])
    fraction = float(f32(i["k_fraction"])[0])
    if not 0 <= fraction <= 1:
        return "a fraction that Pith refuses"
    indices, values = pith.top_k_compress(x, fraction)
    assert indices.tolist() == o["compressed"]["indices"]
    same(values, f32(o["compressed"]["values"]))
    same(pith.top_k_decompress(indices, values, x.size), f32(o["decompressed"]))


def importance(metric):
    words = {"taylor_proxy": "taylor_proxy", "taylor": "taylor_proxy"}
    options = {"importance": words.get(metric["kind"], metric["kind"])}
    if "seed" in metric:
        options["seed"] = int(metric["seed"])
    return options


def prune(i, o, tol):
    config = i["config"]
    g = config["granularity"]
    options = importance(config["metric"])
    if isinstance(g, dict):
        kind = g.pop("kind")
        options |= {"granularity": kind, "block_rows": g["rows"], "block_cols": g["cols"]}
    else:
        options["granularity"] = g
    p = pith.prune(
        f32(i["tensor"]["data"]).reshape(i["tensor"]["shape"]),
        float(f32(config["sparsity"])[0]),
        min_nonzero=config["min_nonzero"],
        **options,
    )
    assert "".join("01"[int(b)] for b in p.mask.to_numpy().ravel()) == o["mask"]
    same(p.values, f32(o["data"]))
    assert p.pruned == o["pruned"] and p.nonzero == o["nonzero"]


def scores(i, o, tol):
    options = importance(i["metric"])
    same(pith.importance_scores(f32(i["data"]), **options), f32(o["scores"]), tol.get("scores"))


def to_half(i, o, tol):
    made = pith.convert(f32(i["values"]), "f16")
    assert made.view(np.uint16).tolist() == f16(o["hex16"]).view(np.uint16).tolist()


def from_half(i, o, tol):
    same(pith.convert(f16(i["hex16"]), "f32"), f32(o["values"]))


CHECKS = {
    "dynamic_quant": {
        "compute_scale": compute_scale,
        "dynamic_quantize_int8": dynamic(8),
        "dynamic_quantize_int4": dynamic(4),
        "dynamic_quantize_int8_per_row": dynamic_rows,
    },
    "smoothquant": {
        "compute_smooth_factors": smooth_factors,
        "smooth_activations": smooth(pith.smooth_activations, "tokens"),
        "smooth_weights": smooth(pith.smooth_weights, "out_features"),
        "smoothquant_calibrator": calibrator,
    },
    "matvec": {"w8a8_matvec": w8a8, "int8_matvec": int8_matvec},
    "blockwise": {
        "blockwise_compress": blockwise,
        "blockwise_decompress": blockwise_decompress,
    },
    "topk": {"topk_compress": top_k},
    "pruning": {"prune_tensor": prune, "compute_importance": scores},
    "fp16": {"fp32_to_fp16_bits": to_half, "fp16_bits_to_fp32": from_half},
}


def run_file(file):
    done = 0
    for line in shared("golden", f"{file}.jsonl").read_text().splitlines():
        case = json.loads(line)
        check = CHECKS[file].get(case["function"])
        improved = any(t.startswith("defect:") or t == "nonfinite" for t in case["tags"])
        if check is None or improved:
            continue
        try:
            skipped = check(case["inputs"], case.get("output"), case.get("tol", {}))
        except pith.Error as error:
            assert "error" in case, f"{case['case']}: {error}"
            skipped = None
        except Exception as error:
            raise AssertionError(f"{case['case']}: {error}") from error
        else:
            assert skipped or "error" not in case, f"{case['case']}: no {case.get('error')}"
        if skipped:
            continue
        done += 1
    return done


def test_golden_cases_pass():
    done = {file: run_file(file) for file in CHECKS}
    print(done)
    assert sum(done.values()) >= 200, done
