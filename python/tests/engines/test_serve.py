"""The example examples/ray-serve, with a client."""

import concurrent.futures
import json

import numpy as np
import pytest

pytest.importorskip("ray.serve")

import app
import rows
import serving

BATCH = 8


@pytest.fixture(scope="module")
def url(patient):
    """Runs the example, with batches that are sent only when they are full."""
    arguments = {"model": str(rows.MODEL), "function": "rows", "max_batch_size": str(BATCH), "batch_wait_timeout_s": "300"}
    with serving.running(app.build(arguments), 18022) as url:
        yield url


def call(url: str, path: str, body: dict | None = None) -> tuple[int, dict]:
    status, _, data = serving.call(url, path, body)
    return status, json.loads(data)


def infer(url: str, ids: np.ndarray, **replaced) -> tuple[int, dict]:
    inputs = {**rows.columns(ids), **replaced}
    tensors = [
        {"name": name, "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}
        for name, array in inputs.items()
    ]
    return call(url, "/v2/models/rows/infer", {"id": "7", "inputs": tensors})


def check(answer: tuple[int, dict], ids: np.ndarray) -> None:
    status, body = answer
    assert status == 200 and body["id"] == "7", body
    outputs = {output["name"]: np.array(output["data"]).reshape(output["shape"]) for output in body["outputs"]}
    np.testing.assert_array_equal(outputs["scores"], rows.scores(ids))
    np.testing.assert_array_equal(outputs["best"], rows.scores(ids).argmax(axis=1))


def test_the_protocol_describes_the_model(url):
    assert call(url, "/v2/health/ready") == (200, {"ready": True})
    status, model = call(url, "/v2/models/rows")
    assert status == 200
    assert model["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    assert [output["name"] for output in model["outputs"]] == ["scores", "best"]
    assert call(url, "/v2/models/other")[0] == 404


def test_requests_that_arrive_together_are_one_call(url):
    before = call(url, "/calls")[1]
    # Requests of different sizes, which only a full batch answers.
    ids = [np.arange(first, first + 1 + first % 3) for first in range(BATCH)]
    with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
        answers = list(pool.map(lambda rows_of_request: infer(url, rows_of_request), ids))
    for answer, rows_of_request in zip(answers, ids):
        check(answer, rows_of_request)
    assert call(url, "/calls")[1] == before + 1


def test_a_request_that_fails_does_not_lose_its_batch(url):
    ids = [np.arange(first, first + 2) for first in range(BATCH)]

    def request(number: int) -> tuple[int, dict]:
        return infer(url, ids[number], **({"weight": np.float32([1, -1])} if number == 3 else {}))

    with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
        answers = list(pool.map(request, range(BATCH)))
    for number in set(range(BATCH)) - {3}:
        check(answers[number], ids[number])
    status, body = answers[3]
    assert status == 400 and "a weight is negative" in body["detail"]


def test_requests_of_a_wrong_type_or_shape_are_refused(url):
    status, body = infer(url, np.arange(2), x=np.zeros((2, 5), np.float32))
    assert status == 400 and "shape" in body["detail"]
    status, body = call(url, "/v2/models/rows/infer", {"inputs": []})
    assert status == 400 and "input x is missing" in body["detail"]
