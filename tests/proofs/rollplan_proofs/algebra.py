"""Arithmetic on both numbers and z3 terms: with numbers it computes results, with terms it builds formulas.

`size` and `rolling` use only these functions, so that the same code is proved and compared with the Rust code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import z3

Int: TypeAlias = "int | z3.ArithRef"
Bool: TypeAlias = "bool | z3.BoolRef"


def choose(condition: Bool, then: Int, otherwise: Int) -> Int:
    """Return `then` if the condition holds, and `otherwise` if not."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return z3.If(condition, then, otherwise)


def smaller(a: Int, b: Int) -> Int:
    """Return the smaller number."""
    return choose(a <= b, a, b)


def larger(a: Int, b: Int) -> Int:
    """Return the larger number."""
    return choose(a >= b, a, b)


def every(*conditions: Bool) -> Bool:
    """Whether all conditions hold."""
    if all(isinstance(condition, bool) for condition in conditions):
        return all(conditions)
    return z3.And(*conditions)


def some(*conditions: Bool) -> Bool:
    """Whether at least one condition holds."""
    if all(isinstance(condition, bool) for condition in conditions):
        return any(conditions)
    return z3.Or(*conditions)


def no(condition: Bool) -> Bool:
    """Whether the condition does not hold."""
    return not condition if isinstance(condition, bool) else z3.Not(condition)


def if_then(condition: Bool, conclusion: Bool) -> Bool:
    """Whether the condition implies the conclusion."""
    return some(no(condition), conclusion)


def whole_quotient(a: Int, b: Int) -> Int:
    """Return `a` divided by a positive `b`, rounded towards minus infinity like `div_euclid`."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a / b


def add(numbers: Iterable[Int]) -> Int:
    """Return the sum."""
    result: Int = 0
    for number in numbers:
        result = result + number
    return result
