"""What the processes that an engine starts need in their environment."""

import os
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "ray-serve"

# They import the modules of these tests, and the example.
sys.path.append(str(EXAMPLE))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), str(EXAMPLE), os.environ.get("PYTHONPATH")]))
# Ray reports its use over the network otherwise.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray runs workers at a lower priority than itself, which a busy machine does not serve.
os.environ["RAY_worker_niceness"] = "0"
os.environ["RAY_gcs_server_port_wait_time_s"] = "300"


@pytest.fixture(scope="session")
def patient():
    """Lets Ray start on a busy machine, where it waits too short for its processes: 30 seconds for a node, in a loop around
    `get_node`, and 15 for the agents of a node, which therefore leave out what only dashboards need."""
    from ray._private import services, utils

    get_node = services.get_node

    def get_node_patiently(*arguments):
        for _ in range(120):
            try:
                return get_node(*arguments)
            except RuntimeError:
                time.sleep(1)
        return get_node(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "get_node", get_node_patiently)
        patch.setattr(utils, "get_dashboard_dependency_error", lambda: ImportError("no dashboard in tests"))
        yield
