"""Ray Serve on this machine, and requests to it."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import ray
from ray import serve


@contextlib.contextmanager
def running(app: serve.Application, port: int) -> Iterator[str]:
    """Runs an application, and gives its address."""
    ray.init("local", num_cpus=2, object_store_memory=250 << 20, include_dashboard=False, _node_ip_address="127.0.0.2")
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(app)
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()
    ray.shutdown()


def call(url: str, path: str, body: dict | None = None) -> tuple[int, dict[str, str], bytes]:
    """Returns the status, the headers and the body of the answer to a request, whose body is JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=240) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()
