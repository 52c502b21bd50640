"""Calls that do next to nothing: with no values, with one of each, with two arguments and eight results."""

import fixture

VARIANTS = [fixture.VM]


def cases():
    eight = [7, 9, 16, -2, 9, 7, -2, 16]
    return [
        fixture.Case("empty").call("empty", [], []),
        fixture.Case("one").call("one", ["41"], ["42"]),
        fixture.Case("eight").call("eight", ["7", "9"], [str(value) for value in eight]),
    ]
