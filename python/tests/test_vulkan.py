"""Models on Vulkan devices, where there are any."""

import os

import numpy as np
import pytest

import incarnate

MODULES = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "vulkan", "modules")

pytestmark = pytest.mark.skipif(
    not any(device.startswith("vulkan") for device in incarnate.devices()), reason="this machine has no Vulkan device"
)


@pytest.fixture(params=["descriptor", "bda"])
def net(request):
    return incarnate.load(os.path.join(MODULES, f"dynamic.{request.param}.vmfb"), "vulkan")


def test_models_compute(net):
    x = np.random.default_rng(1).random((3000, 4), dtype=np.float32)
    for _ in range(3):
        np.testing.assert_allclose(net.scale_rows(x, [2, 2, 2, 2]), 2 * x)
    doubled = net.scale_rows.tensors(x, [2, 2, 2, 2])
    np.testing.assert_allclose(net.scale_rows(doubled, [2, 2, 2, 2]), 4 * x)
    np.testing.assert_allclose(np.asarray(doubled), 2 * x)


def test_children_of_fork_are_refused(net):
    x = np.ones((4, 4), np.float32)
    child = os.fork()
    if child == 0:
        try:
            net.scale_rows(x, [1, 1, 1, 1])
        except incarnate.Error as error:
            os._exit(0 if "child of fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_code_for_gpus_is_refused_where_it_is_not_trusted():
    with pytest.raises(incarnate.Error, match="vulkan-spirv"):
        incarnate.load(os.path.join(MODULES, "dynamic.descriptor.vmfb"), "vulkan", untrusted=True)
