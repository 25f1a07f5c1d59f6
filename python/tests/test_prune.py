import numpy as np
import pytest

import pith


def model_prune(scores, k):
    """True where kept: all but the k smallest, equal ones by rising index."""
    kept = np.ones(scores.size, bool)
    kept[np.argsort(scores.ravel(), kind="stable")[:k]] = False
    return kept.reshape(scores.shape)


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("importance", ["l1", "l2"])
def test_elements(rng, sparsity, importance):
    # Halves, so that there are ties.
    w = np.round(rng.normal(size=(20, 30)) * 2).astype(np.float32) / 2 + np.float32(0.25)
    p = pith.prune(w, sparsity, importance=importance)
    scores = np.abs(w) if importance == "l1" else w * w
    kept = model_prune(scores, int(np.float32(sparsity) * np.float32(w.size)))
    np.testing.assert_array_equal(np.asarray(p.mask), kept)
    np.testing.assert_array_equal(p.values, np.where(kept, w, 0))
    assert p.pruned == (~kept).sum() and p.nonzero == np.count_nonzero(p.values)
    np.testing.assert_allclose(p.sparsity, 1 - p.nonzero / w.size, rtol=1e-6)


def test_rows_and_columns(rng):
    w = rng.normal(size=(10, 8)).astype(np.float32)
    rows = pith.prune(w, 0.3, granularity="row")
    gone = np.argsort(np.abs(w).sum(axis=1), kind="stable")[:3]
    assert sorted(np.flatnonzero((rows.values == 0).all(axis=1))) == sorted(gone)
    columns = pith.prune(w, 0.5, granularity="column", importance="l2")
    gone = np.argsort((w * w).sum(axis=0), kind="stable")[:4]
    assert sorted(np.flatnonzero((columns.values == 0).all(axis=0))) == sorted(gone)


def test_blocks(rng):
    w = rng.normal(size=(7, 10)).astype(np.float32)  # 3 x 3 blocks of 3 x 4, smaller at the edges
    for importance, score in (("l1", np.abs(w)), ("taylor_proxy", w * w)):
        p = pith.prune(
            w, 0.5, granularity="block", block_rows=3, block_cols=4, importance=importance
        )
        cut = [(slice(r, r + 3), slice(c, c + 4)) for r in (0, 3, 6) for c in (0, 4, 8)]
        means = np.array([score[b].astype(np.float64).mean() for b in cut])
        gone = {i for i, b in enumerate(cut) if (p.values[b] == 0).all()}
        assert gone == set(np.argsort(means, kind="stable")[: len(gone)].tolist())
        assert len(gone) == 4
        np.testing.assert_array_equal(p.values != 0, np.asarray(p.mask))
        np.testing.assert_allclose(pith.importance_scores(w, importance), score, rtol=1e-6)


