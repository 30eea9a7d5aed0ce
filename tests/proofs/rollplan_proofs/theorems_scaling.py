"""Theorems about proportional scaling, in which active ReplicaSets share a change of the desired pods.

A share is a quotient of products. Its properties are proved for a single ReplicaSet. The theorems about several
ReplicaSets use only these properties: a share is an integer that is not negative, and it does not exceed the size if
the allowed total does not increase.
"""

from __future__ import annotations

import z3

from .algebra import Bool, Int, add, every, some
from .claims import Claim, Control, Theorem, any_limits, number, shown_limits
from .rules import Rules
from .size import Limits, fraction, proportional
from .theorems_rolling import but


def one_share(rules: Rules) -> tuple[Limits, list[Bool], Int, Int, Int]:
    """Return an active ReplicaSet, the allowed total before, and the growth of the ReplicaSet."""
    limits, assumed = any_limits(rules)
    size, before = number("size"), number("before")
    assumed += [size > 0, size <= limits.word, before >= 0, before <= limits.word]
    return limits, assumed, size, before, fraction(limits, size, before)


def shown_share(limits: Limits, size: Int, before: Int, grows: Int) -> list[tuple[str, Int]]:
    """Return the numbers of a share."""
    return [*shown_limits(limits), ("size", size), ("before", before), ("grows by", grows)]


def shares_are_from_zero(_: int, rules: Rules) -> Claim:
    limits, assumed, size, before, grows = one_share(rules)
    within = every(size + grows >= 0, size + grows <= limits.word)
    return Claim(assumed, within, grows < 0, shown_share(limits, size, before, grows))


def shares_are_any_number(_: int, rules: Rules) -> Claim:
    """Not true: that no ReplicaSet ever shrinks."""
    limits, assumed, size, before, grows = one_share(rules)
    return Claim(assumed, grows >= 0, True, shown_share(limits, size, before, grows))


def shares_are_nearest(_: int, rules: Rules) -> Claim:
    limits, assumed, size, before, grows = one_share(rules)
    exact = size * limits.max_total()
    share = size + grows
    known: list[Bool] = [limits.replicas > 0, before > 0, share < limits.word]
    nearest = every(2 * before * share - 2 * exact <= before, 2 * exact - 2 * before * share < before)
    return Claim([*assumed, *known], nearest, grows < 0, shown_share(limits, size, before, grows))


def shares_shrink(_: int, rules: Rules) -> Claim:
    limits, assumed, size, before, grows = one_share(rules)
    honest = some(before == 0, before >= limits.max_total())
    return Claim([*assumed, honest], grows <= 0, grows < 0, shown_share(limits, size, before, grows))


def shares_shrink_always(_: int, rules: Rules) -> Claim:
    """Not true if an annotation contains a smaller allowed total than the current one."""
    limits, assumed, size, before, grows = one_share(rules)
    return Claim(assumed, grows <= 0, grows < 0, shown_share(limits, size, before, grows))


def products_fit(_: int, rules: Rules) -> Claim:
    """In `fraction`, for 32-bit numbers: `size * max_total` fits into 64 bits, twice that plus `before` into 128."""
    limits, assumed, size, before, grows = one_share(rules)
    product = size * limits.max_total()
    word = 2**31 - 1 if rules.held_within_word else 2**32
    fits = every(product < 2**63, 2 * product + before < 2**127)
    return Claim([*assumed, limits.word == word], fits, True, shown_share(limits, size, before, grows))


def several(count: int, rules: Rules) -> tuple[Limits, list[Bool], list[Int], list[Int], list[Int]]:
    """Return active ReplicaSets, any growth for each that does not make it negative, and their new sizes."""
    limits, assumed = any_limits(rules)
    sizes = [number(f"set{index}.size") for index in range(count)]
    wishes = [number(f"set{index}.wish") for index in range(count)]
    for size, wish in zip(sizes, wishes, strict=True):
        assumed += [size > 0, size <= limits.word, size + wish >= 0, size + wish <= limits.word]
    return limits, assumed, list(sizes), list(wishes), proportional(limits, list(sizes), list(wishes))


