"""Against the safetensors package."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from conftest import assert_same, assert_stats, read_plainly

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def theirs(path):
    """Tensors as the package reads them. It knows where bf16 lies, and numpy alone not what it is."""
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def test_their_files_are_read(pith, inspect, model, tmp_path):
    save_file(model, tmp_path / "a.safetensors", {"format": "pt"})
    seen = inspect(tmp_path / "a.safetensors")
    assert set(seen) == set(model)
    for name, array in model.items():
        assert_stats(seen[name], array)
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "c.safetensors")
    assert_same(read_plainly(tmp_path / "c.safetensors"), model)


def test_written_files_are_theirs_byte_for_byte(pith, model, tmp_path):
    # One key: with several the package writes them in random order.
    save_file(model, tmp_path / "a.safetensors", {"format": "pt"})
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_converted_values_are_rounded_as_numpy_does(pith, tmp_path, dtype):
    random = np.random.default_rng(2)
    values = np.concatenate([random.normal(0, scale, 4001) for scale in (1e-6, 1e-3, 1, 100)]).astype(np.float32)
    save_file({"w": values.reshape(4, -1)}, tmp_path / "a.safetensors")
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.safetensors", "--dtype", dtype)
    expected = {"w": values.reshape(4, -1).astype(TYPES[dtype])}
    assert_same(theirs(tmp_path / "b.safetensors"), expected)
    assert_same(read_plainly(tmp_path / "b.safetensors"), expected)


def test_shards_are_read_by_their_index(pith, inspect, model, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    weight_map = {}
    for number, part in enumerate(("f32", "f16"), 1):
        name = f"model-{number:05}-of-00002.safetensors"
        tensors = {key: array for key, array in model.items() if key.startswith(part)}
        save_file(tensors, folder / name, {"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, name))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    (folder / "config.json").write_text("{}")
    expected = {key: array for key, array in model.items() if key in weight_map}
    seen = inspect(folder)
    assert {name: seen[name]["file"] for name in seen} == weight_map
    pith("convert", folder, "-o", tmp_path / "copy")
    index = json.loads((tmp_path / "copy/model.safetensors.index.json").read_text())
    assert index["weight_map"] == weight_map
    assert index["metadata"]["total_size"] == sum(array.nbytes for array in expected.values())
    found = {}
    for shard in set(index["weight_map"].values()):
        found.update(load_file(tmp_path / "copy" / shard))
    assert_same(found, expected)
    pith("convert", folder, "-o", tmp_path / "one.safetensors")
    assert_same(theirs(tmp_path / "one.safetensors"), expected)


def test_metadata_is_kept(pith, tmp_path):
    save_file({"w": np.zeros(2, np.float32)}, tmp_path / "a.safetensors", {"format": "pt", "ключ": "значение\n\"x\""})
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.safetensors")
    with safe_open(tmp_path / "b.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt", "ключ": "значение\n\"x\""}
