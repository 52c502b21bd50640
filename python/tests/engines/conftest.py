"""What the processes that an engine starts need in their environment."""

import os
from pathlib import Path

# They import the modules of these tests.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
# Ray reports its use over the network otherwise.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
