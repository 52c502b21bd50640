"""The model of `language_model`, whose vectors are rounded to integers of 8 bits."""

from pathlib import Path

import fixture

FLOATS = fixture.load(Path(__file__).resolve().parent.parent / "language_model", "reference")
VARIANTS = FLOATS.VARIANTS


def cases():
    cases = [case for case in FLOATS.cases("i8") if case.name != "wrong"]
    for case in cases:
        case.parameters = ("model=../language_model/model.gguf",)
    return cases
