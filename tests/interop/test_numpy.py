"""Against numpy."""

import io
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy_format
from safetensors.numpy import save_file

from conftest import assert_same, assert_stats, read_plainly

TYPES = [np.float32, np.float16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_]


def numbers(dtype, shape=(5, 7)):
    values = np.random.default_rng(5).normal(0, 50, shape)
    return values > 0 if dtype == np.bool_ else np.abs(values).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("order", "CF")
def test_their_npy_files_are_read(pith, inspect, tmp_path, dtype, order):
    array = np.asarray(numbers(dtype), order=order)
    np.save(tmp_path / "a.npy", array)
    (seen,) = inspect(tmp_path / "a.npy").values()
    assert_stats(seen, array)
    pith("convert", tmp_path / "a.npy", "-o", tmp_path / "b.safetensors")
    (found,) = read_plainly(tmp_path / "b.safetensors").values()
    assert_same({"": found}, {"": array})


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_versions_are_read(pith, tmp_path, version):
    array = numbers(np.float32)
    with open(tmp_path / "a.npy", "wb") as file:
        npy_format.write_array(file, array, version)
    pith("convert", tmp_path / "a.npy", "-o", tmp_path / "b.npy")
    assert_same({"": np.load(tmp_path / "b.npy")}, {"": array})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_their_archives_are_read(pith, inspect, tmp_path, save):
    arrays = {dtype.__name__: numbers(dtype) for dtype in TYPES}
    save(tmp_path / "a.npz", **arrays)
    seen = inspect(tmp_path / "a.npz")
    for name, array in arrays.items():
        assert_stats(seen[name], array)
    pith("convert", tmp_path / "a.npz", "-o", tmp_path / "b.safetensors")
    assert_same(read_plainly(tmp_path / "b.safetensors"), arrays)


def test_zip64_archives_are_read(pith, tmp_path):
    array = numbers(np.float32)
    content = io.BytesIO()
    np.save(content, array)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("w.npy", "w", force_zip64=True) as entry:
        entry.write(content.getvalue())
    pith("convert", tmp_path / "a.npz", "-o", tmp_path / "b.safetensors")
    assert_same(read_plainly(tmp_path / "b.safetensors"), {"w": array})


def test_written_archives_are_read_by_numpy(pith, model, tmp_path):
    arrays = {name: array for name, array in model.items() if not name.startswith("bf16")}
    arrays["scalar"] = np.array(3, np.int64)
    arrays["empty"] = np.zeros((0, 4), np.float32)
    save_file(arrays, tmp_path / "a.safetensors")
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as archive:
        assert_same(dict(archive), arrays)
    assert zipfile.ZipFile(tmp_path / "b.npz").testzip() is None
    pith("convert", tmp_path / "b.npz", "-o", tmp_path / "c.safetensors")
    assert_same(read_plainly(tmp_path / "c.safetensors"), arrays)


def test_bf16_becomes_f32_in_archives_if_asked(pith, model, tmp_path):
    arrays = {name: array for name, array in model.items() if name.startswith("bf16")}
    save_file(arrays, tmp_path / "a.safetensors")
    pith("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.npz", "--dtype", "f32")
    with np.load(tmp_path / "b.npz") as archive:
        assert_same(dict(archive), {name: array.astype(np.float32) for name, array in arrays.items()})
