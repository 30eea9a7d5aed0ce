"""Theorems about proportional scaling: active ReplicaSets share a change of the wanted pods.

A share is a quotient of products, which is decided for one ReplicaSet by itself. The theorems about several take of
each share only what is proved there: it is a whole number from zero, and not above the size where what is allowed
does not grow.
"""

from __future__ import annotations

import z3

from .algebra import Bool, Int, add, every, some
from .claims import Claim, Control, Theorem, any_limits, number, shown_limits
from .rules import Rules
from .size import Limits, fraction, proportional
from .theorems_rolling import but


def one_share(rules: Rules) -> tuple[Limits, list[Bool], Int, Int, Int]:
    """One active ReplicaSet, what all could add up to before, and by how much it grows."""
    limits, assumed = any_limits(rules)
    size, before = number("size"), number("before")
    assumed += [size > 0, size <= limits.word, before >= 0, before <= limits.word]
    return limits, assumed, size, before, fraction(limits, size, before)


def shown_share(limits: Limits, size: Int, before: Int, grows: Int) -> list[tuple[str, Int]]:
    """The numbers of a share."""
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
    """Not true where an annotation says that all together were allowed less than now."""
    limits, assumed, size, before, grows = one_share(rules)
    return Claim(assumed, grows <= 0, grows < 0, shown_share(limits, size, before, grows))


def products_fit(_: int, rules: Rules) -> Claim:
    """In `fraction`, for 32-bit numbers: `size * max_total` in 64 bits, twice that and `before` in 128."""
    limits, assumed, size, before, grows = one_share(rules)
    product = size * limits.max_total()
    word = 2**31 - 1 if rules.held_within_word else 2**32
    fits = every(product < 2**63, 2 * product + before < 2**127)
    return Claim([*assumed, limits.word == word], fits, True, shown_share(limits, size, before, grows))


def several(count: int, rules: Rules) -> tuple[Limits, list[Bool], list[Int], list[Int], list[Int]]:
    """Active ReplicaSets, each growing by any number that leaves it zero or more, and their new sizes."""
    limits, assumed = any_limits(rules)
    sizes = [number(f"set{index}.size") for index in range(count)]
    wishes = [number(f"set{index}.wish") for index in range(count)]
    for size, wish in zip(sizes, wishes, strict=True):
        assumed += [size > 0, size <= limits.word, size + wish >= 0, size + wish <= limits.word]
    return limits, assumed, list(sizes), list(wishes), proportional(limits, list(sizes), list(wishes))


def shown_several(limits: Limits, sizes: list[Int], wishes: list[Int], scaled: list[Int]) -> list[tuple[str, Int]]:
    """The numbers of several shares."""
    shown = shown_limits(limits)
    for index, (size, wish, after) in enumerate(zip(sizes, wishes, scaled, strict=True)):
        shown += [(f"set{index}.size", size), (f"set{index} wants to grow by", wish), (f"set{index} after", after)]
    return shown


def nobody_below_zero(count: int, rules: Rules) -> Claim:
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    within = every(*(every(size >= 0, size <= limits.word) for size in scaled))
    return Claim(assumed, within, add(scaled) < add(sizes), shown_several(limits, sizes, wishes, scaled))


def growing_takes_all_there_is(count: int, rules: Rules) -> Claim:
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    allowed = limits.scaled_total()
    grows = add(sizes) < allowed
    shown = shown_several(limits, sizes, wishes, scaled)
    return Claim([*assumed, grows], add(scaled) == allowed, grows, shown)


def at_rest_nothing_moves(count: int, rules: Rules) -> Claim:
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    unchanged = every(*(a == b for a, b in zip(sizes, scaled, strict=True)))
    equal = add(sizes) == limits.scaled_total()
    # The first takes the difference between what is to be added and what was added; both are zero.
    return Claim([*assumed, equal], unchanged, wishes[0] != 0, shown_several(limits, sizes, wishes, scaled))


def shrinking(count: int, rules: Rules) -> tuple[Claim, Limits, list[Int], list[Int]]:
    """All together are above what is allowed, and no annotation says that less was allowed before."""
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    assumed += [add(sizes) > limits.scaled_total(), *(wish <= 0 for wish in wishes)]
    claim = Claim(assumed, True, add(scaled) < add(sizes), shown_several(limits, sizes, wishes, scaled))
    return claim, limits, sizes, scaled


def shrinking_grows_nobody(count: int, rules: Rules) -> Claim:
    claim, limits, sizes, scaled = shrinking(count, rules)
    allowed = limits.scaled_total()
    concluded = every(
        *(after <= size for size, after in zip(sizes, scaled, strict=True)),
        add(scaled) >= allowed,
        some(add(scaled) == allowed, scaled[0] == 0),
    )
    return Claim(claim.assumed, concluded, claim.happens, claim.shown)


def shrinking_tampered(count: int, rules: Rules) -> Claim:
    """Not true where an annotation says that less was allowed before."""
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    assumed += [add(sizes) > limits.scaled_total()]
    concluded = every(*(after <= size for size, after in zip(sizes, scaled, strict=True)))
    return Claim(assumed, concluded, True, shown_several(limits, sizes, wishes, scaled))


