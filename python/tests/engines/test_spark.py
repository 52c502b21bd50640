"""Spark with two executors, each a process of this machine."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark")
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import incarnate.spark
import rows

COUNT = 100_000


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.executor.memory", "512m")
        # Programs of seconds: less compilation.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "4")
        # Several tasks, so that a killed executor has finished some.
        .config("spark.sql.files.maxPartitionBytes", "65536")
        .config("spark.sql.files.openCostInBytes", "65536")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return rows.write(tmp_path_factory.mktemp("data"), COUNT)


def collected(frame):
    found = frame.select("id", "y.scores", "y.best").toPandas()
    return found["id"].to_numpy(), np.stack(found["scores"].to_numpy()), found["best"].to_numpy()


def test_every_row_is_computed_once(spark, data):
    predict = incarnate.spark.predict_batch_udf(rows.MODEL, function="rows")
    frame = spark.read.parquet(str(data)).withColumn("y", predict("x", "weight"))
    rows.check(*collected(frame), COUNT)


def test_a_killed_executor_loses_and_duplicates_no_row(spark, data, tmp_path):
    marker = str(tmp_path / "killed")

    @sql.pandas_udf("long")
    def kill_once(ids):
        if (ids == COUNT // 2).any():
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return ids
            # The parent of the worker is a daemon, whose parent is the executor.
            process = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(process, signal.SIGKILL)
        return ids

    predict = incarnate.spark.predict_batch_udf(rows.MODEL, function="rows")
    frame = spark.read.parquet(str(data)).withColumn("y", predict("x", "weight")).withColumn("id", kill_once("id"))
    frame.write.parquet(str(tmp_path / "results"))
    assert os.path.exists(marker), "no executor was killed"
    rows.check(*collected(spark.read.parquet(str(tmp_path / "results"))), COUNT)


@pytest.mark.parametrize("function", ["rows", "eight_rows"])
def test_rows_that_fail_are_reported(spark, tmp_path, function):
    invalid = (0, 1234, 1999)
    data = rows.write(tmp_path / "data", 2000, files=1, invalid=invalid)
    predict = incarnate.spark.predict_batch_udf(rows.MODEL, function=function, error_column="error", batch_size=1000)
    frame = spark.read.parquet(str(data)).coalesce(1).withColumn("y", predict("x", "weight"))
    found = frame.select("id", "y.*").orderBy("id").toPandas()
    np.testing.assert_array_equal(found["id"], np.arange(2000))
    assert tuple(np.flatnonzero(found["error"].notna())) == invalid
    for row in invalid:
        assert found["error"][row].startswith(f"row {row % 1000} of the batch: ")
        assert "a weight is negative" in found["error"][row]
    valid = np.setdiff1d(np.arange(2000), invalid)
    scores = np.stack(found[found.columns[1]].to_numpy())
    assert np.isnan(scores[list(invalid)]).all()
    np.testing.assert_array_equal(scores[valid], rows.scores(valid))


def test_rows_that_no_input_takes_are_reported(spark):
    values = [([1.0, 2.0, 3.0, 4.0], 1.0), (None, 1.0), ([1.0, 2.0], 1.0), ([0.0, 0.0, 0.0, 1.0], 2.0)]
    frame = spark.createDataFrame(values, "x array<float>, weight float").coalesce(1)
    predict = incarnate.spark.predict_batch_udf(rows.MODEL, function="rows", error_column="error")
    found = frame.select(predict("x", "weight").alias("y")).select("y.*").collect()
    assert [row.error is None for row in found] == [True, False, False, True]
    assert "null" in found[1].error and "shape (2,)" in found[2].error
    np.testing.assert_array_equal(found[0].scores, np.float32([1, 2, 3, 4]) @ rows.MATRIX)
    np.testing.assert_array_equal(found[3].scores, 2 * rows.MATRIX[3])


def test_a_row_that_fails_is_raised(spark, tmp_path):
    data = rows.write(tmp_path / "data", 2000, files=1, invalid=(1234,))
    predict = incarnate.spark.predict_batch_udf(rows.MODEL, function="rows", batch_size=1000)
    frame = spark.read.parquet(str(data)).coalesce(1).withColumn("y", predict("x", "weight"))
    with pytest.raises(Exception, match="row 234 of the batch: .*a weight is negative"):
        collected(frame)
