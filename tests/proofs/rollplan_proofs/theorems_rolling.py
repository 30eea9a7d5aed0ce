"""Theorems about rolling updates: single passes from any state in the middle of a plan, and complete plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from .algebra import Bool, Int, add, choose, every, if_then, larger, no, smaller, some
from .claims import Claim, Control, Theorem, any_caps, any_limits, any_rollout, number, shown_limits, shown_rollout
from .rolling import ReplicaSet, Rollout, differs, rolling_pass, scale_new, scale_old, scale_old_sizes
from .rules import PLANNER, Rules
from .size import Caps, Limits, rolling_limits, rounded_down, rounded_up

Shown: TypeAlias = list[tuple[str, Int]]


def limits_of_percentages(rules: Rules) -> tuple[Limits, list[Bool], Int]:
    """Return limits as a user specifies them, in pods or percent, and maxUnavailable in percent times desired pods.

    The product of percent and desired pods is any number, and zero if no pods are desired. The proofs need no other
    property of it.
    """
    replicas, word = number("replicas"), number("word")
    surge_pods, surge_hundredths = number("maxSurge in pods"), number("maxSurge in percent x replicas")
    pods, hundredths = number("maxUnavailable in pods"), number("maxUnavailable in percent x replicas")
    surge_given, given = number("maxSurge is in percent"), number("maxUnavailable is in percent")
    rounded = rounded_down if rules.unavailable_rounds_down else rounded_up
    surge = choose(surge_given == 1, rounded_up(surge_hundredths, word), surge_pods)
    unavailable = choose(given == 1, rounded(hundredths, word), pods)
    assumed: list[Bool] = [replicas >= 0, replicas <= word]
    for percent, product, whole in [(surge_given, surge_hundredths, surge_pods), (given, hundredths, pods)]:
        assumed += [
            some(percent == 0, percent == 1), product >= 0, whole >= 0, whole <= word,
            if_then(replicas == 0, product == 0),
        ]  # fmt: skip
    return rolling_limits(replicas, surge, unavailable, word, rules), assumed, choose(given == 1, hundredths, -1)


def limits_in_range(_: int, rules: Rules) -> Claim:
    limits, assumed, _ = limits_of_percentages(rules)
    within = every(
        limits.max_unavailable >= 0, limits.max_unavailable <= limits.replicas,
        limits.max_surge >= 0, limits.max_surge <= limits.word,
    )  # fmt: skip
    return Claim(assumed, within, limits.max_unavailable > 0, shown_limits(limits))


def limits_leave_room(_: int, rules: Rules) -> Claim:
    limits, assumed, _ = limits_of_percentages(rules)
    room = some(limits.replicas == 0, limits.max_surge + limits.max_unavailable >= 1)
    return Claim(assumed, room, limits.replicas > 0, shown_limits(limits))


def availability_in_percent(old: int, rules: Rules) -> Claim:
    limits, assumed, hundredths = limits_of_percentages(rules)
    caps, about_caps = any_caps(limits.word)
    limits, assumed = replace(limits, caps=caps), [*assumed, *about_caps]
    rollout, about_sets = any_rollout(old, limits)
    after = scale_old(limits, rollout)
    enough = 100 * limits.replicas - hundredths
    # Without maxSurge, a percentage of less than one pod counts as one pod, because otherwise no pod could be replaced.
    one = every(limits.max_surge == 0, hundredths < 100)
    kept = some(
        after.available() == rollout.available(), 100 * after.available() >= enough,
        every(one, after.available() >= limits.replicas - 1),
    )  # fmt: skip
    shown = [("maxUnavailable in percent x replicas", hundredths), *shown_limits(limits)]
    shown += [*shown_rollout("before", rollout), *shown_rollout("after", after)]
    return Claim([*assumed, *about_sets, hundredths >= 0], kept, after.available() < rollout.available(), shown)


def transitions(limits: Limits, rollout: Rollout) -> tuple[Rollout, Rollout]:
    """Return the possible results of a pass: it scales either the new ReplicaSet or the old ones."""
    return scale_new(limits, rollout), scale_old(limits, rollout)


def of_both(old: int, rules: Rules) -> tuple[Limits, Rollout, list[Bool], tuple[Rollout, Rollout], Shown]:
    """Return a state, and both transitions from it."""
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    after = transitions(limits, rollout)
    shown = [*shown_limits(limits), *shown_rollout("before", rollout)]
    for name, each in zip(["new set scaled", "old sets scaled"], after, strict=True):
        shown += shown_rollout(name, each)
    return limits, rollout, [*assumed, *about_sets], after, shown


def something_changes(rollout: Rollout, after: tuple[Rollout, Rollout]) -> Bool:
    return every(*(differs(each.all(), rollout.all()) for each in after))


def surge_is_kept(old: int, rules: Rules) -> Claim:
    limits, rollout, assumed, after, shown = of_both(old, rules)
    kept = []
    for each in after:
        pairs = list(zip(each.all(), rollout.all(), strict=True))
        grows = some(*(a.size > b.size for a, b in pairs))
        kept += [
            if_then(grows, each.total() <= limits.max_total()),
            each.total() <= larger(rollout.total(), limits.max_total()),
        ]
    return Claim(assumed, every(*kept), scale_new(limits, rollout).total() > rollout.total(), shown)


def availability_is_kept(old: int, rules: Rules) -> Claim:
    limits, rollout, assumed, after, shown = of_both(old, rules)
    least = smaller(limits.min_available(), rollout.available())
    kept = every(*(each.available() >= least for each in after))
    return Claim(assumed, kept, after[1].available() < rollout.available(), shown)


def clean_up_is_kept_small(old: int, rules: Rules) -> Claim:
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    sizes = scale_old_sizes(limits, rollout).unhealthy
    total = add(sizes) + rollout.new.size
    new_unavailable = rollout.new.size - rollout.new.available()
    kept = some(total == rollout.total(), total >= limits.min_available() + new_unavailable)
    shown = [*shown_limits(limits), *shown_rollout("before", rollout), ("total after clean-up", total)]
    return Claim([*assumed, *about_sets], kept, total < rollout.total(), shown)


def sizes_stay_numbers(old: int, rules: Rules) -> Claim:
    limits, rollout, assumed, after, shown = of_both(old, rules)
    within = [every(each.size >= 0, each.size <= limits.word) for both in after for each in both.all()]
    within += [limits.max_total() >= 0, limits.max_total() <= limits.word]
    return Claim(assumed, every(*within), something_changes(rollout, after), shown)


def measure(limits: Limits, rollout: Rollout) -> Int:
    """Return the remaining work: the old pods, and the distance of the new ReplicaSet from the desired size."""
    away = limits.replicas - rollout.new.size
    return add(each.size for each in rollout.old) + larger(away, -away)


def measure_falls(old: int, rules: Rules) -> Claim:
    limits, rollout, assumed, after, shown = of_both(old, rules)
    falls = [measure(limits, rollout) >= 0]
    for each in after:
        changed = differs(each.all(), rollout.all())
        falls.append(if_then(changed, measure(limits, each) < measure(limits, rollout)))
    return Claim(assumed, every(*falls), something_changes(rollout, after), shown)


def sizes_go_one_way(old: int, rules: Rules) -> Claim:
    limits, rollout, assumed, after, shown = of_both(old, rules)
    wanted, size = limits.replicas, rollout.new.size
    new = after[0].new.size
    towards = some(every(size <= new, new <= wanted), every(size >= new, new >= wanted))
    down = [a.size <= b.size for a, b in zip(after[1].old, rollout.old, strict=True)]
    return Claim(assumed, every(towards, *down), something_changes(rollout, after), shown)


def passes(limits: Limits, rollout: Rollout, count: int) -> list[Rollout]:
    """Return the states after each of a number of passes."""
    states = []
    for _ in range(count):
        rollout = rolling_pass(limits, rollout)
        states.append(rollout)
    return states


def rests_after_one(old: int, rules: Rules) -> Claim:
    """Once scaled, the old ReplicaSets are at rest, whether or not the new one is scaled next; so is the new one."""
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    scaled = scale_old(limits, rollout)
    grown = scale_new(limits, scaled)
    assumed += [*about_sets, rollout.new.size <= limits.replicas]
    rests = every(
        no(differs(scale_old(limits, scaled).all(), scaled.all())),
        no(differs(scale_old(limits, grown).all(), grown.all())),
        no(differs(scale_new(limits, grown).all(), grown.all())),
    )
    shown = [*shown_limits(limits), *shown_rollout("before", rollout), *shown_rollout("after", grown)]
    return Claim(assumed, rests, every(differs(scaled.all(), rollout.all()), differs(grown.all(), scaled.all())), shown)


def three_passes_are_all(old: int, rules: Rules) -> Claim:
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    *_, second, third, fourth = passes(limits, rollout, 4)
    shown = [*shown_limits(limits), *shown_rollout("before", rollout), *shown_rollout("third", third)]
    rests = no(differs(fourth.all(), third.all()))
    return Claim([*assumed, *about_sets], rests, differs(third.all(), second.all()), shown)


def two_passes_are_all(old: int, rules: Rules) -> Claim:
    """Not true: the third pass may change sizes."""
    claim = three_passes_are_all(old, rules)
    return replace(claim, concluded=no(claim.happens))


def prefixes(before: list[ReplicaSet], after: list[Int], rules: Rules) -> list[list[ReplicaSet]]:
    """Return the states after each step of the merged plan: scale-downs before scale-ups, each by age."""
    states = [before]
    for way in [smaller, larger] if rules.downs_first else [larger, smaller]:
        for index, size in enumerate(after):
            state = list(states[-1])
            state[index] = state[index].resized(way(state[index].size, size))
            states.append(state)
    return states


def bounds_at_prefixes(limits: Limits, states: list[list[ReplicaSet]]) -> Bool:
    """Whether both limits hold after every step, as stated in `lint`."""
    least = smaller(limits.min_available(), add(each.available() for each in states[0]))
    kept: list[Bool] = []
    for earlier, later in pairwise(states):
        total, total_earlier = add(each.size for each in later), add(each.size for each in earlier)
        kept.append(some(total <= limits.max_total(), total <= total_earlier))
        kept.append(add(each.available() for each in later) >= least)
    return every(*kept)


def merged_plan_keeps_bounds(old: int, rules: Rules) -> Claim:
    """Claim for any change of sizes that preserves the limits as a whole."""
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    before = list(rollout.all())
    after = [number(f"set{index}.after") for index in range(len(before))]
    ended = [one.resized(size) for one, size in zip(before, after, strict=True)]
    grows = some(*(size > one.size for one, size in zip(before, after, strict=True)))
    assumed += [
        *about_sets, *(size >= 0 for size in after),
        if_then(grows, add(after) <= limits.max_total()),
        add(one.available() for one in ended) >= smaller(limits.min_available(), rollout.available()),
    ]  # fmt: skip
    states = prefixes(before, list(after), rules)
    shown = [*shown_limits(limits), *shown_rollout("before", rollout)]
    shown += [(f"after set{index}.size", size) for index, size in enumerate(after)]
    return Claim(assumed, bounds_at_prefixes(limits, states), grows, shown)


def whole_plan_keeps_bounds(old: int, rules: Rules) -> Claim:
    """Claim for every prefix of a plan from any state, whether after a snapshot or after a scaling pass."""
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    first, second, third = passes(limits, rollout, 3)
    assumed += about_sets
    states = prefixes(list(rollout.all()), [each.size for each in third.all()], rules)
    shown = [*shown_limits(limits)]
    for name, each in [("before", rollout), ("first pass", first), ("second", second), ("third", third)]:
        shown += shown_rollout(name, each)
    return Claim(assumed, bounds_at_prefixes(limits, states), differs(third.all(), second.all()), shown)


def rollouts_get_on(old: int, rules: Rules) -> Claim:
    """If all pods are available and the rollout is incomplete, a pass changes sizes. replicas + 1 must fit the word."""
    claim = rollouts_get_on_at_any_number(old, rules)
    return replace(claim, assumed=[*claim.assumed, number("replicas") < number("word")])


def rollouts_get_on_at_any_number(old: int, rules: Rules) -> Claim:
    """Not true: with the largest number of desired pods, there is no room for a surge."""
    limits, assumed, _ = limits_of_percentages(rules)  # Without caps.
    rollout, about_sets = any_rollout(old, limits)
    healthy = [each.available() == each.size for each in rollout.all()]
    done = every(rollout.new.size == limits.replicas, *(each.size == 0 for each in rollout.old))
    after = rolling_pass(limits, rollout)
    continues = some(done, differs(after.all(), rollout.all()))
    shown = [*shown_limits(limits), *shown_rollout("before", rollout)]
    return Claim([*assumed, *about_sets, *healthy], continues, no(done), shown)


def caps_are_kept(old: int, rules: Rules) -> Claim:
    limits, rollout, assumed, after, shown = of_both(old, rules)
    caps = limits.caps
    if caps is None:
        raise ValueError("the limits have no caps")
    kept = []
    for each in after:
        before_old = add(one.size for one in rollout.old)
        after_old = add(one.size for one in each.old)
        least = larger(smaller(caps.old_min, limits.max_total() - each.new.size), 0)
        kept += [
            if_then(each.new.size > rollout.new.size, each.new.size <= caps.new_max),
            if_then(each.new.size < rollout.new.size, rollout.new.size > limits.replicas),
            if_then(after_old < before_old, after_old >= least),
        ]
    return Claim(assumed, every(*kept), something_changes(rollout, after), shown)


def caps_keep_any_number(old: int, rules: Rules) -> Claim:
    """Not true: caps do not keep old pods that exceed the surge."""
    limits, rollout, assumed, after, shown = of_both(old, rules)
    least = limits.caps.old_min if limits.caps else 0
    after_old = [add(one.size for one in each.old) for each in (rollout, *after)]
    kept = every(*(some(each == after_old[0], each >= least) for each in after_old))
    return Claim(assumed, kept, True, shown)


def excess_goes(old: int, rules: Rules) -> Claim:
    """With all pods available, caps do not keep a total that exceeds maxSurge, if the minimum permits it."""
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    healthy = [each.available() == each.size for each in rollout.all()]
    after = scale_old(limits, rollout)
    within = some(after.total() <= limits.max_total(), add(each.size for each in after.old) == 0)
    shown = [*shown_limits(limits), *shown_rollout("before", rollout), *shown_rollout("after", after)]
    happens = rollout.total() > limits.max_total()
    return Claim([*assumed, *about_sets, *healthy], within, happens if old else True, shown)


def no_caps_change_nothing(old: int, rules: Rules) -> Claim:
    """Claim for one pass: with caps that stop nothing, every size is that of the code without caps."""
    return with_caps_that_stop(old, rules, 0)


def weak_caps_change_nothing(old: int, rules: Rules) -> Claim:
    """Not true: one old pod is kept."""
    return with_caps_that_stop(old, rules, 1)


def with_caps_that_stop(old: int, rules: Rules, old_min: int) -> Claim:
    limits, assumed = any_limits(rules)
    rollout, about_sets = any_rollout(old, limits)
    with_caps = transitions(replace(limits, caps=Caps(limits.word, old_min)), rollout)
    without = transitions(replace(limits, caps=None), rollout)
    same = [no(differs(a.all(), b.all())) for a, b in zip(with_caps, without, strict=True)]
    shown = [*shown_limits(replace(limits, caps=None)), *shown_rollout("before", rollout)]
    return Claim([*assumed, *about_sets], every(*same), something_changes(rollout, without), shown)


def but(**rules: bool) -> Rules:
    """Return the planner's rules with some changes."""
    return replace(PLANNER, **rules)


