"""GGUF files of Pith, run by llama.cpp (xllamacpp is a build of it for Python)."""

import struct

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
xllamacpp = pytest.importorskip("xllamacpp")

import pith  # noqa: E402
from conftest import shared  # noqa: E402

PARTS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
HEADS = {"attn_q": 8, "attn_k": 4}


def pieces(path):
    """Bytes and scores of a vocabulary as llama2.c stores it."""
    data, at = path.read_bytes(), 4
    while at < len(data):
        score, size = struct.unpack_from("<fi", data, at)
        yield data[at + 8 : at + 8 + size], score
        at += 8 + size


def interleaved(w, heads):
    """Rotated pairs side by side, as llama.cpp wants them, and not half a head apart."""
    half = w.shape[0] // heads // 2
    return np.ascontiguousarray(w.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(w.shape))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """stories260K as llama.cpp's own converter would write it, in float32."""
    source = shared("models", "stories260K")
    path = tmp_path_factory.mktemp("llama") / "f32.gguf"
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(512)
    w.add_embedding_length(64)
    w.add_block_count(5)
    w.add_feed_forward_length(172)
    w.add_head_count(8)
    w.add_head_count_kv(4)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(8)
    w.add_rope_freq_base(10000.0)
    w.add_vocab_size(512)
    w.add_tokenizer_model("llama")
    kinds = gguf.TokenType
    tokens, scores = [b"<unk>", b"<s>", b"</s>"], [0.0, 0.0, 0.0]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL]
    for i, (piece, score) in list(enumerate(pieces(source / "tokenizer.bin")))[3:]:
        tokens.append(piece if i < 259 else piece.replace(b" ", b"\xe2\x96\x81"))
        scores.append(score)
        types.append(kinds.BYTE if i < 259 else kinds.NORMAL)
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(types)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    tensors = pith.open(source)
    w.add_tensor("token_embd.weight", tensors["model.embed_tokens.weight"].read())
    w.add_tensor("output_norm.weight", tensors["model.norm.weight"].read())
    for i in range(5):
        for theirs, name in PARTS.items():
            weight = tensors[f"model.layers.{i}.{theirs}.weight"].read()
            weight = interleaved(weight, HEADS[name]) if name in HEADS else weight
            w.add_tensor(f"blk.{i}.{name}.weight", weight)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def story(path):
    """What the model says after "Once upon a time", greedily."""
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 256
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    answer = server.handle_completions(
        {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 40}
    )
    return answer["choices"][0]["text"]


TEXT = (
    ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
    "saw a big, red ball."
)


@pytest.mark.parametrize("scheme", ["fp16", "bf16", "q8_0", "q4_0"])
def test_llama_cpp_tells_the_story(model, tmp_path, scheme):
    assert story(model) == TEXT  # that of the float32 reference
    small = tmp_path / f"{scheme}.gguf"
    report = pith.compress(model, small, quantize=scheme)
    assert report.ratio > {"q8_0": 3, "q4_0": 4}.get(scheme, 1.9)
    text = story(small)
    print(f"{scheme}, {report.ratio:.2f}x smaller: {text}")
    # Four bits without a search for scales tell another story, as good as this one's beginning.
    common = TEXT if scheme != "q4_0" else TEXT[: TEXT.index(" in the park")]
    assert text.startswith(common)
