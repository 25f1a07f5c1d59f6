"""Files of Pith read by the packages that own the formats, and theirs by Pith.

scripts/test-python.sh installs the packages and runs these tests.
"""

import json
import os
import pathlib
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest

DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16),
          "I64": np.dtype(np.int64), "I32": np.dtype(np.int32), "U8": np.dtype(np.uint8), "I8": np.dtype(np.int8),
          "BOOL": np.dtype(np.bool_), "F64": np.dtype(np.float64)}


@pytest.fixture(scope="session")
def pith():
    """Runs the command and returns what it prints; it must succeed."""
    source = pathlib.Path(__file__).resolve().parents[2]
    program = os.environ.get("PITH", source / "build/release/cli/pith")

    def run(*arguments):
        result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.fixture
def inspect(pith):
    """Tensors of a file by name, as `pith inspect` tells them."""
    def run(path):
        report = json.loads(pith("inspect", path, "--json", "--stats"))
        return {tensor["name"]: tensor for tensor in report["tensors"]}

    return run


def bits(array):
    """Bytes, so that NaN equals itself and -0 is not 0."""
    return np.ascontiguousarray(array).tobytes()


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert bits(found[name]) == bits(array), name


def assert_stats(found, array):
    """What `inspect --stats` says of a tensor is what numpy says."""
    values = array.astype(np.float32).astype(np.float64)  # as which all are read
    finite = values[np.isfinite(values)]
    stats = found["stats"]
    assert found["shape"] == list(array.shape)
    assert (stats["min"], stats["max"]) == (finite.min(), finite.max())
    assert stats["absmax"] == np.abs(finite).max()
    assert stats["zeros"] == np.count_nonzero(values == 0)
    assert stats["nan"] == np.count_nonzero(np.isnan(values))
    assert stats["inf"] == np.count_nonzero(np.isinf(values))
    assert stats["mean"] == pytest.approx(finite.mean(), rel=1e-6, abs=1e-7 * np.abs(finite).max())
    assert stats["std"] == pytest.approx(finite.std(), rel=1e-6)


def read_plainly(path):
    """A safetensors file by its layout alone."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def special_values(dtype):
    """Numbers at the borders of a type, and among them NaN and infinities."""
    info = ml_dtypes.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, float(info.max), float(info.min), float(info.tiny), float(info.smallest_subnormal),
              np.inf, -np.inf, np.nan]
    return np.array(values, np.float64).astype(dtype)


@pytest.fixture
def model():
    """Arrays of several types and shapes, with special values."""
    random = np.random.default_rng(1)
    arrays = {}
    for name, dtype in (("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        arrays[f"{name}.matrix"] = random.normal(0, 1, (37, 65)).astype(dtype)
        arrays[f"{name}.special"] = special_values(dtype)
        arrays[f"{name}.cube"] = random.normal(0, 3, (2, 3, 5)).astype(dtype)
    return arrays