@pytest.mark.parametrize("n, m", [(1, 4), (2, 4), (4, 8), (3, 5)])
def test_n_of_any_m(rng, n, m):
    w = rng.normal(size=(6, 23)).astype(np.float32)
    kept = np.zeros(w.shape, bool)
    for row, scores in enumerate(np.abs(w)):
        for first in range(0, 23, m):
            group = scores[first : first + m]
            k = -(-n * group.size // m)
            kept[row, first : first + m] = model_prune(group, group.size - k)
    p = pith.prune(w, granularity="n_m", n=n, m=m)
    np.testing.assert_array_equal(p.mask.to_numpy(), kept)


def test_n_of_m(rng):
    w = rng.normal(size=(6, 16)).astype(np.float32)
    p = pith.prune(w, granularity="n_m", n=2, m=4)
    groups = np.abs(w).reshape(-1, 4)
    kept = np.stack([model_prune(g, 2) for g in groups]).reshape(w.shape)
    np.testing.assert_array_equal(p.mask.to_numpy(), kept)


def test_wanda_within_rows(rng):
    w = rng.normal(size=(5, 12)).astype(np.float32)
    norms = rng.uniform(0.1, 5, size=12).astype(np.float32)
    p = pith.prune(w, 0.5, importance="wanda", scope="row", column_norms=norms)
    kept = np.stack([model_prune(row, 6) for row in np.abs(w) * norms])
    np.testing.assert_array_equal(np.asarray(p.mask), kept)
    np.testing.assert_array_equal(
        pith.importance_scores(w, "wanda", column_norms=norms), np.abs(w) * norms
    )


def test_random_depends_on_the_seed_alone(rng):
    w = rng.normal(size=(8, 8)).astype(np.float32)
    state, scores = 7, []
    for _ in range(w.size):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        scores.append(np.float32(state >> 32) / np.float32(2**32))
    p = pith.prune(w, 0.25, importance="random", seed=7)
    kept = model_prune(np.array(scores), 16).reshape(w.shape)
    np.testing.assert_array_equal(np.asarray(p.mask), kept)


def test_a_model_with_one_threshold(rng):
    model = {"a": rng.normal(size=(4, 8)).astype(np.float32), "b": rng.normal(size=20) * 3}
    done = pith.prune_model(model, 0.5, scope="global")
    both = np.concatenate([model["a"].ravel(), model["b"].astype(np.float32)])
    kept = model_prune(np.abs(both), 26)
    np.testing.assert_array_equal(np.asarray(done["a"].mask).ravel(), kept[:32])
    np.testing.assert_array_equal(np.asarray(done["b"].mask).ravel(), kept[32:])


def test_in_place_or_not(rng):
    w = rng.normal(size=(4, 4)).astype(np.float32)
    before = w.copy()
    p = pith.prune(w, 0.5)
    np.testing.assert_array_equal(w, before)
    again = pith.prune(w, 0.5, in_place=True)
    assert again.values is w
    np.testing.assert_array_equal(w, p.values)
    with pytest.raises(pith.InvalidArgument, match="in_place needs"):
        pith.prune(before.T, 0.5, in_place=True)
    with pytest.raises(pith.InvalidArgument, match="in_place needs"):
        pith.prune(before.astype(np.float64), 0.5, in_place=True)


def test_masks(rng):
    kept = rng.random((5, 13)) < 0.5
    mask = pith.BitMask(kept)
    assert mask.count == kept.sum() and mask.shape == kept.shape
    packed = np.packbits(kept, axis=1, bitorder="little")
    assert mask.bytes == packed.tobytes()
    assert pith.BitMask.from_bytes(kept.shape, mask.bytes) == mask
    np.testing.assert_array_equal(mask.to_numpy(), kept)
    x = rng.normal(size=kept.shape).astype(np.float32)
    np.testing.assert_array_equal(pith.apply_mask(x, mask), np.where(kept, x, 0))
    assert pith.count_nonzero(np.where(kept, x, 0)) == kept.sum()
    with pytest.raises(pith.InvalidArgument):
        pith.BitMask.from_bytes(kept.shape, mask.bytes[1:])


def test_clip_and_limit(rng):
    x = rng.normal(size=200).astype(np.float32)
    order = np.argsort(np.abs(x), kind="stable")
    c = pith.clip(x, 0.1)
    expected = x.copy()
    expected[order[:20]] = 0
    np.testing.assert_array_equal(c.values, expected)
    assert c.zeroed == 20 and c.threshold == np.abs(x)[order[19]] and not c.cleared
    top = np.abs(x)[order[179]]
    limited = pith.limit(x, 0.9)
    np.testing.assert_array_equal(limited.values, np.clip(x, -top, top))
    assert limited.limited == 20
    for bad in (0.0, 1.5, float("nan")):
        with pytest.raises(pith.InvalidArgument):
            pith.clip(x, bad)


def test_what_is_wrong_is_said():
    with pytest.raises(pith.InvalidArgument, match="sparsity"):
        pith.prune([1.0, 2.0], 1.0)
    with pytest.raises(pith.NotFinite, match="fc"):
        pith.prune([1.0, float("nan")], 0.5, name="fc")
    with pytest.raises(pith.InvalidArgument, match="'l3' is not one of l1, l2"):
        pith.prune([1.0], importance="l3")
