"""What the functions return, by the same steps in Python."""

import fixture

VARIANTS = [fixture.VM]


def i32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def two_entries(n: int, x: int) -> int:
    odd = n & 1 == 1
    while True:
        if odd:
            x, n = i32(x + 3), n - 1
            if n == 0:
                return x
        x = i32(x * 3)
        if not x & 3:
            n -= 1
            if n == 0:
                return x
        odd = True


def lists(n: int) -> int:
    a, b = [1], [7]
    second = n & 1 == 0
    if second:
        a, b = b, a
    while True:
        if second and not a[0] & 1:
            a = [i32(2 * a[0])]
        b[0] = i32(a[0] + n)
        n -= 1
        if n == 0:
            return b[0]
        a, b = b, a
        second = True


def fibonacci(n: int) -> list[str]:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, i32(a + b)
    return [str(a), str(b)]


def table(index: int) -> int:
    value = 0
    while 0 <= index <= 2:
        if index == 0:
            value += 1
        if index <= 1:
            value *= 10
        if index == 2:
            value = 1
        value += 10
        index += 1
    return value if index == 3 else index


def nested(n: int, wanted: int) -> int:
    total = 0
    for value in range(n * n):
        if value == wanted:
            return -total
        total += value
    return total


def yielding(n: int) -> int:
    total = 0
    if n & 1:
        total += n
    while True:
        n -= 1
        if n < 1:
            return total
        total += n


def calls_yielding(n: int) -> int:
    total = 0
    while n:
        first = yielding(n)
        total += first + yielding(first)
        n -= 1
    return total


def cases():
    found = []

    def add(name, function, arguments):
        expected = function(*arguments)
        expected = expected if isinstance(expected, list) else [str(expected)]
        case = fixture.Case(f"{name}_{'_'.join(map(str, arguments))}".replace("-", "minus_"))
        found.append(case.call(name, [str(argument) for argument in arguments], expected))

    for n in [1, 2, 3, 8, 21, 100]:
        add("two_entries", two_entries, [n, 5])
        add("lists", lists, [n])
    for n in [0, 1, 2, 20]:
        add("fibonacci", fibonacci, [n])
    for n in [-1, 0, 1, 2, 3, 4]:
        add("table", table, [n])
    for arguments in [[0, 0], [3, 4], [3, 100], [7, 48]]:
        add("nested", nested, arguments)
    for n in [1, 2, 5, 6]:
        add("yielding", yielding, [n])
    for n in [1, 2, 5]:
        add("calls_yielding", calls_yielding, [n])
    for n in [0, 1, 30]:
        add("deep_yield", lambda n: 1 + n * (n + 1) // 2, [n])
    return found
