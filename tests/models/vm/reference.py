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
        case("multiply_add_modulo").call("multiply_add_modulo", ["1000"], [str(chain(1000))]),
        case("collatz").call("collatz", ["27"], [str(sum(map(steps, range(1, 28))))]),
        case("fused_multiply_add").call("fused_multiply_add", ["1000"], ["10"]),
    ]


def chain(count: int) -> int:
    x = 1
    for i in range(count):
        x = (x * 1103 + i) % 65521
    return x


def steps(n: int) -> int:
    count = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        count += 1
    return count