def shown_several(limits: Limits, sizes: list[Int], wishes: list[Int], scaled: list[Int]) -> list[tuple[str, Int]]:
    """Return the numbers of several shares."""
    shown = shown_limits(limits)
    for index, (size, wish, after) in enumerate(zip(sizes, wishes, scaled, strict=True)):
        shown += [(f"set{index}.size", size), (f"set{index} wants to grow by", wish), (f"set{index} after", after)]
    return shown


def sizes_are_not_negative(count: int, rules: Rules) -> Claim:
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    within = every(*(every(size >= 0, size <= limits.word) for size in scaled))
    return Claim(assumed, within, add(scaled) < add(sizes), shown_several(limits, sizes, wishes, scaled))


def growing_reaches_the_allowed_total(count: int, rules: Rules) -> Claim:
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    allowed = limits.scaled_total()
    grows = add(sizes) < allowed
    shown = shown_several(limits, sizes, wishes, scaled)
    return Claim([*assumed, grows], add(scaled) == allowed, grows, shown)


def sizes_do_not_change_at_rest(count: int, rules: Rules) -> Claim:
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    unchanged = every(*(a == b for a, b in zip(sizes, scaled, strict=True)))
    equal = add(sizes) == limits.scaled_total()
    # The first ReplicaSet takes the difference between the required and the applied change, which are both zero.
    return Claim([*assumed, equal], unchanged, wishes[0] != 0, shown_several(limits, sizes, wishes, scaled))


def shrinking(count: int, rules: Rules) -> tuple[Claim, Limits, list[Int], list[Int]]:
    """The total exceeds the allowed total, and no annotation contains a smaller allowed total."""
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    assumed += [add(sizes) > limits.scaled_total(), *(wish <= 0 for wish in wishes)]
    claim = Claim(assumed, True, add(scaled) < add(sizes), shown_several(limits, sizes, wishes, scaled))
    return claim, limits, sizes, scaled


def shrinking_scales_up_no_set(count: int, rules: Rules) -> Claim:
    claim, limits, sizes, scaled = shrinking(count, rules)
    allowed = limits.scaled_total()
    concluded = every(
        *(after <= size for size, after in zip(sizes, scaled, strict=True)),
        add(scaled) >= allowed,
        some(add(scaled) == allowed, scaled[0] == 0),
    )
    return Claim(claim.assumed, concluded, claim.happens, claim.shown)


def shrinking_tampered(count: int, rules: Rules) -> Claim:
    """Not true if an annotation contains a smaller allowed total."""
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    assumed += [add(sizes) > limits.scaled_total()]
    concluded = every(*(after <= size for size, after in zip(sizes, scaled, strict=True)))
    return Claim(assumed, concluded, True, shown_several(limits, sizes, wishes, scaled))


def rounded_shares(count: int, rules: Rules) -> tuple[Claim, Int]:
    """Shrinking by shares of the earlier allowed total, which is at least the current one.

    Each exact share is the real number size x allowed / before. The sum of the shares is at most the allowed total,
    because the sum of the sizes is at most `before` (theorem "shares"). Each share is rounded to the nearest integer
    (theorem "share").
    """
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    exact = [z3.Real(f"set{index}.share") for index in range(count)]
    allowed = limits.max_total()
    assumed += [limits.replicas > 0, add(sizes) > allowed, add(exact) <= allowed]
    for size, wish, share in zip(sizes, wishes, exact, strict=True):
        assumed += [share >= 0, share <= size, 2 * (size + wish) - 2 * share <= 1, 2 * share - 2 * (size + wish) < 1]
    # The caller sorts the ReplicaSets from largest to smallest.
    for i in range(count - 1):
        assumed += [sizes[i] >= sizes[i + 1], exact[i] >= exact[i + 1]]
    over = add(scaled) - allowed
    shown = [*shown_several(limits, sizes, wishes, scaled), ("excess over the allowed total", over)]
    return Claim(assumed, True, over > 0 if count > 3 else add(scaled) < add(sizes), shown), over


def rounding_leaves_little(count: int, rules: Rules) -> Claim:
    claim, over = rounded_shares(count, rules)
    return Claim(claim.assumed, every(over >= 0, 2 * over <= count - 1), claim.happens, claim.shown)


def rounding_leaves_nothing(count: int, rules: Rules) -> Claim:
    """True for at most three sets: the total equals the allowed total."""
    claim, over = rounded_shares(count, rules)
    return Claim(claim.assumed, over == 0, claim.happens, claim.shown)


