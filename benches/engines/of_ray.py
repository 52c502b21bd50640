"""The predictor of Ray Data with one of the runtimes."""

from pathlib import Path

import incarnate.ray
from runtimes import Log, Timed, batched


class Predictor(incarnate.ray.Predictor):
    def __init__(self, runtime: str, folder: str, model: str, log: str):
        super().__init__(Path(folder) / f"{model}.vmfb", device="local-sync", inputs="x", outputs="y")
        timed = Timed(runtime, Path(folder), model)
        self._function = batched(timed)
        self._log = Log(Path(log), timed)

    def __call__(self, batch):
        return self._log.run(lambda: super(Predictor, self).__call__(batch), len(batch))
