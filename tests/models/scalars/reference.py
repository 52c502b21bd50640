"""Scalar arithmetic by Python's unbounded integers and NumPy's floats."""

import math

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value, bits):
    return value & ((1 << bits) - 1)


def truncated(a, b):
    """Quotient and rest of a division that rounds toward zero."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


def text(*values):
    return [repr(float(v)) if isinstance(v, (float, np.floating)) else str(int(v)) for v in values]


def integers_i32(a, b):
    quotient, rest = truncated(a, b)
    ua, ub = unsigned(a, 32), unsigned(b, 32)
    zeros = 32 - ua.bit_length()
    values = [a + b, a * b, quotient, ua // ub, rest, ua % ub, a ^ b, zeros]
    return fixture.Case(f"i32_{a}_{b}").call("integers_i32", text(a, b), text(*(signed(v, 32) for v in values)))


def integers_i64(a, b):
    quotient, rest = truncated(a, b)
    ua, ub = unsigned(a, 64), unsigned(b, 64)
    values = [a - b, a * b, quotient, ua // ub, rest, min(a, b), max(ua, ub), a & b]
    return fixture.Case(f"i64_{a}_{b}").call("integers_i64", text(a, b), text(*(signed(v, 64) for v in values)))


def shifts(a, b, by):
    values = [signed(a << by, 32), a >> by, signed(unsigned(a, 32) >> by, 32)]
    values += [signed(b << by, 64), b >> by, signed(unsigned(b, 64) >> by, 64)]
    return fixture.Case(f"shift_{by}").call("shifts", text(a, b, by), text(*values))


def cases():
    f = np.float32
    a, b = f(2.25), f(-0.7)
    floats = [a - b, a * b, a / b, np.sqrt(a), np.exp(b), min(a, b)]
    c, d = 2.718281828, -1.25
    doubles = [c + d, c * d, c * d + c, math.log(c), math.sin(d), math.floor(d) * 1.0]
    i, j, x, y = -5, (1 << 33) + 7, f(-3.25), -2147483.75
    converted = [i, unsigned(i, 32), 7, f(i), float(j), -3, float(x), -2147483.0]
    v = np.array([1, 2, 3, -4], f)
    w = v * f(0.5) + f(7)
    return [
        fixture.Case("echo").call("echo", *2 * [["-2147483648", "9223372036854775807", "1.5", "-2.5e-300", "42"]]),
        *(integers_i32(*pair) for pair in [(7, -2), (-7, 2), (2147483647, 2), (-2147483648, 3)]),
        *(integers_i64(*pair) for pair in [(7, -2), (-(1 << 40), 12345), ((1 << 63) - 1, 3), (-(1 << 63), 7)]),
        *(shifts(-123456789, -1234567890123456789, by) for by in (0, 1, 31)),
        fixture.Case("f32").call("floats_f32", text(a, b), text(*floats), f32=1e-6),
        fixture.Case("f64").call("floats_f64", text(c, d), text(*doubles), f64=1e-12),
        fixture.Case("conversions").call("conversions", text(i, j, x, y), text(*converted)),
        fixture.Case("less").call("compare", text(-1, 1, 0.5, 1.5), text(1, 0, 0, 1, 1, 0)),
        fixture.Case("equal").call("compare", text(3, 3, 2.0, 2.0), text(0, 0, 1, 0, 1, 0)),
        fixture.Case("nan").call("compare", ["3", "2", "nan", "1.0"], text(0, 0, 0, 0, 1, 1)),
        fixture.Case("affine").call("affine", [v, "0.5", "7"], [w, text(w[3])[0]]),
    ]
