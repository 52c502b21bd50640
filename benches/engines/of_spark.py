"""The user-defined function of Spark with one of the runtimes."""

from pathlib import Path

from pyspark.ml.functions import predict_batch_udf as spark_predict_batch_udf
from pyspark.sql.types import ArrayType, FloatType

import incarnate.spark
from models import ROWS, SHAPES
from runtimes import Log, Timed, batched


class MakePredict(incarnate.spark._MakePredict):
    """Like the module's own; the runtime is loaded in the worker."""

    def __init__(self, runtime: str, folder: Path, model: str, log: Path):
        super().__init__(model=None, function=None, error_column=None, batched=True)
        self.arguments, self.log = (runtime, folder, model), log

    def function(self):
        self.timed = Timed(*self.arguments)
        return batched(self.timed)

    def __call__(self):
        predict = super().__call__()
        log = Log(self.log, self.timed)

        def logged(x):
            return log.run(lambda: predict(x), len(x))

        return logged


def predict_batch_udf(runtime: str, folder: Path, model: str, log: Path):
    return spark_predict_batch_udf(
        MakePredict(runtime, folder, model, log),
        return_type=ArrayType(FloatType()),
        batch_size=ROWS[model],
        input_tensor_shapes=[list(SHAPES[model])],
    )
