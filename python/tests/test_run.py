import threading

import ml_dtypes
import numpy as np
import pytest

import pith


def test_w8a8_matvec_is_exact(rng):
    w = rng.integers(-127, 128, size=(17, 70)).astype(np.int8)
    scale = rng.uniform(0.01, 0.1, 17).astype(np.float32)
    x = rng.normal(size=70).astype(np.float32)
    codes, s = pith.dynamic_quantize(x)
    sums = w.astype(np.int64) @ codes.astype(np.int64)
    np.testing.assert_array_equal(
        pith.w8a8_matvec(w, scale, x), sums.astype(np.float32) * scale * np.float32(s)
    )
    np.testing.assert_allclose(
        pith.int8_matvec(w, scale, x), (w.astype(np.float64) * scale[:, None]) @ x, rtol=1e-4, atol=1e-4
    )


def model_forward(q, x, bias):
    """W8A8 by its definition: exact sums of codes, then the two scales."""
    codes, scales = pith.dynamic_quantize_rows(x)
    sums = codes.astype(np.int64) @ q.codes.astype(np.int64).T
    return sums.astype(np.float64) * q.scales.astype(np.float64) * scales[:, None] + bias


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_linear_with_int8_activations(rng, rows):
    w = rng.normal(size=(33, 64)).astype(np.float32)
    bias = rng.normal(size=33).astype(np.float32)
    x = rng.normal(size=(rows, 64)).astype(np.float32)
    q = pith.quantize(w, "int8-row")
    layer = pith.Linear(q, bias)
    assert (layer.inputs, layer.outputs, layer.scheme, layer.decoded) == (64, 33, q.scheme, False)
    np.testing.assert_allclose(layer(x), model_forward(q, x, bias), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(layer.forward(x)[0], layer(x[0]))
    np.testing.assert_array_equal(pith.Linear(w, bias, scheme="int8-row")(x), layer(x))


@pytest.mark.parametrize("scheme", ["int8", "int8-row", "int4-g32", "q8_0", "q4_0", "w4a16"])
def test_linear_with_f32_activations_is_the_decoded_product(rng, scheme):
    w = rng.normal(size=(24, 128)).astype(np.float32)
    x = rng.normal(size=(5, 128)).astype(np.float32)
    q = pith.quantize(w, scheme)
    y = pith.Linear(q, activations="f32")(x)
    np.testing.assert_allclose(y, x.astype(np.float64) @ q.dequantize().T, rtol=1e-4, atol=1e-4)
    # A smoothed layer: weights times factors, inputs divided by them.
    factors = rng.uniform(0.5, 2, 128).astype(np.float32)
    smooth = pith.Linear(
        pith.smooth_weights(w, factors), scheme=None, activations="f32", input_scale=1 / factors
    )
    np.testing.assert_allclose(smooth(x), x @ w.T, rtol=1e-4, atol=1e-4)


def test_bf16_activations_and_any_leading_axes(rng):
    w = rng.normal(size=(8, 32)).astype(np.float32)
    x = rng.normal(size=(2, 3, 32)).astype(ml_dtypes.bfloat16)
    layer = pith.Linear(w)
    expected = layer(x.astype(np.float32))
    assert expected.shape == (2, 3, 8)
    np.testing.assert_array_equal(layer(x), expected)
    np.testing.assert_array_equal(layer(x.view(np.uint16), dtype="bf16"), expected)
    assert layer(np.zeros((0, 32), np.float32)).shape == (0, 8)


def test_dense_weights(rng):
    w = rng.normal(size=(8, 32)).astype(np.float32)
    x = rng.normal(size=(4, 32)).astype(np.float32)
    layer = pith.Linear(w, scheme=None)
    assert layer.scheme is None and layer.decoded
    np.testing.assert_allclose(layer(x), x @ w.T, rtol=1e-5, atol=1e-5)


def test_layers_come_from_files(rng, tmp_path):
    w = rng.normal(size=(16, 64)).astype(np.float32)
    b = rng.normal(size=16).astype(np.float32)
    pith.save(tmp_path / "m.safetensors", {"up.weight": w, "up.bias": b})
    x = rng.normal(size=(3, 64)).astype(np.float32)
    layer = pith.Linear.load(tmp_path / "m.safetensors", "up", activations="f32")
    np.testing.assert_allclose(layer(x), x @ w.T + b, rtol=1e-5, atol=1e-5)
    with pytest.raises(pith.NotFound):
        pith.Linear.load(pith.open(tmp_path / "m.safetensors"), "down")


def test_one_layer_serves_many_threads(rng):
    layer = pith.Linear(rng.normal(size=(64, 64)).astype(np.float32))
    inputs = [rng.normal(size=(n + 1, 64)).astype(np.float32) for n in range(8)]
    expected = [layer(x) for x in inputs]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.array_equal(layer(inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_results_do_not_depend_on_threads(rng):
    w = rng.normal(size=(300, 512)).astype(np.float32)
    with pith.set_threads(1):
        assert pith.threads() == 1
        one = pith.quantize(w, "int8-row", figures=True)
    many = pith.quantize(w, "int8-row", figures=True)
    np.testing.assert_array_equal(one.codes, many.codes)
    assert one.figures.mse == many.figures.mse
    with pytest.raises(pith.InvalidArgument):
        pith.set_threads(-1)


def test_shapes_that_do_not_fit():
    layer = pith.Linear(np.eye(4, dtype=np.float32))
    with pytest.raises(pith.InvalidArgument, match="inputs, 4"):
        layer(np.zeros((2, 5), np.float32))
    with pytest.raises(pith.InvalidArgument):
        pith.Linear(np.zeros(4, np.float32))
    with pytest.raises(pith.NotFinite):
        layer([[np.inf, 0, 0, 0]])
