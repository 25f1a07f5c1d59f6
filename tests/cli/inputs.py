"""Small checkpoints of every format, made from nothing but their layouts."""

import io
import json
import math
import os
import pathlib
import pickle
import struct
import sys
import types
import zipfile


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def header_and_data(header, data=b""):
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def safetensors(tensors, metadata=None):
    """tensors: (name, dtype, shape, bytes), in the order of their data."""
    header = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return header_and_data(json.dumps(header, separators=(",", ":")).encode(), data)


WEIGHT = ("layer.weight", "F32", [3, 4], f32(*[0.25 * i - 1 for i in range(12)]))
BIAS = ("layer.bias", "F32", [3], f32(0, 0.5, -0.5))
STEPS = ("steps", "I64", [], struct.pack("<q", 1000))


def gguf():
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
            text("general.quantization_version") + struct.pack("<II", 4, 2),
            text("llama.block_count") + struct.pack("<II", 4, 1),
            text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 3) + f32(0, -1, -2)]
    block = struct.pack("<e32b", 0.5, *range(-16, 16))
    # Name, extents from the innermost on, type, offset.
    tensors = [text("blk.0.norm") + struct.pack("<IQIQ", 1, 2, 0, 0),
               text("blk.0.ffn") + struct.pack("<IQQIQ", 2, 32, 2, 8, 32)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
    head += b"\0" * (-len(head) % 32)
    data = f32(1, -2).ljust(32, b"\0") + block + block
    return head + data + b"\0" * (-len(data) % 32)


def npy(descr, shape, raw):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + raw


def npz(arrays):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content, deflated in arrays:
            info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return file.getvalue()


def pytorch(call=None):
    """A state dict as torch.save writes it. `call`: a function that reading with pickle would call."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def rebuild(*_):
        raise NotImplementedError

    storage = type("FloatStorage", (), {"__module__": "torch"})
    torch.FloatStorage, torch._utils, utils._rebuild_tensor_v2 = storage, utils, rebuild
    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    rebuild.__name__ = "_rebuild_tensor_v2"

    class Tensor:
        def __reduce__(self):
            return rebuild, (Storage(), 0, (2, 3), (3, 1), False, {})

    class Storage:
        pass

    class Call:
        def __reduce__(self):
            return call, ("touch called",)

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            return ("storage", storage, "0", "cpu", 6) if isinstance(obj, Storage) else None

    sys.modules["torch"], sys.modules["torch._utils"] = torch, utils
    program = io.BytesIO()
    Pickler(program, 2).dump({"weight": Call() if call else Tensor()})
    del sys.modules["torch"], sys.modules["torch._utils"]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (("data.pkl", program.getvalue()), ("data/0", f32(1, 2, 3, 4, 5, 6)),
                              ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo("model/" + name, (1980, 1, 1, 0, 0, 0)), content)
    return file.getvalue()


def sharded(folder, weight_map=None):
    folder.mkdir()
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    (folder / shards[0]).write_bytes(safetensors([WEIGHT], {"format": "pt"}))
    (folder / shards[1]).write_bytes(safetensors([BIAS], {"format": "pt"}))
    index = {"metadata": {"total_size": 60},
             "weight_map": weight_map or {"layer.bias": shards[1], "layer.weight": shards[0]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    (folder / "config.json").write_text('{"model_type": "tiny"}\n')
    (folder / "tokenizer.json").write_text("{}\n")


def more_folders(folder):
    """Links as in the cache of the Hugging Face hub, and folders that are wrong in one way each."""
    shard = "model-00001-of-00002.safetensors"
    sharded(folder / "blobs")
    sharded(folder / "links")
    for number in (1, 2):
        name = f"model-{number:05}-of-00002.safetensors"
        (folder / "links" / name).unlink()
        (folder / "links" / name).symlink_to(f"../blobs/{name}")
    sharded(folder / "both")
    (folder / "both" / "model-00002-of-00002.safetensors").write_bytes(safetensors([BIAS, WEIGHT]))
    sharded(folder / "gone")
    (folder / "gone" / shard).unlink()
    sharded(folder / "pipes")
    (folder / "pipes" / shard).unlink()
    os.mkfifo(folder / "pipes" / shard)


def bomb():
    """A deflated array that claims far more than its bytes can hold."""
    data = bytearray(npz([("w", npy("<f4", (1 << 16,), bytes(4 << 16)), True)]))
    place = data.rindex(b"PK\x01\x02") + 24  # uncompressed size in the directory
    struct.pack_into("<I", data, place, 0xfffffff0)
    return bytes(data)


def make_all(folder):
    small = safetensors([STEPS, BIAS, WEIGHT], {"format": "pt", "note": "made by hand"})
    files = {
        "small.safetensors": small,
        "large.safetensors": safetensors([("w", "F32", [4], f32(1, 70000, -1e6, 2))]),
        "nan.safetensors": safetensors([("w", "F32", [6], f32(1, math.nan, 0, math.inf, -math.inf, -3))]),
        "names.safetensors": safetensors([("\x1b[31mred\n", "F32", [1], f32(1))]),
        "small.gguf": gguf(),
        "small.npy": npy("<f4", (2, 3), f32(1, 2, 3, 4, 5, 6)),
        "wide.npy": npy("<f4", (2, 64), f32(*(100 if i % 64 == 9 else i % 7 for i in range(128)))),
        "small.npz": npz([("a", npy("<f4", (2,), f32(1, -2)), False), ("b", npy("<i4", (3,), bytes(12)), True)]),
        "small.pt": pytorch(),
        "call.pt": pytorch(os.system),
        "cut.safetensors": small[:-2],
        "twice.safetensors": header_and_data(
            b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
            b'"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', f32(1, 2)),
        "wrap.safetensors": header_and_data(
            b'{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
        "deep.safetensors": header_and_data(b'{"w":' + b"[" * 2995),
        "bomb.npz": bomb(),
        "text.txt": b"not a checkpoint\n",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sharded(folder / "model")
    sharded(folder / "escape", {"layer.bias": "../small.safetensors"})
    more_folders(folder)


if __name__ == "__main__":
    make_all(pathlib.Path(sys.argv[1]))
