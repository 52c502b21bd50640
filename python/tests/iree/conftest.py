from pathlib import Path

import pytest

import incarnate.iree.runtime as rt

MODELS = Path(__file__).parents[3] / "tests" / "models"


@pytest.fixture
def models() -> Path:
    """The folder of the repository's compiled models."""
    return MODELS


@pytest.fixture(params=["local-sync", "local-task"])
def device(request):
    return rt.get_device(request.param)


@pytest.fixture
def load(device):
    """Loads a model and returns its functions."""

    def load(model: str, *others, file: str = "vmvx.vmfb"):
        config = rt.Config(device=device)
        module = rt.VmModule.mmap(config.vm_instance, str(MODELS / model / file))
        return rt.load_vm_modules(*others, module, config=config)[-1]

    return load
