#!/usr/bin/env python3
"""Measures a pipeline (read Parquet, predict, count the rows) with each runtime in turn, on one actor or executor.

    ./pipeline.py FOLDER ray|spark mlp|convolution [ROUNDS]

FOLDER has the models and the data of models.py and data.py. The rounds alternate between the runtimes. Prints a table, and
writes FOLDER/ENGINE-MODEL.json. The model is called with one thread.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Workers at the priority of this process, which Ray lowers otherwise.
os.environ["RAY_worker_niceness"] = "0"

from models import ROWS
from runtimes import RUNTIMES


def on_ray(folder: Path, model: str):
    import ray

    import of_ray

    ray.init("local", num_cpus=2, object_store_memory=500 << 20, include_dashboard=False, _node_ip_address="127.0.0.2")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def run(runtime: str, log: Path) -> int:
        data = ray.data.read_parquet(str(folder / f"data-{model}"))
        mapped = data.map_batches(
            of_ray.Predictor,
            fn_constructor_args=[runtime, str(folder), model, str(log)],
            batch_format="pyarrow",
            batch_size=ROWS[model],
            compute=ray.data.ActorPoolStrategy(size=1),
            num_cpus=1,
        )
        return sum(len(batch["id"]) for batch in mapped.iter_batches(batch_size=None))

    return run, ray.shutdown


def on_spark(folder: Path, model: str):
    from pyspark.sql import SparkSession

    import of_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", str(10 * ROWS[model])).getOrCreate()

    def run(runtime: str, log: Path) -> int:
        predict = of_spark.predict_batch_udf(runtime, folder, model, log)
        frame = session.read.parquet(str(folder / f"data-{model}")).select("id", predict("x").alias("y"))
        # Reading a number of each result keeps Spark from leaving the prediction out.
        return frame.selectExpr("count(y[0]) AS rows").collect()[0].rows

    return run, session.stop


def entries(log: Path) -> list[dict]:
    return [json.loads(line) for path in log.glob("*.jsonl") for line in path.read_text().splitlines()]


def summary(rows: int, seconds: float, batches: list[dict]) -> dict:
    """Returns the figures of a run, without the first batch, which loads pages and starts threads."""
    steady = [batch for batch in batches if "engine_cpu" in batch]
    mean = {key: sum(batch[key] for batch in steady) / len(steady) for key in steady[0]}
    return {
        "rows": rows,
        "seconds": seconds,
        "batches": len(batches),
        # Milliseconds of the processor for each batch: the model, what surrounds it in the call, and the engine.
        "model": mean["model_cpu"] / 1e6,
        "adapter": (mean["cpu"] - mean["model_cpu"]) / 1e6,
        "engine": mean["engine_cpu"] / 1e6,
        # By the clock, from one batch's start to the next one's.
        "rows_per_second": 1e9 * mean["rows"] / (mean["wall"] + mean["engine_wall"]),
        "rows_per_cpu_second": 1e9 * mean["rows"] / (mean["cpu"] + mean["engine_cpu"]),
    }


def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    folder, engine, model, rounds = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3], int((*sys.argv, 3)[4])
    run, stop = {"ray": on_ray, "spark": on_spark}[engine](folder, model)
    results: dict[str, list[dict]] = {runtime: [] for runtime in RUNTIMES}
    for round in range(rounds):
        for runtime in RUNTIMES:
            log = folder / "log"
            shutil.rmtree(log, ignore_errors=True)
            log.mkdir()
            start = time.perf_counter()
            rows = run(runtime, log)
            results[runtime].append(summary(rows, time.perf_counter() - start, entries(log)))
    stop()
    load = os.getloadavg()
    (folder / f"{engine}-{model}.json").write_text(json.dumps({"load": load, "runs": results}, indent=1) + "\n")
    print(f"{engine}, {model}, batches of {ROWS[model]} rows, medians of {rounds} runs; load {load[0]:.1f}")
    print("milliseconds of the processor for each batch; rows per second of the processor, and by the clock")
    print("| runtime | model | adapter | engine | rows per CPU second | rows per second |")
    print("|---|---|---|---|---|---|")
    for runtime, runs in results.items():
        keys = ("model", "adapter", "engine", "rows_per_cpu_second", "rows_per_second")
        model_ms, adapter, engine_ms, per_cpu, per_second = (np.median([run[key] for run in runs]) for key in keys)
        print(f"| {runtime} | {model_ms:.2f} | {adapter:.2f} | {engine_ms:.2f} | {per_cpu:,.0f} | {per_second:,.0f} |")


if __name__ == "__main__":
    main()
