"""The example examples/ray-serve/language_model.py: two replicas answer, and each as one server does. Needs Rust's tools."""

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray.serve")

import language_model
import serving

FIXTURE = Path(__file__).parents[3] / "tests" / "models" / "language_model"
INCARNATE = os.environ.get("INCARNATE", Path(sys.executable).parent / "incarnate")
# The model goes on with each in another way.
PROMPTS = ["it is", "on an", "he", "b"]
ROUNDS = 32


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """Builds the program of the model, whose module the repository has: the test needs no compiler of IREE's."""
    path = tmp_path_factory.mktemp("program") / "talk"
    module = FIXTURE / "vmvx.vmfb"
    subprocess.run([INCARNATE, "build", module, "--feature=serve", "-o", path], check=True)
    return path


@pytest.fixture(scope="module")
def url(patient, program):
    """Runs the example with two replicas."""
    arguments = {"model": str(FIXTURE / "model.gguf"), "program": str(program), "conversations": "2"}
    with serving.running(language_model.build(arguments), 18023) as url:
        yield url
    assert not servers(program), "servers are left behind"


@pytest.fixture(scope="module")
def single(url, program):
    """Runs one server, without Ray. It ends before `url` looks for servers."""
    command = [program, "serve", "--listen=127.0.0.1:0", "--device=local-task://?workers=1", FIXTURE / "model.gguf"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().rpartition("' at ")[2].partition("/v1: ")[0]
        server.terminate()
    assert server.returncode == 0


def servers(program: Path) -> list[str]:
    """Returns the command lines of the processes that run a program."""
    lines = [path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line for line in lines if line.startswith(f"{program}\0")]


def answer(url: str, prompt: str, stream: bool) -> tuple[str, str | None]:
    """Returns the text behind a prompt, and the replica that wrote it."""
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 6, "stream": stream}
    status, headers, data = serving.call(url, "/v1/completions", body)
    assert status == 200, data
    if stream:
        assert headers["content-type"].startswith("text/event-stream")
        *events, end = (line.removeprefix("data: ") for line in data.decode().splitlines() if line)
        assert end == "[DONE]" and len(events) > 1, data
        text = "".join(choice["text"] for event in events for choice in json.loads(event)["choices"])
    else:
        text = json.loads(data)["choices"][0]["text"]
    return text, headers.get("x-replica")


def test_two_replicas_answer_as_one_server(url, single):
    expected = {prompt: answer(single, prompt, stream=False)[0] for prompt in PROMPTS}
    assert len(set(expected.values())) == len(PROMPTS), expected
    requests = [(prompt, stream) for prompt in PROMPTS for stream in (False, True)]
    # Ray Serve draws the replica of a request: neither is left out for so many rounds, but with a probability of 2 ** -256.
    answered: set[tuple[str, bool]] = set()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(ROUNDS):
            answers = list(pool.map(lambda request: answer(url, *request), requests))
            for (prompt, stream), (text, replica) in zip(requests, answers):
                assert text == expected[prompt], (prompt, stream, replica)
                answered.add((replica, stream))
            if len(answered) == 4:
                break
    assert len(answered) == 4 and len({replica for replica, _ in answered}) == 2, answered


def test_other_answers_of_a_server_are_passed_on(url, single):
    for path, body, status in [
        ("/v1/completions", {"prompt": "a", "n": 2}, 400),
        ("/v1/nothing", None, 404),
        ("/v1/embeddings", {"input": ["it is", "on an"]}, 200),
        ("/health", None, 200),
    ]:
        found, expected = serving.call(url, path, body), serving.call(single, path, body)
        assert (found[0], found[2]) == (status, expected[2]), path
        assert expected[0] == status and found[1]["content-type"] == expected[1]["content-type"], path
