"""Every scheme against a model in numpy that is written from docs/numerics.md."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import pith

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def rounded(t, rounding):
    if rounding == "half_even":
        return np.rint(t)
    return np.copysign(np.floor(np.abs(t.astype(np.float64)) + 0.5), t)


def groups_of(w, scheme):
    """A list of flat arrays, in the order of their scales."""
    if scheme.group == "tensor":
        return [w.ravel()]
    if scheme.group == "row":
        return list(w)
    if scheme.group == "block":
        return list(w.reshape(-1, scheme.block_size))
    flat = w.ravel()
    return [flat[i : i + scheme.block_size] for i in range(0, flat.size, scheme.block_size)]


def magnitude_of(g, scheme):
    m = np.sort(np.abs(g))
    if scheme.rule != "percentile":
        return m[-1]
    rank = int(np.ceil(np.float32(scheme.percentile) * np.float32(g.size)))
    value = m[min(max(rank, 1), g.size) - 1]
    return value if value > 0 else m[-1]


def model_group(g, scheme):
    """Scale as stored, zero point, codes and values of one group."""
    kind = TYPES[scheme.scale_type]
    top = np.float32(scheme.max_code)
    zero = np.float32(0)
    if not g.any():
        scale = {"zero": 0, "one": 1, "epsilon": ml_dtypes.finfo(kind).eps}[scheme.zero_group]
        if scheme.rule == "given":
            scale = scheme.given_scale
        if not scheme.symmetric:
            zero = -top - 1 - np.float32(0)
            zero = np.clip(rounded(zero, scheme.rounding), -top - 1, top)
        codes = np.full(g.shape, zero)
        return kind(scale), zero, codes, np.zeros_like(g)
    if scheme.symmetric:
        low, high = (-top if scheme.range == "symmetric" else -top - 1), top
        if scheme.rule == "given":
            scale = np.float32(scheme.given_scale)
        else:
            half = np.float32(0.5 if scheme.rule == "half_range" else 0)
            scale = magnitude_of(g, scheme) / (top + half)
    else:
        low, high = -top - 1, top
        smallest, largest = min(g.min(), np.float32(0)), max(g.max(), np.float32(0))
        scale = (largest - smallest) / (high - low)
    stored = kind(scale)
    divisor = scale if scheme.coding == "exact" else stored.astype(np.float32)
    if not scheme.symmetric:
        zero = np.clip(rounded(low - smallest / divisor, scheme.rounding), low, high)
    codes = np.clip(rounded(g / divisor + zero, scheme.rounding), low, high)
    return stored, zero, codes, (codes - zero).astype(np.float32) * stored.astype(np.float32)


def all_schemes():
    """Every combination of fields that is a scheme."""
    for bits, symmetric, group, kind, rule, range_, rounding, coding, zero in itertools.product(
        (8, 4), (True, False), ("tensor", "row", "block", "flat_block"), TYPES,
        ("absmax", "percentile", "given", "half_range"), ("symmetric", "full"),
        ("half_away", "half_even"), ("stored", "exact"), ("zero", "one", "epsilon"),
    ):
        fields = {
            "bits": bits, "symmetric": symmetric, "group": group, "scale_type": kind,
            "rule": rule, "range": range_, "rounding": rounding, "coding": coding,
            "zero_group": zero,
        }
        if "block" in group:
            fields["block_size"] = 16
        if rule == "percentile":
            fields["percentile"] = 0.9
        if rule == "given":
            fields["given_scale"] = 0.03125
        try:
            yield pith.Scheme(**fields)
        except pith.InvalidArgument:
            continue


SCHEMES = list(all_schemes())


def check(w, scheme):
    q = pith.quantize(w, scheme)
    model = [model_group(g, scheme) for g in groups_of(w, scheme)]
    scales = np.array([m[0] for m in model])
    np.testing.assert_array_equal(q.scales.ravel().astype(np.float32), scales.astype(np.float32))
    codes = np.concatenate([m[2] for m in model]).reshape(w.shape)
    np.testing.assert_array_equal(q.unpack(), codes.astype(np.int8))
    values = np.concatenate([m[3] for m in model]).reshape(w.shape)
    np.testing.assert_array_equal(q.dequantize(), values)
    if scheme.symmetric:
        assert q.zero_points is None
    else:
        zeros = np.array([m[1] for m in model])
        np.testing.assert_array_equal(q.zero_points.ravel().astype(np.float32), zeros)
    assert q.stored_bytes == scheme.stored_bytes(w.shape)


@pytest.mark.parametrize("group", ["tensor", "row", "block", "flat_block"])
@pytest.mark.parametrize("bits", [8, 4])
def test_every_scheme_is_its_definition(rng, bits, group):
    chosen = [s for s in SCHEMES if (s.bits, s.group) == (bits, group)]
    assert len(chosen) >= 50
    w = rng.normal(size=(6, 48)).astype(np.float32)
    w[2] = 0
    if group == "flat_block":
        w = np.ascontiguousarray(w[:, :45])  # the last block is shorter
    for scheme in chosen:
        try:
            check(w, scheme)
        except AssertionError as error:
            raise AssertionError(f"{scheme!r}: {error}") from None


@pytest.mark.parametrize("name", [n for n in pith.scheme_names() if n not in ("q8_0", "q4_0")])
def test_every_name_is_its_definition(rng, name):
    # q8_0 and q4_0: test_files.py, against the gguf package.
    check(rng.normal(size=(5, 256)).astype(np.float32), pith.Scheme.from_name(name))
