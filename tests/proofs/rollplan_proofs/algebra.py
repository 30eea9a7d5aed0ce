"""One way to write arithmetic down: with numbers it computes, with z3's terms it states.

Everything in `size` and `rolling` is written with these, so that what is proved is what is compared with the Rust code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import z3

Int: TypeAlias = "int | z3.ArithRef"
Bool: TypeAlias = "bool | z3.BoolRef"


def choose(condition: Bool, then: Int, otherwise: Int) -> Int:
    """`then` where the condition holds, else `otherwise`."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return z3.If(condition, then, otherwise)


def smaller(a: Int, b: Int) -> Int:
    """The smaller of two."""
    return choose(a <= b, a, b)


def larger(a: Int, b: Int) -> Int:
    """The larger of two."""
    return choose(a >= b, a, b)


def every(*conditions: Bool) -> Bool:
    """Whether all hold."""
    if all(isinstance(condition, bool) for condition in conditions):
        return all(conditions)
    return z3.And(*conditions)


def some(*conditions: Bool) -> Bool:
    """Whether one holds."""
    if all(isinstance(condition, bool) for condition in conditions):
        return any(conditions)
    return z3.Or(*conditions)


def no(condition: Bool) -> Bool:
    """Whether it does not hold."""
    return not condition if isinstance(condition, bool) else z3.Not(condition)


def if_then(condition: Bool, conclusion: Bool) -> Bool:
    """Whether the conclusion holds where the condition does."""
    return some(no(condition), conclusion)


def whole_quotient(a: Int, b: Int) -> Int:
    """`a` divided by `b`, which is above zero; a fraction is cut off towards minus infinity, as by `div_euclid`."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a / b


def add(numbers: Iterable[Int]) -> Int:
    """The sum."""
    result: Int = 0
    for number in numbers:
        result = result + number
    return result
