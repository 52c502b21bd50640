"""Statuses by what each call does wrong; after each failure a good call on the same instance shows that it lives."""

import fixture

VARIANTS = [fixture.VM]


def cases():
    def then_good(name, function, inputs, status, good_inputs, good_results):
        return fixture.Case(name).fails(function, inputs, status).call(function, good_inputs, good_results)

    return [
        then_good("told_invalid", "fail", ["3"], "INVALID_ARGUMENT", ["0"], []),
        then_good("told_internal", "fail", ["13"], "INTERNAL", ["0"], []),
        then_good("load_past_end", "load", ["4"], "OUT_OF_RANGE", ["3"], ["4"]),
        then_good("load_before_start", "load", ["-1"], "OUT_OF_RANGE", ["0"], ["1"]),
        then_good("list_past_end", "list_element", ["4", "4"], "OUT_OF_RANGE", ["4", "3"], ["7"]),
        then_good("endless_recursion", "recurse", ["1000000"], "RESOURCE_EXHAUSTED", ["50"], ["75"]),
        fixture.Case("store_to_constant").fails("store_to_constant", ["0"], "PERMISSION_DENIED"),
        fixture.Case("load_null").fails("load_null", ["0"], "INVALID_ARGUMENT"),
    ]
