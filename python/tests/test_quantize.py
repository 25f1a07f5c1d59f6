"""Quantization against models of it in numpy that are written from the definitions."""

import ml_dtypes
import numpy as np
import pytest

import pith


def half_away(t):
    return np.where(t < 0, -1, 1) * np.floor(np.abs(t).astype(np.float64) + 0.5)


def model_codes(w, scale, top):
    """round(w / scale), ties away from zero, in f32; zeros where the scale is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(scale == 0, np.float32(0), w / scale)
    # The quotient is an f32; whether it is a tie is decided on that.
    return np.clip(half_away(t), -top, top).astype(np.int8)


def grouped(w, scheme):
    if scheme.group == "tensor":
        return w.reshape(1, -1)
    if scheme.group == "row":
        return w
    return w.reshape(-1, scheme.block_size)


@pytest.mark.parametrize(
    "scheme",
    [
        pith.Scheme.int8_tensor(),
        pith.Scheme.int8_rows(),
        pith.Scheme(bits=8, group="block", block_size=16),
        pith.Scheme(bits=8, group="flat_block", block_size=16),
        pith.Scheme.int4_tensor(),
        pith.Scheme.int4_rows(),
        pith.Scheme(bits=4, group="block", block_size=16),
        pith.Scheme(bits=8, group="row", scale_type="f16"),
    ],
    ids=str,
)
def test_codes_and_scales_are_those_of_the_definition(rng, scheme):
    w = rng.normal(size=(24, 48)).astype(np.float32)
    w[3] = 0
    q = pith.quantize(w, scheme)
    g = grouped(w, scheme)
    top = np.float32(127 if scheme.bits == 8 else 7)
    scale = np.abs(g).max(axis=1, keepdims=True) / top
    if scheme.scale_type == "f16":
        scale = scale.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(q.scales.ravel().astype(np.float32), scale.ravel())
    expected = model_codes(g, scale, top).reshape(w.shape)
    np.testing.assert_array_equal(q.unpack(), expected)
    np.testing.assert_array_equal(
        q.dequantize(), (expected.reshape(g.shape).astype(np.float32) * scale).reshape(w.shape)
    )
    assert q.stored_bytes == q.codes.nbytes + q.scales.nbytes == scheme.stored_bytes(w.shape)
    if scheme.bits == 8:
        np.testing.assert_array_equal(q.codes, expected)


def test_nibbles_lie_two_per_byte_the_first_low(rng):
    w = rng.normal(size=(5, 6)).astype(np.float32)
    q = pith.quantize(w, "int4-row")
    codes = q.unpack()
    low, high = codes[:, 0::2] & 15, codes[:, 1::2] & 15
    np.testing.assert_array_equal(q.codes, (low | high << 4).astype(np.uint8))


def test_w8a8_is_that_of_compressed_tensors(rng):
    w = rng.normal(size=(16, 64)).astype(np.float32)
    q = pith.quantize(w, "w8a8")
    scale = (np.abs(w).max(axis=1) / np.float32(127.5)).astype(np.float32)
    stored = q.scales.astype(np.float32)
    np.testing.assert_allclose(stored, scale, rtol=0.01)
    np.testing.assert_array_equal(
        q.codes, np.clip(np.rint(w / stored[:, None]), -128, 127).astype(np.int8)
    )


def test_asymmetric_has_zero_points(rng):
    w = rng.uniform(0, 1, size=(8, 128)).astype(np.float32)
    q = pith.quantize(w, pith.Scheme.w4a16_asymmetric(32))
    assert q.zero_points.shape == q.scales.shape == (8, 4)
    back = q.dequantize()
    assert np.abs(back - w).max() <= q.scales.astype(np.float32).max() * 0.51
    scale = np.repeat(q.scales.astype(np.float32), 32, axis=1)
    zero = np.repeat(q.zero_points.astype(np.float32), 32, axis=1)
    np.testing.assert_array_equal(back, (q.unpack().astype(np.float32) - zero) * scale)


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_gives_the_codes_of_its_values(rng, half):
    w = rng.normal(size=(8, 32)).astype(half)
    q = pith.quantize(w, "int8-row")
    same = pith.quantize(w.astype(np.float32), "int8-row")
    np.testing.assert_array_equal(q.codes, same.codes)
    np.testing.assert_array_equal(q.scales, same.scales)
    name = "f16" if half is np.float16 else "bf16"
    bits = pith.quantize(w.view(np.uint16), "int8-row", dtype=name)
    np.testing.assert_array_equal(q.codes, bits.codes)


def test_arrays_that_are_not_contiguous_are_copied(rng):
    w = rng.normal(size=(32, 8)).astype(np.float32)
    a = pith.quantize(w.T, "int8-row")
    b = pith.quantize(np.ascontiguousarray(w.T), "int8-row")
    np.testing.assert_array_equal(a.codes, b.codes)
    doubled = pith.quantize(w.astype(np.float64), "int8-row")
    np.testing.assert_array_equal(doubled.codes, pith.quantize(w, "int8-row").codes)


def test_codes_are_shown_without_a_copy_and_outlive_the_tensor(rng):
    q = pith.quantize(rng.normal(size=(64, 64)).astype(np.float32), "int8-row")
    codes, again = q.codes, q.codes
    assert codes.__array_interface__["data"] == again.__array_interface__["data"]
    assert not codes.flags.writeable
    kept = codes.copy()
    del q, again
    np.testing.assert_array_equal(codes, kept)


def test_a_tensor_is_made_from_its_arrays(rng):
    q = pith.quantize(rng.normal(size=(8, 64)).astype(np.float32), "int4-g32")
    again = pith.QuantizedTensor(q.scheme, q.shape, q.codes, q.scales)
    np.testing.assert_array_equal(again.dequantize(), q.dequantize())
    with pytest.raises(pith.InvalidArgument, match="codes: 3 bytes"):
        pith.QuantizedTensor(q.scheme, q.shape, np.zeros(3, np.uint8), q.scales)


def test_figures_are_those_of_the_decoded_values(rng):
    w = rng.normal(size=(16, 64)).astype(np.float32)
    q = pith.quantize(w, "int8-row", figures=True)
    error = w.astype(np.float64) - q.dequantize().astype(np.float64)
    for figures in (q.figures, pith.measure_error(w, q.dequantize())):
        assert figures.count == w.size
        np.testing.assert_allclose(figures.mse, (error**2).mean(), rtol=1e-6)
        np.testing.assert_allclose(figures.mae, np.abs(error).mean(), rtol=1e-6)
        sqnr = 10 * np.log10((w.astype(np.float64) ** 2).sum() / (error**2).sum())
        np.testing.assert_allclose(figures.sqnr_db, sqnr, rtol=1e-6)
        assert figures.max_index == np.abs(error).argmax()
    assert pith.quantize(w, "int8-row").figures is None


def test_schemes_read_like_what_one_writes():
    scheme = pith.Scheme(bits=4, group="block", block_size=32, scale_type="bf16")
    assert eval(repr(scheme), {"Scheme": pith.Scheme}) == scheme
    assert scheme.replace(bits=8) != scheme
    assert len({scheme, scheme.replace()}) == 1
    for name in pith.scheme_names():
        made = pith.Scheme.from_name(name)
        assert eval(repr(made), {"Scheme": pith.Scheme}) == made
    with pytest.raises(pith.InvalidArgument, match="'rows' is not one of"):
        pith.Scheme(group="rows")
    with pytest.raises(pith.InvalidArgument, match="'bit' is not one of"):
        pith.Scheme(bit=4)
    with pytest.raises(pith.InvalidArgument):
        pith.Scheme(bits=5)


def test_what_is_wrong_is_said(rng):
    w = rng.normal(size=(4, 30)).astype(np.float32)
    with pytest.raises(ValueError, match="30"):
        pith.quantize(w, "int4-g32")
    w[2, 3] = np.nan
    with pytest.raises(pith.NotFinite, match="fc.weight.*63"):
        pith.quantize(w, "int8", name="fc.weight")
    assert pith.quantize(w, "int8", non_finite="count").unpack()[2, 3] == 0
    with pytest.raises(pith.InvalidArgument):
        pith.quantize(w, "int9")
    with pytest.raises(pith.InvalidArgument, match="an array of numbers"):
        pith.quantize(np.array(["a"]), "int8")
    with pytest.raises(pith.InvalidArgument, match="cannot be the bits"):
        pith.quantize(w, "int8", dtype="bf16")


def test_dynamic_codes(rng):
    x = rng.normal(size=(7, 33)).astype(np.float32)
    for bits, top in ((8, 127), (4, 7)):
        codes, scale = pith.dynamic_quantize(x, bits=bits)
        expected = np.abs(x).max() / np.float32(top)
        assert np.float32(scale) == expected
        np.testing.assert_array_equal(codes, model_codes(x, expected, top))
        codes, scales = pith.dynamic_quantize_rows(x, bits=bits)
        row = np.abs(x).max(axis=1) / np.float32(top)
        np.testing.assert_array_equal(scales, row)
        np.testing.assert_array_equal(codes, model_codes(x, row[:, None], top))
    codes, scales = pith.dynamic_quantize_rows(x.reshape(7, 3, 11))
    assert codes.shape == (7, 3, 11) and scales.shape == (7, 3)


def test_percentile_scale(rng):
    x = rng.normal(size=1000).astype(np.float32)
    rank = int(np.ceil(np.float32(0.9) * np.float32(1000)))
    expected = np.sort(np.abs(x))[rank - 1] / np.float32(127)
    assert np.float32(pith.compute_scale(x, rule="percentile", percentile=0.9)) == expected


@pytest.mark.parametrize(
    "name, dtype",
    [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f8e5m2", ml_dtypes.float8_e5m2)],
)
def test_conversion_is_that_of_ml_dtypes(rng, name, dtype):
    x = (rng.normal(size=500) * 10.0 ** rng.integers(-4, 4, 500)).astype(np.float32)
    made = pith.convert(x, name)
    assert made.dtype == dtype
    np.testing.assert_array_equal(made.astype(np.float32), x.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(pith.convert(made, "f32"), x.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(pith.convert(x, dtype).view(np.uint8), made.view(np.uint8))


def test_fp8_saturates(rng):
    x = (rng.normal(size=500) * 10.0 ** rng.integers(-4, 4, 500)).astype(np.float32)
    limited = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(pith.convert(x, "f8e4m3").view(np.uint8), limited.view(np.uint8))
    lost = pith.convert(x, "f8e4m3", overflow="infinity").astype(np.float32)
    expected = x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(lost, expected)


def test_conversion_counts_what_overflows():
    made, counts = pith.convert([1.0, 1e6, np.inf, np.nan], "f16", counts=True)
    assert counts.overflowed == 1 and counts.first_overflowed == 1
    assert counts.infinite == 1 and counts.nan == 1
    assert np.isinf(made[1])


def test_smoothing(rng):
    x = rng.normal(size=(40, 12)).astype(np.float32)
    w = rng.normal(size=(6, 12)).astype(np.float32)
    a, b = np.abs(x).max(axis=0), np.abs(w).max(axis=0)
    np.testing.assert_array_equal(pith.column_absmax(x), a)
    factors = pith.smooth_factors(a, b, alpha=0.4)
    e = 1e-5
    np.testing.assert_allclose(factors, (a + e) ** 0.4 / (b + e) ** 0.6, rtol=1e-5)
    np.testing.assert_array_equal(pith.smooth_weights(w, factors), w * factors)
    np.testing.assert_array_equal(pith.smooth_activations(x, factors), x / factors)
    calibrator = pith.SmoothCalibrator(alpha=0.4)
    calibrator.record("up", x[:20])
    calibrator.record("up", x[20:])
    np.testing.assert_array_equal(calibrator.factors("up", w), factors)
    assert "up" in calibrator and len(calibrator) == 1
    with pytest.raises(pith.NotFound):
        calibrator.factors("down", w)
    columns = pith.ColumnStats(12)
    columns.add(x)
    np.testing.assert_array_equal(pith.smooth_factors(columns, b, alpha=0.4), factors)
    norm = rng.normal(size=12).astype(np.float32)
    np.testing.assert_array_equal(pith.fold_factors(norm, factors), norm / factors)
    own = w.copy()
    assert pith.smooth_weights(own, factors, in_place=True) is own
    np.testing.assert_array_equal(own, w * factors)


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32])
def test_every_function_takes_other_numbers(rng, half):
    x = rng.integers(-40, 40, size=(6, 64)).astype(half)
    x[:, 0] = 41
    f = x.astype(np.float32)
    w = np.ones((3, 64), np.int8)
    scale = np.ones(3, np.float32)
    for view in (x, x[:, ::-1], np.asfortranarray(x)):
        exact = view.astype(np.float32)
        for call in (
            lambda a: pith.quantize(a, "int8-row").codes,
            lambda a: pith.dynamic_quantize(a)[0],
            lambda a: pith.dynamic_quantize_rows(a)[1],
            lambda a: pith.prune(a, 0.5).values,
            lambda a: pith.apply_mask(a, pith.BitMask(f > 0)),
            lambda a: pith.count_nonzero(a),
            lambda a: pith.clip(a, 0.3).values,
            lambda a: pith.limit(a, 0.7).values,
            lambda a: pith.importance_scores(a, "l2"),
            lambda a: pith.column_absmax(a),
            lambda a: pith.smooth_weights(a, pith.column_absmax(a)),
            lambda a: pith.smooth_activations(a, pith.column_absmax(a)),
            lambda a: pith.compute_scale(a),
            lambda a: pith.weight_range(a),
            lambda a: pith.measure_error(exact, a).mse,
            lambda a: np.frombuffer(pith.BlockwiseCodec(32).compress(a.ravel()), np.uint8),
            lambda a: pith.top_k_compress(a.ravel(), 0.1)[0],
            lambda a: pith.w8a8_matvec(w, scale, a[0]),
            lambda a: pith.Linear(f, scheme="int8-row")(a),
            lambda a: pith.convert(a, "f32"),
        ):
            np.testing.assert_array_equal(call(view), call(exact))
        stats, same = pith.ValueStats(), pith.ValueStats()
        stats.add(view)
        same.add(exact)
        assert stats == same


def peak_rss(call):
    """How much the peak of resident memory rises during a call, in bytes."""

    def field(name):
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(name)) * 1024

    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before = field("VmHWM")
    call()
    return field("VmHWM") - before


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_contiguous_arrays_are_not_copied(dtype):
    # Pages that were never written take no memory when they are read; a copy would.
    n = (256 << 20) // np.dtype(dtype).itemsize
    x = np.zeros((n // 4096, 4096), dtype)
    calls = [lambda: pith.quantize(x[:64], "int8-row")]
    if dtype is np.float32:
        calls += [
            lambda: pith.measure_error(x, x),
            lambda: pith.count_nonzero(x),
            lambda: pith.compute_scale(x),
            lambda: pith.column_absmax(x),
            lambda: pith.weight_range(x),
            lambda: pith.ValueStats().add(x),
            lambda: pith.ColumnStats(4096).add(x),
            lambda: pith.prune(x[:1], 0.5),
        ]
    for call in calls:
        call()
        assert peak_rss(call) < 64 << 20
    # One code for each number, but no f32 copy of them.
    assert peak_rss(lambda: pith.quantize(x, "int8-row")) < n + (64 << 20)
