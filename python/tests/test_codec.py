import numpy as np
import pytest

import pith


def test_blockwise(rng):
    x = rng.normal(size=1000).astype(np.float32)
    message = pith.BlockwiseCodec(64).compress(x)
    info = pith.message_info(message)
    assert info.kind == "blockwise" and info.elements == 1000
    assert info.message_bytes == len(message) <= pith.BlockwiseCodec(64).max_message_bytes(1000)
    padded = np.zeros(1024, np.float32)
    padded[:1000] = x
    scale = np.abs(padded.reshape(-1, 64)).max(axis=1) / np.float32(127)
    codes, scales = pith.blockwise_compress(x, 64)
    np.testing.assert_array_equal(scales, scale.astype(np.float16))
    t = padded.reshape(-1, 64) / scale[:, None]
    model = (np.sign(t) * np.floor(np.abs(t) + 0.5)).astype(np.int8).ravel()[:1000]
    np.testing.assert_array_equal(codes, model)
    back = pith.decompress(message)
    np.testing.assert_array_equal(back, pith.blockwise_decompress(codes, scales, 64))
    np.testing.assert_array_equal(
        back, codes * np.repeat(scales.astype(np.float32), 64)[:1000]
    )


def test_top_k(rng):
    x = np.round(rng.normal(size=500), 1).astype(np.float32)
    k = int(np.float32(500) * np.float32(0.1))
    order = np.lexsort((np.arange(500), -np.abs(x)))[:k]
    indices, values = pith.top_k_compress(x, 0.1)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, x[order])
    expected = np.zeros(500, np.float32)
    expected[order] = x[order]
    np.testing.assert_array_equal(pith.decompress(pith.TopKCodec(0.1).compress(x)), expected)
    np.testing.assert_array_equal(pith.top_k_decompress(indices, values, 500), expected)


@pytest.mark.parametrize("codec", [pith.BlockwiseCodec(32), pith.TopKCodec(0.05)], ids=repr)
def test_error_feedback_loses_nothing_in_the_sum(rng, codec):
    sender = pith.ErrorFeedback(codec)
    sent, received = np.zeros(300), np.zeros(300)
    residual = np.zeros(300, np.float32)
    for _ in range(20):
        x = rng.normal(size=300).astype(np.float32)
        sent += x
        message = sender.compress(x)
        assert message == codec.compress(x + residual)
        residual = x + residual - pith.decompress(message)
        np.testing.assert_array_equal(sender.residual, residual)
        received += pith.decompress(message)
    np.testing.assert_allclose(received + sender.residual, sent, atol=1e-4)
    sender.reset()
    assert sender.residual.size == 0


def test_messages_that_are_not_whole_are_refused(rng):
    message = bytearray(pith.BlockwiseCodec(64).compress(rng.normal(size=300)))
    out = np.empty(300, np.float32)
    assert pith.decompress(message, out) is out
    with pytest.raises(pith.Corrupt):
        pith.decompress(message[:-1])
    message[len(message) // 2] ^= 1
    with pytest.raises(pith.Corrupt):
        pith.decompress(bytes(message))
    message[len(message) // 2] ^= 1
    with pytest.raises(pith.InvalidArgument):
        pith.decompress(message, out[:-1])
    with pytest.raises(pith.InvalidArgument, match="max_elements"):
        pith.decompress(message, max_elements=299)
    with pytest.raises(pith.InvalidArgument):
        pith.BlockwiseCodec(0)
    with pytest.raises(pith.InvalidArgument):
        pith.TopKCodec(1.5)
