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
        fixture.Case("load_before_start", iree_differs="which reads outside the buffer here (3.13.0)").fails(
            "load", ["-1"], "OUT_OF_RANGE"
        ),
        then_good("list_past_end", "list_element", ["4", "4"], "OUT_OF_RANGE", ["4", "3"], ["7"]),
        fixture.Case("store_to_constant").fails("store_to_constant", ["0"], "PERMISSION_DENIED"),
        fixture.Case("load_null").fails("load_null", ["0"], "INVALID_ARGUMENT"),
    ]
