"""Whole checkpoints: plan, compress, verify, restore and the report."""

import os

import numpy as np
import pytest

import pith


@pytest.fixture
def source(rng, tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {
        "model.embed_tokens.weight": rng.normal(size=(32, 64)).astype(np.float32),
        "model.layers.0.mlp.up_proj.weight": rng.normal(size=(96, 64)).astype(np.float32),
        "model.layers.0.mlp.down_proj.weight": rng.normal(size=(64, 96)).astype(np.float32),
        "model.norm.weight": np.ones(64, np.float32),
    }
    pith.save(path, tensors)
    return path, tensors


def test_the_plan_is_the_size_to_the_byte(source, tmp_path):
    path, _ = source
    out = tmp_path / "small.safetensors"
    plan = pith.plan(path, out, quantize="int8-row")
    report = pith.compress(path, out, quantize="int8-row")
    assert plan.output_bytes == os.path.getsize(out) == report.output_bytes
    assert plan.input_bytes == os.path.getsize(path) == report.source_bytes
    assert "up_proj" in plan._repr_html_()


def test_what_is_written_is_what_quantize_gives(source, tmp_path):
    path, tensors = source
    out = tmp_path / "small.safetensors"
    seen = []
    report = pith.compress(
        path, out, prune=0.5, quantize="int8-row", skip_embeddings=True,
        progress=lambda *p: seen.append(p),
    )
    assert seen and seen[-1][1] == seen[-1][2]
    name = "model.layers.0.mlp.up_proj.weight"
    pruned = pith.prune(tensors[name], 0.5)
    expected = pith.quantize(pruned.values, "int8-row").dequantize()
    small = pith.open(out)
    np.testing.assert_array_equal(small[name].read(), expected)
    kept = "model.embed_tokens.weight"
    np.testing.assert_array_equal(small[kept].read(), tensors[kept])
    assert report[kept].action == "kept" and report[name].action == "compressed"
    np.testing.assert_allclose(
        report[name].error.mse, pith.measure_error(tensors[name], expected).mse, rtol=1e-6
    )
    assert report.worst(1)[0].error.sqnr_db == min(
        t.error.sqnr_db for t in report.tensors if t.error
    )


def test_smoothing_by_statistics(source, rng, tmp_path):
    path, tensors = source
    layer = "model.layers.0.mlp.up_proj"
    x = rng.normal(size=(32, 64)).astype(np.float32)
    x[:, 7] *= 100  # what a scale for the whole row cannot hold
    observer = pith.Observer()
    observer.record(layer, x)
    observer.save(tmp_path / "stats.safetensors")
    expected = x @ tensors[layer + ".weight"].T

    def error(**options):
        out = tmp_path / "small.safetensors"
        pith.compress(path, out, quantize="int8-row", overwrite=True, **options)
        assert pith.verify(path, out)
        return np.linalg.norm(pith.Linear.load(out, layer)(x) - expected)

    assert error(smooth=tmp_path / "stats.safetensors", alpha=0.5) < error() / 2
    with pytest.raises(pith.NotFound):
        error(smooth=tmp_path / "nowhere.safetensors")


def test_recipes_as_text_and_file(source, tmp_path):
    path, _ = source
    recipe = (
        "version: 1\nrules:\n  - match: '*.up_proj.weight'\n    stages: [{quantize: int4-g32}]\n"
    )
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    pith.compress(path, a, recipe)
    (tmp_path / "r.yaml").write_text(recipe)
    pith.compress(path, b, tmp_path / "r.yaml")
    assert a.read_bytes() == b.read_bytes()
    with pytest.raises(pith.InvalidArgument, match="together"):
        pith.compress(path, tmp_path / "c.safetensors", recipe, quantize="int8")
    with pytest.raises(pith.InvalidArgument, match="'quantise' is not one of"):
        pith.compress(path, tmp_path / "c.safetensors", quantise="int8")


def test_verify_and_restore(source, tmp_path):
    path, _ = source
    out, dense = tmp_path / "small.safetensors", tmp_path / "dense.safetensors"
    pith.compress(path, out, quantize="int8-row")
    good = pith.verify(path, out)
    assert good and good.problems == [] and good.checksums > 0
    assert "No problem" in good._repr_html_()
    assert not pith.verify(path, out, min_sqnr=200)
    done = pith.restore(out, dense)
    assert done.restored == 3
    assert pith.diff(out, dense).differ == 0
    data = bytearray(out.read_bytes())
    data[-100] ^= 1
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(data)
    assert not pith.verify(path, bad)


def test_the_report_in_all_its_forms(source, tmp_path):
    path, _ = source
    report = pith.compress(path, tmp_path / "s.gguf", quantize="q8_0")
    assert report.ratio > 3 and 8 < report.bits_per_weight < 12
    report.save(tmp_path / "report.json")
    again = pith.report(tmp_path / "report.json")
    assert again.output_bytes == report.output_bytes and len(again.tensors) == 4
    assert again.json() == report.json()
    assert report._repr_html_().startswith("<iframe") and "up_proj" in report.html()
    assert "|" in report.markdown() and str(report) == report.summary()


def test_failures_leave_nothing(source, tmp_path):
    path, tensors = source
    out = tmp_path / "out" / "small.safetensors"
    out.parent.mkdir()
    bad = tmp_path / "nan.safetensors"
    broken = dict(tensors)
    name = "model.layers.0.mlp.up_proj.weight"
    broken[name] = tensors[name].copy()
    broken[name][3, 5] = np.nan
    pith.save(bad, broken)
    with pytest.raises(pith.NotFinite, match="up_proj"):
        pith.compress(bad, out, quantize="int8-row")
    assert list(out.parent.iterdir()) == []
    with pytest.raises(pith.InvalidArgument):
        pith.compress(path, out, quantize="int9")


def test_a_folder_of_hugging_face(rng, tmp_path):
    import json

    import pith.hf

    folder, small = tmp_path / "model", tmp_path / "small"
    folder.mkdir()
    name = "model.layers.0.mlp.up_proj.weight"
    w = rng.normal(size=(64, 128)).astype(np.float32)
    head = rng.normal(size=(32, 128)).astype(np.float32)
    pith.save(folder / "model.safetensors", {name: w, "lm_head.weight": head})
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer.json").write_text("{}")
    for scheme, bits in (("W8A8", 8), ("W4A16", 4)):
        pith.hf.compress(folder, small, scheme, overwrite=True)
        config = pith.hf.quantization_config(small)
        assert config["quant_method"] == "compressed-tensors"
        assert config["config_groups"]["group_0"]["weights"]["num_bits"] == bits
        model = pith.open(small)
        np.testing.assert_array_equal(model["lm_head.weight"].read(), head)
        error = pith.measure_error(w, model[name].read())
        assert error.sqnr_db > (40 if bits == 8 else 18)
        assert (small / "tokenizer.json").read_text() == "{}"
    with pytest.raises(pith.NotFound, match="config.json"):
        pith.hf.compress(tmp_path / "none", tmp_path / "x")
    with pytest.raises(pith.InvalidArgument, match="W8A8"):
        pith.hf.compress(folder, tmp_path / "x", "W3A3")
    with pytest.raises(pith.InvalidArgument, match="one scale for each row"):
        pith.hf.compress(folder, tmp_path / "x", "W8A8", group_size=32)
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(pith.Unsupported, match="Conv1D"):
        pith.hf.compress(folder, tmp_path / "x", "W8A8")


def test_only_linear_layers_of_a_folder_are_quantized(rng, tmp_path):
    import json

    import pith.hf

    folder, small = tmp_path / "model", tmp_path / "small"
    folder.mkdir()
    shapes = {
        "bert.embeddings.word_embeddings.weight": (40, 64),
        "bert.embeddings.LayerNorm.bias": (64,),
        "bert.layers.0.up.weight": (96, 64),
        "bert.layers.0.gate.weight": (4, 64),
        "bert.layers.0.conv.weight": (8, 64, 3),
        "bert.layers.0.A_log": (64, 16),
        "cls.predictions.transform.dense.weight": (64, 64),
        "lm_head.bias": (64,),
    }
    # Zeros, so that vectors are equal: they must not be taken for tied embeddings.
    tensors = {
        name: (rng.normal(size=shape) if len(shape) > 1 else np.zeros(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    pith.save(folder / "model.safetensors", tensors)
    config = json.dumps({"model_type": "bert", "tie_word_embeddings": True})
    (folder / "config.json").write_text(config)
    report = pith.hf.compress(folder, small, "W4A16", group_size=32)
    compressed = {t.name for t in report.tensors if t.action == "compressed"}
    assert compressed == {"bert.layers.0.up.weight", "cls.predictions.transform.dense.weight"}
    assert {t.action for t in report.tensors if t.name not in compressed} == {"kept"}
    ignore = set(pith.hf.quantization_config(small)["ignore"])
    assert {"bert.layers.0.gate", "bert.layers.0.conv", "cls.predictions.decoder"} <= ignore
    assert "lm_head" in ignore and "bert.layers.0.up" not in ignore
    # A head that is quantized is not ignored.
    recipe = "version: 1\nrules: [{match: lm_head.weight, stages: [{quantize: w8a8}]}]\n"
    tensors = {"lm_head.weight": rng.normal(size=(8, 64)).astype(np.float32)}
    pith.save(folder / "model.safetensors", tensors, overwrite=True)
    pith.compress(folder, small, recipe, overwrite=True)
    assert pith.hf.quantization_config(small)["ignore"] == []
