"""Files: what Pith writes others read, and the other way round."""

import collections.abc
import json
import os
import signal
import subprocess
import sys
import threading
import time

import gguf
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import pith


@pytest.fixture
def tensors(rng):
    return {
        "fc.weight": rng.normal(size=(6, 64)).astype(np.float32),
        "fc.bias": rng.normal(size=6).astype(np.float16),
        "emb": rng.normal(size=(4, 3, 8)).astype(np.float32),
        "ids": rng.integers(0, 99, size=(5,)).astype(np.int64),
    }


def test_safetensors_reads_what_pith_writes(tensors, tmp_path):
    path = tmp_path / "a.safetensors"
    pith.save(path, tensors, metadata={"who": "pith"})
    read = safetensors.numpy.load_file(path)
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
    with safetensors.safe_open(path, "np") as f:
        assert f.metadata() == {"who": "pith"}


def test_pith_reads_what_safetensors_writes(tensors, tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(tensors, path, metadata={"k": "v"})
    model = pith.open(path)
    assert model.format == "safetensors" and model.metadata == {"k": "v"}
    for name, array in tensors.items():
        np.testing.assert_array_equal(model[name].read(), array.astype(np.float32))
        np.testing.assert_array_equal(model[name].read_raw(), array)
        assert model[name].shape == array.shape


def test_a_checkpoint_is_a_mapping(tensors, tmp_path):
    path = tmp_path / "a.safetensors"
    pith.save(path, tensors)
    model = pith.open(path)
    assert isinstance(model, collections.abc.Mapping)
    assert set(model) == set(tensors) and len(model) == 4
    assert "ids" in model and "none" not in model and model.get("none") is None
    assert {name: t.shape for name, t in model.items()} == {n: a.shape for n, a in tensors.items()}
    assert [t.name for t in model.values()] == model.keys()
    with pytest.raises(KeyError):
        model["none"]


def test_rows_are_read_as_numpy_slices(tensors, tmp_path):
    path = tmp_path / "a.safetensors"
    pith.save(path, tensors)
    model = pith.open(path)
    for name in ("fc.weight", "emb", "fc.bias"):
        t, a = model[name], tensors[name].astype(np.float32)
        keys = [slice(1, 3), slice(None), 2, -1, slice(None, None, 2), slice(None, None, -1)]
        keys += [slice(3, 1), slice(-2, None), slice(4, 0, -2), Ellipsis]
        if a.ndim > 1:
            keys += [(slice(1, 3), 2), (0, slice(2, 5)), (slice(None, None, -2), slice(1, 2))]
        for key in keys:
            np.testing.assert_array_equal(t[key], a[key], err_msg=f"{name}[{key}]")
        np.testing.assert_array_equal(np.asarray(t), a)
        assert len(t) == len(a) and t.ndim == a.ndim and t.size == a.size
    with pytest.raises(IndexError):
        model["fc.weight"][6]


def test_gguf_reads_what_pith_writes(rng, tmp_path):
    path = tmp_path / "a.gguf"
    w = rng.normal(size=(4, 64)).astype(np.float32)
    pith.save(path, {"w": w, "h": w.astype(np.float16)}, metadata={"general.architecture": "none"})
    reader = gguf.GGUFReader(path)
    read = {t.name: t for t in reader.tensors}
    np.testing.assert_array_equal(read["w"].data, w)
    np.testing.assert_array_equal(read["h"].data, w.astype(np.float16))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0"])
def test_blocks_are_those_of_the_gguf_package(rng, tmp_path, name):
    w = rng.normal(size=(8, 96)).astype(np.float32)
    kind = getattr(gguf.GGMLQuantizationType, name)
    blocks = gguf.quants.quantize(w, kind)
    q = pith.quantize(w, name.lower())
    np.testing.assert_array_equal(q.codes, blocks)
    np.testing.assert_array_equal(q.dequantize(), gguf.quants.dequantize(blocks, kind))
    # A file of that package.
    writer = gguf.GGUFWriter(tmp_path / "b.gguf", "none")
    writer.add_tensor("w", blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    t = pith.open(tmp_path / "b.gguf")["w"]
    assert t.shape == w.shape
    np.testing.assert_array_equal(t.read(), q.dequantize())
    np.testing.assert_array_equal(t[3:5], q.dequantize()[3:5])
    assert t.read_bytes() == blocks.tobytes()


def test_bf16_files(rng, tmp_path):
    w = rng.normal(size=(4, 8)).astype(ml_dtypes.bfloat16)
    path = tmp_path / "b.safetensors"
    pith.save(path, {"w": w})
    t = pith.open(path)["w"]
    assert t.dtype == "bf16" and t.read_raw().dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(t.read(), w.astype(np.float32))


def test_conversion_and_statistics(tensors, tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.npz"
    pith.save(a, {k: v for k, v in tensors.items()})
    seen = []
    report = pith.convert_checkpoint(
        a, b, dtype="f16", progress=lambda item, done, total: seen.append((done, total))
    )
    assert report.tensors == 4 and report.output_bytes == os.path.getsize(b)
    assert seen and seen[-1][0] == seen[-1][1]
    with np.load(b) as z:
        np.testing.assert_array_equal(z["emb"], tensors["emb"].astype(np.float16))
        np.testing.assert_array_equal(z["ids"], tensors["ids"])
    stats = pith.tensor_stats(a, ["fc.weight"])["fc.weight"]
    w = tensors["fc.weight"].astype(np.float64)
    assert stats.elements == w.size and stats.absmax == np.abs(w).max()
    np.testing.assert_allclose([stats.mean, stats.deviation], [w.mean(), w.std()], rtol=1e-9)
    with pytest.raises(pith.AlreadyExists):
        pith.convert_checkpoint(a, b)
    pith.convert_checkpoint(a, b, overwrite=True, progress=True)


def test_an_exception_of_progress_stops_the_work(tmp_path):
    a = tmp_path / "a.safetensors"
    pith.save(a, {f"t{i}": np.ones((64, 1024), np.float32) for i in range(20)})

    def stop(item, done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pith.convert_checkpoint(a, tmp_path / "b.safetensors", dtype="f16", progress=stop)
    # Either it was stopped or it had ended before; never half of it.
    left = [p.name for p in tmp_path.iterdir()]
    assert set(left) <= {"a.safetensors", "b.safetensors"}


def test_ctrl_c_stops_a_long_call_cleanly(tmp_path):
    a = tmp_path / "a.safetensors"
    pith.save(a, {f"t{i}": np.ones((1024, 4096), np.float32) for i in range(8)})
    pressed = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for i in range(1000):
            pith.convert_checkpoint(a, tmp_path / "b.safetensors", dtype="f16", overwrite=True)
    assert time.monotonic() - begin < 5
    pressed.join()
    assert not [p for p in tmp_path.iterdir() if "tmp" in p.name]


def test_files_that_are_not_right_are_refused(tmp_path):
    with pytest.raises(pith.NotFound, match="none.safetensors"):
        pith.open(tmp_path / "none.safetensors")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"\xff" * 64)
    with pytest.raises((pith.Corrupt, pith.Unsupported), match="bad.safetensors"):
        pith.open(bad)
    with pytest.raises(pith.InvalidArgument, match="format"):
        pith.save(tmp_path / "x.unknown", {"w": np.ones(1, np.float32)})


@pytest.fixture
def long(rng, tmp_path):
    """A checkpoint whose compression takes a while, alone in its folder."""
    path = tmp_path / "long" / "big.safetensors"
    path.parent.mkdir()
    block = rng.normal(size=(1024, 4096)).astype(np.float32)
    pith.save(path, {f"layers.{i}.weight": block for i in range(8)})
    return path


def test_ctrl_c_leaves_the_output_as_it_was(long):
    out = long.with_name("small.safetensors")
    out.write_bytes(b"what was there")
    calls = []

    def press(item, done, total):
        calls.append(done)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pith.compress(long, out, prune=0.5, quantize="int4-g32", overwrite=True, progress=press)
    assert out.read_bytes() == b"what was there"
    assert sorted(p.name for p in long.parent.iterdir()) == ["big.safetensors", "small.safetensors"]
    # And the next run is as if nothing had been.
    with pith.set_threads(2):
        report = pith.compress(long, out, prune=0.5, quantize="int4-g32", overwrite=True)
    assert report.output_bytes == os.path.getsize(out)


def test_ctrl_c_stops_the_command(long):
    out = long.with_name("small.safetensors")
    words = [sys.executable, "-m", "pith", "compress", str(long), "-o", str(out)]
    run = subprocess.Popen([*words, "--prune", "0.5", "--quantize", "int4-g32", "--threads", "1"],
                           stderr=subprocess.PIPE, text=True)
    while len(list(long.parent.iterdir())) == 1 and run.poll() is None:
        time.sleep(0.001)
    run.send_signal(signal.SIGINT)
    _, message = run.communicate(timeout=30)
    assert run.returncode == 130, message
    assert not out.exists()


def test_progress_is_told_in_order_and_in_this_thread(long):
    seen = []

    def progress(item, done, total):
        seen.append((threading.get_ident(), item, done, total))

    pith.compress(long, long.with_name("a.safetensors"), quantize="int8-row", progress=progress)
    assert {s[0] for s in seen} == {threading.get_ident()}
    assert [s[2] for s in seen] == sorted(s[2] for s in seen)
    assert len({s[3] for s in seen}) == 1 and seen[-1][2] == seen[-1][3]
    with pytest.raises(pith.InvalidArgument, match="progress"):
        pith.compress(long, long.with_name("b.safetensors"), quantize="int8-row", progress=3)


def test_rows_are_read_only_when_asked_for(tmp_path):
    # A file of 2 TB with holes: nothing of it can be read whole.
    path = tmp_path / "huge.safetensors"
    rows, cols = 1 << 27, 4096
    size = rows * cols * 4
    entry = {"w": {"dtype": "F32", "shape": [rows, cols], "data_offsets": [0, size]}}
    header = json.dumps(entry).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        try:
            f.truncate(8 + len(header) + size)
        except OSError as error:
            pytest.skip(f"no file of 2 TB here: {error}")
        row = rows - 5
        f.seek(8 + len(header) + row * cols * 4)
        f.write(np.arange(cols, dtype=np.float32).tobytes())
    w = pith.open(path)["w"]
    assert w.shape == (rows, cols)
    np.testing.assert_array_equal(w[row], np.arange(cols))
    np.testing.assert_array_equal(w[row - 1 : row + 2, 7], [0, 7, 0])
    np.testing.assert_array_equal(w[-5, ::1000], np.arange(0, cols, 1000))
