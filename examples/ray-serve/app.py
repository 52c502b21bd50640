"""A model behind the Open Inference Protocol, on Ray Serve.

    serve run app:build model=net.vmfb

Requests that arrive together become one call: Ray Serve collects up to `max_batch_size` requests, for at most
`batch_wait_timeout_s` seconds.
"""

from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from ray import serve

import incarnate
from incarnate.ray import assigned_workers

# The protocol's names of element types.
DATATYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
NAMES = {np.dtype(dtype): name for name, dtype in DATATYPES.items()}

api = FastAPI()


class Tensor(BaseModel):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


class Request(BaseModel):
    id: str | None = None
    inputs: list[Tensor]


@serve.deployment(ray_actor_options={"num_cpus": 1}, max_ongoing_requests=128)
@serve.ingress(api)
class Service:
    """Serves a function whose inputs and results have a dynamic first extent, that of the batch."""

    def __init__(self, path: str, function: str | None = None):
        model = incarnate.load(path, workers=assigned_workers())
        self.function = model if function is None else model.functions[function]
        self.name = function or next(iter(model.functions))
        self.calls = 0

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Takes the settings of batching; Ray Serve calls it, also when they change."""
        self.infer.set_max_batch_size(config["max_batch_size"])
        self.infer.set_batch_wait_timeout_s(config["batch_wait_timeout_s"])

    @serve.batch
    async def infer(self, requests: list[list[np.ndarray]]) -> list[Any]:
        """Calls the function once with the rows of all requests; where that fails, with each request's rows."""
        self.calls += 1
        try:
            return self.split(requests, self.call([np.concatenate(arrays) for arrays in zip(*requests)]))
        except incarnate.Error:
            return [self.outcome(request) for request in requests]

    def call(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        results = self.function(*arrays)
        return list(results) if isinstance(results, tuple) else [results]

    def outcome(self, arrays: list[np.ndarray]) -> Any:
        try:
            return self.call(arrays)
        except incarnate.Error as error:
            return error

    @staticmethod
    def split(requests: list[list[np.ndarray]], results: list[np.ndarray]) -> list[list[np.ndarray]]:
        ends = np.cumsum([len(arrays[0]) for arrays in requests])[:-1]
        return [list(parts) for parts in zip(*(np.split(result, ends) for result in results))]

    def arrays(self, request: Request) -> list[np.ndarray]:
        """Returns the arguments of a request, in the order of the function."""
        given = {tensor.name: tensor for tensor in request.inputs}
        arrays = []
        for slot in self.function.signature.inputs:
            tensor = given.get(slot.name)
            if tensor is None:
                raise HTTPException(400, f"input {slot.name} is missing")
            if DATATYPES.get(tensor.datatype) != slot.dtype:
                raise HTTPException(400, f"input {slot.name} is {tensor.datatype}, not {NAMES[slot.dtype]}")
            try:
                arrays.append(np.array(tensor.data, slot.dtype).reshape(tensor.shape))
            except (ValueError, OverflowError) as error:
                raise HTTPException(400, f"input {slot.name}: {error}") from error
            expected = slot.shape[1:]
            if len(tensor.shape) != len(slot.shape) or any(e not in (None, n) for e, n in zip(expected, tensor.shape[1:])):
                raise HTTPException(400, f"input {slot.name} has shape {tensor.shape}, not {list(slot.shape)}")
        if len({len(array) for array in arrays}) != 1:
            raise HTTPException(400, "the inputs have different numbers of rows")
        return arrays

    @api.post("/v2/models/{name}/infer")
    async def infer_request(self, name: str, request: Request) -> dict[str, Any]:
        self.check(name)
        results = await self.infer(self.arrays(request))
        if isinstance(results, Exception):
            raise HTTPException(400, str(results))
        outputs = [
            {"name": slot.name, "shape": result.shape, "datatype": NAMES[result.dtype], "data": result.ravel().tolist()}
            for slot, result in zip(self.function.signature.outputs, results)
        ]
        return {"model_name": name, "id": request.id, "outputs": outputs}

    @api.get("/v2/models/{name}")
    def metadata(self, name: str) -> dict[str, Any]:
        self.check(name)

        def tensors(slots: Any) -> list[dict[str, Any]]:
            shapes = ([-1 if extent is None else extent for extent in slot.shape] for slot in slots)
            return [{"name": s.name, "datatype": NAMES[s.dtype], "shape": shape} for s, shape in zip(slots, shapes)]

        signature = self.function.signature
        inputs, outputs = tensors(signature.inputs), tensors(signature.outputs)
        return {"name": name, "platform": "incarnate", "inputs": inputs, "outputs": outputs}

    @api.get("/v2/models/{name}/ready")
    def is_model_ready(self, name: str) -> dict[str, Any]:
        self.check(name)
        return {"name": name, "ready": True}

    @api.get("/v2/health/ready")
    def is_ready(self) -> dict[str, bool]:
        return {"ready": True}

    @api.get("/calls")
    def number_of_calls(self) -> int:
        """Returns the number of batches, for those who tune the two settings."""
        return self.calls

    def check(self, name: str) -> None:
        if name != self.name:
            raise HTTPException(404, f"there is no model {name}, but {self.name}")


def build(arguments: dict[str, str]) -> serve.Application:
    """Returns the application. `model` is a path; `function`, `max_batch_size` and `batch_wait_timeout_s` are optional."""
    batching = {
        "max_batch_size": int(arguments.get("max_batch_size", 32)),
        "batch_wait_timeout_s": float(arguments.get("batch_wait_timeout_s", 0.002)),
    }
    return Service.options(user_config=batching).bind(arguments["model"], arguments.get("function"))
