"""One more."""

import fixture

VARIANTS = [fixture.VM]


def cases():
    return [fixture.Case("one_more").call("add_1", ["41"], ["42"])]
