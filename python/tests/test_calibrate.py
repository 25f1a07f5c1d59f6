import numpy as np
import pytest

import pith


def test_statistics_of_values(rng):
    x = rng.normal(size=4000).astype(np.float32)
    stats = pith.ValueStats()
    for batch in np.array_split(x, 7):
        stats.add(batch)
    exact = x.astype(np.float64)
    assert stats.count == x.size and stats.percentiles_are_exact
    assert stats.min == x.min() and stats.max == x.max() and stats.absmax == np.abs(x).max()
    np.testing.assert_allclose(stats.mean, exact.mean(), rtol=1e-9)
    np.testing.assert_allclose(stats.std_dev, exact.std(), rtol=1e-12)
    np.testing.assert_allclose(stats.rms, np.sqrt((exact**2).mean()), rtol=1e-12)
    rank = int(np.ceil(np.float32(0.99) * np.float32(x.size)))
    assert stats.percentile(0.99) == np.sort(np.abs(x))[rank - 1]
    one, two = pith.ValueStats(), pith.ValueStats()
    one.add(x[1000:])
    two.add(x[:1000])
    one.merge(two)
    assert one == stats


def test_statistics_of_columns(rng):
    x = rng.normal(size=(300, 9)).astype(np.float32)
    stats = pith.ColumnStats(9)
    stats.add(x[:100])
    stats.add(x[100:])
    assert stats.rows == 300 and stats.cols == 9
    np.testing.assert_array_equal(stats.absmax, np.abs(x).max(axis=0))
    np.testing.assert_allclose(stats.sum_squares, (x.astype(np.float64) ** 2).sum(axis=0), rtol=1e-12)
    with pytest.raises(pith.InvalidArgument):
        stats.add(x[0, :4])


def test_an_observer_and_its_file(rng, tmp_path):
    x = rng.normal(size=(50, 6)).astype(np.float32)
    observer = pith.Observer()
    observer.record("layers.0.up", x)
    observer.record("layers.0.down", x * 2)
    assert observer.names() == ["layers.0.down", "layers.0.up"] and len(observer) == 2
    values, columns = observer["layers.0.up"]
    assert values.count == 300
    np.testing.assert_array_equal(columns.absmax, np.abs(x).max(axis=0))
    path = tmp_path / "stats.safetensors"
    observer.save(path)
    again = pith.Observer.load(path)
    assert again["layers.0.up"][0] == values
    np.testing.assert_array_equal(again["layers.0.up"][1].absmax, columns.absmax)
    np.save(tmp_path / "more.npy", x)
    assert again.record_file(tmp_path / "more.npy", "layers.0.up") == 50
    assert again["layers.0.up"][0].count == 600
    with pytest.raises(pith.AlreadyExists):
        observer.save(path)
    with pytest.raises(pith.NotFound):
        observer["nobody"]


def test_scales(rng):
    x = rng.normal(size=2000).astype(np.float32)
    stats = pith.ValueStats()
    stats.add(x)
    absmax = np.abs(x).max()
    assert np.float32(pith.calibrated_scale(stats, "min_max")) == absmax / np.float32(127)
    assert np.float32(pith.calibrated_scale(stats, "min_max", bits=4)) == absmax / np.float32(7)
    for method in ("aciq", "mse", "percentile"):
        assert 0 < pith.calibrated_scale(stats, method) <= absmax / 127 * 1.0001
    assert pith.check_scale(pith.suggested_scale(stats), stats) == []
    assert pith.check_scale(-1.0, stats) != []
    low, high, scale = pith.weight_range(x)
    assert (low, high) == (x.min(), x.max()) and np.float32(scale) == absmax / np.float32(127)


def squared_error(x, clip, top):
    step = clip / top
    m = np.abs(x.astype(np.float64))
    return ((m - step * np.minimum(top, np.floor(m / step + 0.5))) ** 2).sum()


@pytest.mark.parametrize("bits, top", [(8, 127), (4, 7)])
@pytest.mark.parametrize("shape", ["normal", "laplace"])
def test_scales_are_those_of_their_definitions(rng, bits, top, shape):
    x = getattr(rng, shape)(size=3000).astype(np.float32)
    stats = pith.ValueStats()
    stats.add(x)
    assert stats.percentiles_are_exact
    absmax, m = np.abs(x).max(), np.abs(x.astype(np.float64))
    rank = int(np.ceil(np.float32(0.95) * np.float32(x.size)))
    expected = np.sort(np.abs(x))[rank - 1] / np.float32(top)
    found = pith.calibrated_scale(stats, "percentile", percentile=0.95, bits=bits)
    assert np.float32(found) == expected
    clips = absmax * (np.arange(1, 101, dtype=np.float32) / np.float32(100))
    errors = [squared_error(x, float(c), top) for c in clips]
    best = clips[99 - np.argmin(errors[::-1])]
    np.testing.assert_allclose(pith.calibrated_scale(stats, "mse", bits=bits), best / top, rtol=1e-6)
    # The best clips of unit distributions, in deviations and in mean magnitudes.
    normal, laplace = (3.92064, 9.88251) if bits == 8 else (2.48312, 4.80671)
    clip = normal * np.sqrt((m**2).mean()) if shape == "normal" else laplace * m.mean()
    clip = min(clip, absmax)
    np.testing.assert_allclose(pith.calibrated_scale(stats, "aciq", bits=bits), clip / top, rtol=1e-5)


def test_what_clipping_costs(rng):
    x = rng.laplace(size=3000).astype(np.float32)
    stats = pith.ValueStats()
    stats.add(x)
    scale = np.float32(pith.suggested_scale(stats))
    m, limit = np.abs(x.astype(np.float64)), 127 * float(scale)
    cost = pith.clipping_cost(scale, stats)
    beyond = m[m > limit]
    np.testing.assert_allclose(cost.clipped, beyond.size / m.size, atol=1e-3)
    np.testing.assert_allclose(cost.clip_error, ((beyond - limit) ** 2).sum(), rtol=1e-6)
    others = m.size - beyond.size
    np.testing.assert_allclose(cost.round_error, others * float(scale) ** 2 / 12, rtol=1e-3)
    share = np.sqrt((cost.clip_error + cost.round_error) / (m**2).sum())
    np.testing.assert_allclose(cost.relative_error, share, rtol=1e-6)
    assert pith.check_clipping(scale, stats) != []
    assert pith.check_clipping(pith.calibrated_scale(stats, "min_max"), stats) == []


def test_nan_is_refused_and_nothing_changes():
    stats = pith.ValueStats()
    with pytest.raises(pith.NotFinite, match="1"):
        stats.add([1.0, float("nan")])
    assert stats.count == 0
    stats.add([1.0, float("nan")], non_finite="count")
    assert stats.count == 1 and stats.nonfinite == 1