def shares_add_up(count: int, rules: Rules) -> Claim:
    """The sum of size x allowed / before, multiplied by `before`. Sizes are real numbers here."""
    del rules
    sizes = [z3.Real(f"set{index}.size") for index in range(count)]
    allowed, before = z3.Real("allowed"), z3.Real("before")
    products = add(size * allowed for size in sizes)
    assumed: list[Bool] = [before > 0, allowed >= 0, *(size >= 0 for size in sizes), add(sizes) <= before]
    return Claim(assumed, products <= allowed * before, True, [("allowed", allowed), ("before", before)])


def shares_add_up_anyhow(count: int, rules: Rules) -> Claim:
    """Not true if the sum of the sizes exceeds the earlier allowed total."""
    claim = shares_add_up(count, rules)
    return Claim(claim.assumed[:-1], claim.concluded, True, claim.shown)


def one_active(_: int, rules: Rules) -> Claim:
    """A single active ReplicaSet is scaled to the desired pods."""
    limits, assumed = any_limits(rules)
    within = every(limits.replicas <= limits.max_total(), limits.max_total() <= limits.word)
    return Claim(assumed, within, limits.max_surge > 0, shown_limits(limits))


SETS = range(1, 10)
"""At most eight old ReplicaSets and the new one."""

SCALING = [
    Theorem(
        "share: not negative, and within the word",
        shares_are_from_zero,
        [Control("no ReplicaSet is scaled down", claim=shares_are_any_number, sets=1)],
        [1],
    ),
    Theorem(
        "share: the integer nearest to size x allowed / before, with halves rounded up",
        shares_are_nearest,
        [Control("the share is rounded up", but(rounds_to_nearest=False), sets=1)],
        [1],
    ),
    Theorem(
        "share: at most the size, if the allowed total does not increase",
        shares_shrink,
        [Control("an annotation contains a smaller allowed total", claim=shares_shrink_always, sets=1)],
        [1],
    ),
    Theorem(
        "share: products of 32-bit numbers fit into their types",
        products_fit,
        [Control("numbers with 33 bits", but(held_within_word=False), sets=1)],
        [1],
    ),
    Theorem(
        "proportional: all sizes are between zero and the word",
        sizes_are_not_negative,
        [Control("the first ReplicaSet may fall below zero", but(first_at_least_zero=False))],
        SETS,
    ),
    Theorem(
        "proportional, growing: the total equals the allowed total, whatever the annotations contain",
        growing_reaches_the_allowed_total,
        [
            Control("no ReplicaSet takes the remainder from rounding", but(first_takes_the_rest=False)),
            Control("a share is not limited to the rest", but(shares_within_rest=False), sets=3),
        ],
        SETS,
    ),
    Theorem(
        "proportional, at the allowed total: no size changes",
        sizes_do_not_change_at_rest,
        [Control("annotations cause a scale-up", claim=shrinking_tampered)],
        SETS,
    ),
    Theorem(
        "proportional, shrinking: no set is scaled up, and the total is the allowed one or the first set is at zero",
        shrinking_scales_up_no_set,
        [
            Control("an annotation contains a smaller allowed total", claim=shrinking_tampered),
            Control("a share is not limited to the rest", but(shares_within_rest=False)),
        ],
        SETS,
    ),
    Theorem(
        "shares: their sum is at most the allowed total, if the sum of the sizes was at most the earlier one",
        shares_add_up,
        [Control("the sum of the sizes is larger", claim=shares_add_up_anyhow)],
        SETS,
    ),
    Theorem(
        "proportional, shrinking: rounding leaves an excess of at most half a pod for each set except one",
        rounding_leaves_little,
        [Control("four sets leave no excess", claim=rounding_leaves_nothing, sets=4)],
        SETS,
    ),
    Theorem(
        "proportional, shrinking: with at most three sets the total equals the allowed total",
        rounding_leaves_nothing,
        [Control("no ReplicaSet takes the remainder from rounding", but(first_takes_the_rest=False), sets=3)],
        [1, 2, 3],
    ),
    Theorem(
        "one active set: its size is at most replicas + maxSurge",
        one_active,
        [Control("results are not clamped to the word", but(held_within_word=False), sets=1)],
        [1],
    ),
]
