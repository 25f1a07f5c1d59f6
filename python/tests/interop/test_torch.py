import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pith  # noqa: E402
import pith.torch  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 96)
        self.down = torch.nn.Linear(96, 64, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


def test_capture_sees_what_goes_in(net):
    batches = [torch.randn(4, 64) for _ in range(3)]
    observer = pith.torch.capture(net, batches)
    assert observer.names() == ["down", "up"]
    values, columns = observer["up"]
    x = torch.cat(batches).numpy()
    np.testing.assert_array_equal(columns.absmax, np.abs(x).max(axis=0))
    np.testing.assert_allclose(columns.sum_squares, (x.astype(float) ** 2).sum(axis=0))
    assert values.count == x.size
    assert not net.up._forward_pre_hooks


def test_layers_are_swapped(net, tmp_path):
    path, small = tmp_path / "net.safetensors", tmp_path / "small.safetensors"
    pith.save(path, {k: v.numpy() for k, v in net.state_dict().items()})
    pith.compress(path, small, quantize="int8-row")
    x = torch.randn(5, 64)
    with torch.no_grad():
        before = net(x)
        assert pith.torch.swap_linears(net, str(small)) == ["up", "down"]
        after = net(x)
    error = (before - after).norm() / before.norm()
    assert 0 < error < 0.03