CLAMP = Control("without the clamp, removed pods still count as available", but(counts_at_most_the_size=False))
TARGETS = Control("caps are the sizes that the ReplicaSets get", but(caps_only_stop=False))
NO_CLEAN_UP = Control("unavailable pods are not removed first", but(unhealthy_go_first=False))

ROLLING = [
    Theorem(
        "limits: maxUnavailable is between zero and the desired pods, and maxSurge is not negative",
        limits_in_range,
        [Control("maxUnavailable may exceed the desired pods", but(unavailable_within_wanted=False), sets=0)],
        [0],
    ),
    Theorem(
        "limits: at least one pod may always be replaced",
        limits_leave_room,
        [Control("both limits may be zero", but(both_zero_means_one=False), sets=0)],
        [0],
    ),
    Theorem(
        "surge: a pass scales up at most to a total of replicas + maxSurge, and a larger total does not increase",
        surge_is_kept,
        [Control("the new ReplicaSet ignores maxSurge", but(new_set_within_room=False)), TARGETS],
    ),
    Theorem(
        "availability: no pass reduces the certainly available pods below replicas - maxUnavailable",
        availability_is_kept,
        [
            CLAMP,
            Control("each old ReplicaSet may lose all pods that may be removed", but(spare_is_shared=False)),
            TARGETS,
        ],
    ),
    Theorem(
        "availability in percent: the exact percentage is preserved, not only the rounded one",
        availability_in_percent,
        [Control("maxUnavailable is rounded up", but(unavailable_rounds_down=False))],
    ),
    Theorem(
        "cleanup of unavailable pods leaves the minimum in addition to the new ReplicaSet's unavailable pods",
        clean_up_is_kept_small,
        [Control("it removes all unavailable pods", but(unhealthy_within_room=False))],
    ),
    Theorem(
        "sizes remain between zero and the largest number",
        sizes_stay_numbers,
        [
            Control("a ReplicaSet may lose more pods than it has", but(healthy_within_size=False)),
            Control("results are not clamped to the word", but(held_within_word=False)),
        ],
    ),
    Theorem(
        "measure: old pods + |replicas - new pods| decreases with every pass that changes a size",
        measure_falls,
        [Control("the new ReplicaSet is scaled up as far as maxSurge allows", but(new_set_within_wanted=False))],
    ),
    Theorem(
        "a plan never reverses itself: the new ReplicaSet only approaches replicas, and old ones are only scaled down",
        sizes_go_one_way,
        [Control("the new ReplicaSet is scaled up as far as maxSurge allows", but(new_set_within_wanted=False))],
    ),
    Theorem(
        "rest: one pass completes the old ReplicaSets, and one pass completes the new one",
        rests_after_one,
        [NO_CLEAN_UP],
    ),
    Theorem(
        "settled: the fourth pass of a plan changes no size",
        three_passes_are_all,
        [NO_CLEAN_UP, Control("the third pass changes no size", claim=two_passes_are_all)],
    ),
    Theorem(
        "merged: scale-downs before scale-ups preserve both limits at every prefix, if the whole plan does",
        merged_plan_keeps_bounds,
        [Control("scale-ups before scale-downs", but(downs_first=False))],
    ),
    Theorem(
        "settled: both limits hold at every prefix of a complete plan",
        whole_plan_keeps_bounds,
        [CLAMP, Control("scale-ups before scale-downs", but(downs_first=False)), TARGETS],
    ),
    Theorem(
        "caps: the new set grows at most to its cap, old sets keep theirs, and a cap scales nothing down",
        caps_are_kept,
        [
            Control("a cap below the size of the new ReplicaSet scales it down", but(caps_keep_sizes=False)),
            Control("caps also keep old pods that exceed maxSurge", claim=caps_keep_any_number),
        ],
    ),
    Theorem(
        "caps: they keep no total that exceeds replicas + maxSurge if all pods are available",
        excess_goes,
        [Control("caps keep old pods that exceed maxSurge", but(caps_within_surge=False))],
    ),
    Theorem(
        "caps: with caps that stop nothing, every size of a pass is that of the code without caps",
        no_caps_change_nothing,
        [Control("one old pod is kept", claim=weak_caps_change_nothing)],
    ),
    Theorem(
        "progress: if all pods are available, an incomplete rollout continues (if replicas + 1 fits the word)",
        rollouts_get_on,
        [
            Control("both limits may be zero", but(both_zero_means_one=False)),
            Control("the number of desired pods is the largest number", claim=rollouts_get_on_at_any_number),
        ],
    ),
]  # fmt: skip
