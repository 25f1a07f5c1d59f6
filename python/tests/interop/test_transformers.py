import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("compressed_tensors")

import pith  # noqa: E402
import pith.hf  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        tie_word_embeddings=False,
    )
    path = tmp_path_factory.mktemp("hf") / "model"
    transformers.LlamaForCausalLM(config).save_pretrained(path, safe_serialization=True)
    return path


def logits(path, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32)
    with torch.no_grad():
        return model(ids).logits.float().numpy()


@pytest.mark.parametrize("scheme", ["W8A8", "W4A16"])
def test_transformers_loads_what_pith_writes(folder, tmp_path, scheme):
    small, dense = tmp_path / "small", tmp_path / "dense"
    pith.hf.compress(folder, small, scheme)
    assert pith.hf.quantization_config(small)["quant_method"] == "compressed-tensors"
    pith.restore(small, dense)
    ids = torch.randint(0, 512, (1, 32), generator=torch.Generator().manual_seed(1))
    a, b = logits(small, ids), logits(dense, ids)
    error = np.linalg.norm(a - b) / np.linalg.norm(b)
    # W8A8 also rounds activations; W4A16 only weights.
    assert error < (0.03 if scheme == "W8A8" else 1e-3)


@pytest.mark.parametrize("scheme", ["W8A8", "W4A16"])
def test_sqnr_is_not_below_that_of_compressed_tensors(folder, tmp_path, scheme):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationStrategy
    from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    pith.hf.compress(folder, tmp_path / "small", scheme)
    ours, source = pith.open(tmp_path / "small"), pith.open(folder)
    bits, size = (8, None) if scheme == "W8A8" else (4, 128)
    args = QuantizationArgs(
        num_bits=bits, symmetric=True, group_size=size,
        strategy=QuantizationStrategy.CHANNEL if bits == 8 else QuantizationStrategy.GROUP,
    )
    for name in source:
        if not name.endswith("proj.weight"):
            continue
        w = torch.from_numpy(source[name].read())
        grouped = w if size is None else w.unflatten(-1, (-1, size))
        low, high = grouped.amin(dim=-1), grouped.amax(dim=-1)
        if size is None:
            low, high = low[:, None], high[:, None]
        scale, zero = calculate_qparams(low, high, args)
        theirs = dequantize(quantize(w, scale, zero, args), scale, zero, args).numpy()
        a = pith.measure_error(w.numpy(), ours[name].read()).sqnr_db
        b = pith.measure_error(w.numpy(), theirs).sqnr_db
        assert a >= b - 0.01, f"{name}: {a} dB, theirs {b} dB"
