"""Single images of ../digits, for programs that run inline: as small as a microcontroller wants it."""

import functools
from pathlib import Path

import fixture

VARIANTS = [fixture.INLINE_STATIC, fixture.VMVX]


@functools.cache
def digits():
    return fixture.load(Path(__file__).resolve().parent.parent / "digits", "reference")


def cases():
    call = digits().cases()[0].calls[0]
    (images,), (scores, found) = call.inputs, call.expected
    rows = [slice(index, index + 1) for index in range(3)]
    return [
        fixture.Case(f"image_{row.start}").call("classify", [images[row]], [scores[row], found[row]], f32=1e-3)
        for row in rows
    ]
