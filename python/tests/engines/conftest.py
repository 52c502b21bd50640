"""What the processes that an engine starts need in their environment."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "ray-serve"

# They import the modules of these tests, and the example.
sys.path.append(str(EXAMPLE))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), str(EXAMPLE), os.environ.get("PYTHONPATH")]))
# Ray reports its use over the network otherwise.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
