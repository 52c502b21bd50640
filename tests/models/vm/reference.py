"""What the measured functions return; the imported one adds one, twenty times."""

import fixture

VARIANTS = [fixture.VM]


def cases():
    case = lambda name: fixture.Case(name, modules=("../native_import_module/vm.vmfb",))
    return [
        case("empty").call("empty", [], []),
        case("call_internal").call("call_internal", ["5"], ["5"]),
        case("call_imported").call("call_imported", ["5"], ["25"]),
        case("loop_sum").call("loop_sum", ["1000"], ["1000"]),
        case("buffer_reduce").call("buffer_reduce", ["1000"], ["1000"]),
        case("buffer_reduce_unrolled").call("buffer_reduce_unrolled", ["1000"], ["1000"]),
    ]
