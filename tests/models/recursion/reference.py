"""A deep call, and one that is too deep: an error, after which the instance still works."""

import fixture

VARIANTS = [fixture.VM]


def cases():
    too_deep = fixture.Case("too_deep").fails("recurse", ["1000000"], "RESOURCE_EXHAUSTED")
    return [
        fixture.Case("deep").call("recurse", ["500"], ["500"]),
        too_deep.call("recurse", ["50"], ["50"]),
    ]