def rounded_shares(count: int, rules: Rules) -> tuple[Claim, Int]:
    """Shrinking by shares of what all together were allowed before, which is at least what they are now.

    Each exact share is a real number, size x allowed / before. The shares add up to what is allowed at most, for the
    sizes add up to `before` at most (theorem "shares add up"), and each is rounded as theorem "nearest" says.
    """
    limits, assumed, sizes, wishes, scaled = several(count, rules)
    exact = [z3.Real(f"set{index}.share") for index in range(count)]
    allowed = limits.max_total()
    assumed += [limits.replicas > 0, add(sizes) > allowed, add(exact) <= allowed]
    for size, wish, share in zip(sizes, wishes, exact, strict=True):
        assumed += [share >= 0, share <= size, 2 * (size + wish) - 2 * share <= 1, 2 * share - 2 * (size + wish) < 1]
    # The caller's order: the largest first.
    for i in range(count - 1):
        assumed += [sizes[i] >= sizes[i + 1], exact[i] >= exact[i + 1]]
    over = add(scaled) - allowed
    shown = [*shown_several(limits, sizes, wishes, scaled), ("beyond what is allowed", over)]
    return Claim(assumed, True, over > 0 if count > 3 else add(scaled) < add(sizes), shown), over


def rounding_leaves_little(count: int, rules: Rules) -> Claim:
    claim, over = rounded_shares(count, rules)
    return Claim(claim.assumed, every(over >= 0, 2 * over <= count - 1), claim.happens, claim.shown)


def rounding_leaves_nothing(count: int, rules: Rules) -> Claim:
    """True of three and fewer: what all sets add up to is what is allowed."""
    claim, over = rounded_shares(count, rules)
    return Claim(claim.assumed, over == 0, claim.happens, claim.shown)


def shares_add_up(count: int, rules: Rules) -> Claim:
    """size x allowed / before over all sets, multiplied by before; the sizes are real numbers here."""
    del rules
    sizes = [z3.Real(f"set{index}.size") for index in range(count)]
    allowed, before = z3.Real("allowed"), z3.Real("before")
    products = add(size * allowed for size in sizes)
    assumed: list[Bool] = [before > 0, allowed >= 0, *(size >= 0 for size in sizes), add(sizes) <= before]
    return Claim(assumed, products <= allowed * before, True, [("allowed", allowed), ("before", before)])


def shares_add_up_anyhow(count: int, rules: Rules) -> Claim:
    """Not true of sizes that add up to more than was allowed."""
    claim = shares_add_up(count, rules)
    return Claim(claim.assumed[:-1], claim.concluded, True, claim.shown)


def one_active(_: int, rules: Rules) -> Claim:
    """The only active ReplicaSet gets the wanted pods, and all of a saturated rollout's old ones go."""
    limits, assumed = any_limits(rules)
    within = every(limits.replicas <= limits.max_total(), limits.max_total() <= limits.word)
    return Claim(assumed, within, limits.max_surge > 0, shown_limits(limits))


SETS = range(1, 10)
"""Up to eight old ReplicaSets, and the new one."""

SCALING = [
    Theorem(
        "share: zero or more pods, within the word",
        shares_are_from_zero,
        [Control("no ReplicaSet shrinks", claim=shares_are_any_number, sets=1)],
        [1],
    ),
    Theorem(
        "share: the whole number nearest to size x allowed / before, halves up",
        shares_are_nearest,
        [Control("it is rounded up", but(rounds_to_nearest=False), sets=1)],
        [1],
    ),
    Theorem(
        "share: not above the size, where what is allowed does not grow",
        shares_shrink,
        [Control("an annotation says that all were allowed less", claim=shares_shrink_always, sets=1)],
        [1],
    ),
    Theorem(
        "share: products of 32-bit numbers fit into what they are taken in",
        products_fit,
        [Control("numbers of 33 bits", but(held_within_word=False), sets=1)],
        [1],
    ),
    Theorem(
        "proportional: nobody below zero, nobody beyond the word",
        nobody_below_zero,
        [Control("the first may fall below zero", but(first_at_least_zero=False))],
        SETS,
    ),
    Theorem(
        "proportional, growing: the sum is what is allowed, whatever the annotations say",
        growing_takes_all_there_is,
        [
            Control("nobody takes what rounding leaves", but(first_takes_the_rest=False)),
            Control("a share is not held within what is left", but(shares_within_rest=False), sets=3),
        ],
        SETS,
    ),
    Theorem(
        "proportional, nothing to add: nothing moves",
        at_rest_nothing_moves,
        [Control("annotations make sets grow", claim=shrinking_tampered)],
        SETS,
    ),
    Theorem(
        "proportional, shrinking: no set grows, and the sum is what is allowed or the first set is at zero",
        shrinking_grows_nobody,
        [
            Control("an annotation says that all were allowed less", claim=shrinking_tampered),
            Control("a share is not held within what is left", but(shares_within_rest=False)),
        ],
        SETS,
    ),
    Theorem(
        "shares add up to what is allowed, where the sizes add up to what was allowed",
        shares_add_up,
        [Control("the sizes add up to more", claim=shares_add_up_anyhow)],
        SETS,
    ),
    Theorem(
        "proportional, shrinking: rounding leaves at most half a pod for each set but one beyond what is allowed",
        rounding_leaves_little,
        [Control("it leaves nothing, of four sets", claim=rounding_leaves_nothing, sets=4)],
        SETS,
    ),
    Theorem(
        "proportional, shrinking: of three sets and fewer the sum is what is allowed",
        rounding_leaves_nothing,
        [Control("nobody takes what rounding leaves", but(first_takes_the_rest=False), sets=3)],
        [1, 2, 3],
    ),
    Theorem(
        "one active set: replicas are within replicas + maxSurge",
        one_active,
        [Control("results are not held within the word", but(held_within_word=False), sets=1)],
        [1],
    ),
]
