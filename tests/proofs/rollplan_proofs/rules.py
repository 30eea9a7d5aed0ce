"""The rules that guarantee the limits. Each can be turned off, to show that the proofs depend on it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """The rules for decisions about sizes. The defaults are those of the planner."""

    counts_at_most_the_size: bool = True
    """The clamp: the available pods of a ReplicaSet count at most up to its smallest size within the plan."""
    downs_first: bool = True
    """A settled plan scales down before it scales up."""
    unavailable_rounds_down: bool = True
    """A percentage of unavailable pods is rounded down."""
    both_zero_means_one: bool = True
    """If maxSurge and maxUnavailable are both zero, one pod may be unavailable."""
    unavailable_within_wanted: bool = True
    """maxUnavailable is at most the number of desired pods."""
    new_set_within_wanted: bool = True
    """The new ReplicaSet is scaled up at most to the number of desired pods."""
    new_set_within_room: bool = True
    """The new ReplicaSet is scaled up only as far as maxSurge allows."""
    unhealthy_go_first: bool = True
    """Unavailable pods are removed before available ones."""
    unhealthy_within_room: bool = True
    """Unavailable pods are removed only as far as the minimum and the new ReplicaSet's unavailable pods allow."""
    healthy_within_size: bool = True
    """A ReplicaSet is scaled down at most to zero."""
    spare_is_shared: bool = True
    """The old ReplicaSets share the number of pods that may be removed."""
    caps_only_stop: bool = True
    """Caps stop a rollout. Otherwise, they are the sizes that it gets."""
    caps_keep_sizes: bool = True
    """A cap below the size of the new ReplicaSet does not scale it down."""
    caps_within_surge: bool = True
    """Caps do not keep old pods that exceed maxSurge."""
    first_takes_the_rest: bool = True
    """In proportional scaling, the first ReplicaSet takes the remainder from rounding."""
    first_at_least_zero: bool = True
    """The remainder does not scale the first ReplicaSet below zero."""
    shares_within_rest: bool = True
    """No ReplicaSet takes more than the remaining change."""
    rounds_to_nearest: bool = True
    """Shares are rounded to the nearest whole pod."""
    held_within_word: bool = True
    """Results are clamped to 32 bits."""


PLANNER = Rules()
