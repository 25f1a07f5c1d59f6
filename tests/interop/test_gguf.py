"""Against the gguf package of llama.cpp."""

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

from conftest import assert_same, assert_stats, read_plainly

BLOCKS = [gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0")]


def write_theirs(path, tensors, keys=()):
    """tensors: name, array, type of its blocks or None."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_float32("llama.rope.freq_base", 10000.5)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "é", ""])
    writer.add_array("tokenizer.ggml.scores", [0.0, -1.5, 2.25])
    for name, array, blocks in tensors:
        writer.add_tensor(name, array, raw_dtype=blocks)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_theirs(path):
    """Tensors and key-values as the package reads them."""
    reader = gguf.GGUFReader(path)
    tensors = {}
    for tensor in reader.tensors:
        array = tensor.data
        if tensor.tensor_type == gguf.GGMLQuantizationType.BF16:
            array = dequantize(array, tensor.tensor_type)
        tensors[tensor.name] = np.array(array).reshape([int(extent) for extent in tensor.shape[::-1]])
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return tensors, keys


@pytest.fixture
def arrays():
    random = np.random.default_rng(3)
    return {"a.weight": random.normal(0, 1, (6, 64)).astype(np.float32),
            "b.weight": random.normal(0, 1, (3, 32)).astype(np.float32)}


def test_their_plain_types_are_read(pith, inspect, arrays, tmp_path):
    halves = {name + ".f16": array.astype(np.float16) for name, array in arrays.items()}
    expected = {**arrays, **halves}
    write_theirs(tmp_path / "a.gguf", [(name, array, None) for name, array in expected.items()])
    seen = inspect(tmp_path / "a.gguf")
    for name, array in expected.items():
        assert_stats(seen[name], array)
    pith("convert", tmp_path / "a.gguf", "-o", tmp_path / "b.safetensors")
    assert_same(read_plainly(tmp_path / "b.safetensors"), expected)


@pytest.mark.parametrize("blocks", BLOCKS, ids=lambda blocks: blocks.name)
def test_their_blocks_are_decoded(pith, arrays, tmp_path, blocks):
    stored = {name: quantize(array, blocks) for name, array in arrays.items()}
    write_theirs(tmp_path / "a.gguf", [(name, array, blocks) for name, array in stored.items()])
    pith("convert", tmp_path / "a.gguf", "-o", tmp_path / "b.safetensors", "--dtype", "f32")
    assert_same(read_plainly(tmp_path / "b.safetensors"),
                {name: dequantize(array, blocks).reshape(arrays[name].shape) for name, array in stored.items()})


@pytest.mark.parametrize("blocks", ["Q4_K", "Q6_K"])
def test_any_bits_of_large_blocks_are_decoded(pith, tmp_path, blocks):
    blocks = gguf.GGMLQuantizationType[blocks]
    random = np.random.default_rng(4)
    elements, size = gguf.GGML_QUANT_SIZES[blocks]
    stored = random.integers(0, 256, (2, 3 * size), np.uint8)
    for block in stored.reshape(-1, size):  # scales that are numbers
        places = [0, 2] if blocks.name == "Q4_K" else [size - 2]
        for place in places:
            block[place:place + 2] = np.frombuffer(np.float16(random.normal(0, 0.01)).tobytes(), np.uint8)
    write_theirs(tmp_path / "a.gguf", [("w", stored, blocks)])
    pith("convert", tmp_path / "a.gguf", "-o", tmp_path / "b.safetensors", "--dtype", "f32")
    assert_same(read_plainly(tmp_path / "b.safetensors"),
                {"w": dequantize(stored, blocks).reshape(2, 3 * elements)})


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_written_files_are_read_by_theirs(pith, arrays, tmp_path, dtype):
    save_file(arrays, tmp_path / "a.safetensors")
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.gguf", "--dtype", dtype)
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.safetensors", "--dtype", dtype)
    found, _ = read_theirs(tmp_path / "b.gguf")
    expected = read_plainly(tmp_path / "b.safetensors")
    if dtype == "bf16":
        expected = {name: array.astype(np.float32) for name, array in expected.items()}
    assert_same(found, expected)


def test_key_values_are_carried_over(pith, arrays, tmp_path):
    write_theirs(tmp_path / "a.gguf", [(name, array, None) for name, array in arrays.items()])
    pith("convert", tmp_path / "a.gguf", "-o", tmp_path / "b.gguf", "--dtype", "f16")
    tensors, keys = read_theirs(tmp_path / "b.gguf")
    assert_same(tensors, {name: array.astype(np.float16) for name, array in arrays.items()})
    _, before = read_theirs(tmp_path / "a.gguf")
    # Those that tell how tensors are stored are new.
    assert {name: keys.get(name) for name in before} == before
    assert set(keys) - set(before) <= {"general.file_type", "general.quantization_version"}
