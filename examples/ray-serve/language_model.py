"""A language model behind OpenAI's HTTP interface, on Ray Serve.

    serve run language_model:build model=model.gguf replicas=2

Each replica starts a server of its own, `incarnate serve`, on a free port of its machine, and forwards requests to it.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from incarnate.ray import assigned_workers


@serve.deployment
class LanguageModel:
    """Forwards requests to a server that it owns. The header `x-replica` of an answer names the replica."""

    async def __init__(self, program: str, model: str):
        # A server of one worker computes on the thread that calls the model.
        device = f"--device=local-task://?workers={assigned_workers()}"
        self.server = subprocess.Popen(
            [program, "serve", "--listen=127.0.0.1:0", device, model], stdout=subprocess.PIPE, text=True
        )
        # 'NAME' at http://ADDRESS:PORT/v1: ...; with the first start of a model, minutes later.
        line = await asyncio.to_thread(self.server.stdout.readline)
        if not line:
            raise RuntimeError(f"'{program} serve {model}' ended with status {self.server.wait()}: see the replica's log")
        self.url = line.rpartition("' at ")[2].partition("/v1: ")[0]
        self.replica = serve.get_replica_context().replica_id.unique_id
        # Answers take as long as the model does.
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))

    async def __call__(self, request: Request) -> Response:
        answer = await self.session.request(
            request.method,
            self.url + request.url.path,
            headers={"content-type": request.headers.get("content-type", "application/json")},
            data=await request.body(),
        )

        async def parts() -> AsyncIterator[bytes]:
            # Where the client leaves, the connection is closed, which ends the server's answer.
            async with answer:
                async for part in answer.content.iter_any():
                    yield part

        headers = {"content-type": answer.headers["content-type"], "x-replica": self.replica}
        return StreamingResponse(parts(), answer.status, headers)

    def check_health(self) -> None:
        """Ray Serve calls it regularly, and replaces a replica where it raises an error."""
        if self.server.poll() is not None:
            raise RuntimeError(f"the server ended with status {self.server.returncode}")

    async def __del__(self) -> None:
        """Ends the server; Ray Serve calls it when the replica's requests have their answers."""
        await self.session.close()
        self.server.terminate()
        await asyncio.to_thread(self.server.wait)


def build(arguments: dict[str, str]) -> serve.Application:
    """Returns the application. `model` is a path; `program`, `replicas`, `conversations` and `processors` are optional."""
    deployment = LanguageModel.options(
        num_replicas=int(arguments.get("replicas", 2)),
        max_ongoing_requests=int(arguments.get("conversations", 4)),
        ray_actor_options={"num_cpus": int(arguments.get("processors", 1))},
    )
    return deployment.bind(arguments.get("program", "incarnate"), arguments["model"])
