"""pith.torch with models of torch and of transformers."""

import tracemalloc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pith  # noqa: E402
import pith.torch  # noqa: E402
from conftest import shared  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 96)
        self.down = torch.nn.Linear(96, 64, bias=False)

    def forward(self, x, scale=1.0):
        return self.down(torch.relu(self.up(x))) * scale


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


def save(model, path):
    pith.save(path, {k: pith.torch.to_numpy(v) for k, v in model.state_dict().items()})
    return path


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def test_capture_sees_what_goes_in(net, tmp_path):
    batches = [torch.randn(4, 64) for _ in range(3)]
    seen = []
    net.down.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    net.train()
    observer = pith.torch.capture(net, [batches[0], (batches[1],), {"x": batches[2], "scale": 2}])
    assert net.training and not net.up._forward_pre_hooks
    assert observer.names() == ["down", "up"]
    for name, inputs in (("up", batches), ("down", seen)):
        values, columns = observer[name]
        x = torch.cat(inputs).detach().numpy()
        np.testing.assert_array_equal(columns.absmax, np.abs(x).max(axis=0))
        np.testing.assert_allclose(columns.sum_squares, (x.astype(float) ** 2).sum(axis=0))
        assert values.count == x.size and columns.rows == 12
    observer.save(tmp_path / "stats.safetensors")
    assert pith.Observer.load(tmp_path / "stats.safetensors").names() == ["down", "up"]
    assert pith.torch.capture(net, batches, select=lambda n: n == "up").names() == ["up"]


def test_hooks_are_removed_whatever_happens(net):
    with pytest.raises(RuntimeError):
        pith.torch.capture(net, [torch.randn(2, 5)])
    with pytest.raises(pith.NotFinite):
        pith.torch.capture(net, [torch.full((1, 64), torch.nan)])
    assert not any(m._forward_pre_hooks for m in net.modules())


def test_capture_needs_no_more_memory_for_more_batches(net):
    def peak(batches):
        tracemalloc.start()
        pith.torch.capture(net, (torch.randn(32, 64) for _ in range(batches)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(5)
    assert peak(200) < 2 * peak(10) + 100_000


@pytest.mark.parametrize("scheme", ["int8-row", "int4-g32", "q8_0"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_layers_are_swapped(net, tmp_path, scheme, dtype):
    path, small = save(net, tmp_path / "net.safetensors"), tmp_path / "small.safetensors"
    pith.compress(path, small, quantize=scheme)
    x = torch.randn(2, 5, 64, dtype=dtype)
    with torch.no_grad():
        before = net(x.float())
        assert pith.torch.swap_linears(net, small) == ["up", "down"]
        after = net(x)
    assert after.dtype == dtype and after.shape == before.shape
    assert 0 < relative(after.float(), before) < (0.25 if scheme == "int4-g32" else 0.03)
    assert "int" in repr(net) or "q8_0" in repr(net)


def test_modules_without_a_tensor(net, tmp_path):
    pith.save(tmp_path / "a.safetensors", {"up.weight": net.up.weight.detach().numpy()})
    pith.compress(tmp_path / "a.safetensors", tmp_path / "b.safetensors", quantize="int8-row")
    with pytest.raises(pith.NotFound, match="down.weight"):
        pith.torch.swap_linears(net, tmp_path / "b.safetensors")
    x = torch.randn(3, 64)
    with torch.no_grad():
        before = net(x)
    # The bias is not in the file: it is the module's.
    assert pith.torch.swap_linears(net, tmp_path / "b.safetensors", strict=False) == ["up"]
    with torch.no_grad():
        assert relative(net(x), before) < 0.03


def test_an_encoder_of_torch(tmp_path):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 10, 64)
    names = pith.torch.capture(model, [x]).names()
    assert names == [f"layers.{i}.linear{j}" for i in (0, 1) for j in (1, 2)]
    path, small = save(model, tmp_path / "a.safetensors"), tmp_path / "b.safetensors"
    pith.compress(path, small, quantize="int8-row")
    with torch.no_grad():
        before = model(x)
        assert sorted(pith.torch.swap_linears(model, small)) == names
        assert 0 < relative(model(x), before) < 0.03


def test_statistics_of_a_language_model_prune_it_better(tmp_path):
    transformers = pytest.importorskip("transformers")
    source = shared("models", "stories260K")
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(source, dtype=torch.float32).eval()
    ids = torch.from_numpy(np.load(source / "ids_valid_a.npy").astype(np.int64))
    batches = [{"input_ids": ids[i : i + 512][None]} for i in range(0, 8 * 512, 512)]
    observer = pith.torch.capture(model, batches, select=lambda n: n != "lm_head")
    assert len(observer.names()) == 35
    held = ids[20 * 512 : 24 * 512].reshape(4, 512)

    def loss(change):
        changed = load(source, dtype=torch.float32).eval()
        for name, module in changed.named_modules():
            if name in observer:
                module.weight.data = torch.from_numpy(change(name, module.weight.detach().numpy()))
        with torch.no_grad():
            return changed(input_ids=held, labels=held).loss.item()

    def wanda(name, w):
        _, columns = observer[name]
        norms = np.sqrt(columns.sum_squares).astype(np.float32)
        return pith.prune(w, 0.5, importance="wanda", scope="row", column_norms=norms).values

    plain = loss(lambda name, w: w)
    magnitude = loss(lambda name, w: pith.prune(w, 0.5).values)
    by_wanda = loss(wanda)
    print(f"loss: {plain:.3f}; 50 % pruned by magnitude {magnitude:.3f}, by wanda {by_wanda:.3f}")
    assert plain < by_wanda < magnitude
