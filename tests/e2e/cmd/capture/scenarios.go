package main

import (
	"context"
	"fmt"
)

// scenario is one story that ends in a snapshot.
type scenario struct {
	file  string
	shows string
	// flags go to kubectl when the snapshot is taken.
	flags []string
	play  func(context.Context, *stage) error
}

var managedFields = []string{"--show-managed-fields"}

var scenarios = []scenario{
	{
		file:  "fresh-create.json",
		shows: "A new Deployment that no controller has seen: no ReplicaSet, no status.",
		flags: managedFields,
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.controllerOff, s.apply(deployment{replicas: 3}))
		},
	},
	{
		file: "mid-rollout.json",
		shows: "10 replicas, maxSurge 25% and maxUnavailable 25%: 3 ReplicaSets with 13 pods, the most allowed. " +
			"8 old pods are available, the least allowed, and now 2 of the 5 new ones as well: old pods can go.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.setImage("1.1"), s.complete("1.1", 10),
				s.holdNewPods, s.setImage("1.2"), s.sets(set{"1.0", 0, 0}, set{"1.1", 8, 8}, set{"1.2", 5, 0}),
				s.controllerOff, s.makeReady("1.2", 2), s.sets(set{"1.0", 0, 0}, set{"1.1", 8, 8}, set{"1.2", 5, 2}))
		},
	},
	{
		file: "stuck-bad-image.json",
		shows: "The image of the new template does not exist: its pods are in ImagePullBackOff and the progress deadline is exceeded. " +
			"Nothing can be done until the template changes.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4, progressDeadlineSeconds: 15}), s.complete("1.0", 4),
				s.setImage("404"), s.sets(set{"1.0", 3, 3}, set{"404", 2, 0}), s.stalled, s.controllerOff)
		},
	},
	{
		file: "rollover.json",
		shows: "A third template while the second was still rolling out: two old ReplicaSets with pods beside the new one, " +
			"of whose pods 2 have just become available.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.holdNewPods, s.setImage("1.1"), s.sets(set{"1.0", 8, 8}, set{"1.1", 5, 0}),
				// Three more available pods let three old ones go, which the second template may then replace.
				s.makeReady("1.1", 3), s.sets(set{"1.0", 5, 5}, set{"1.1", 8, 3}),
				// Of a set that is now old, the pods that never became ready go first.
				s.setImage("1.2"), s.sets(set{"1.0", 5, 5}, set{"1.1", 3, 3}, set{"1.2", 5, 0}),
				s.controllerOff, s.makeReady("1.2", 2), s.sets(set{"1.0", 5, 5}, set{"1.1", 3, 3}, set{"1.2", 5, 2}))
		},
	},
	{
		file: "paused-scaled.json",
		shows: "A rollout paused half way and then scaled from 10 to 20, which no controller has acted on: " +
			"both ReplicaSets must grow in proportion, although the rollout rests.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.holdNewPods, s.setImage("1.1"), s.makeReady("1.1", 2), s.sets(set{"1.0", 6, 6}, set{"1.1", 7, 2}),
				s.pause, s.controllerOff, s.scale(20))
		},
	},
	{
		file: "recreate-waiting.json",
		shows: "Strategy Recreate: the old ReplicaSet is at 0, its pods are still terminating. " +
			"The new ReplicaSet must not be created before they have gone.",
		flags: managedFields,
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3, recreate: true}), s.complete("1.0", 3),
				s.holdPods, s.setImage("1.1"), s.sets(set{"1.0", 0, 0}), s.terminating(3), s.controllerOff)
		},
	},
	{
		file: "history-cleanup.json",
		shows: "A complete rollout with 5 old ReplicaSets, and revisionHistoryLimit lowered from 10 to 2, which no controller has acted on: " +
			"the 3 oldest are due.",
		play: func(ctx context.Context, s *stage) error {
			steps := []step{s.apply(deployment{replicas: 3}), s.complete("1.0", 3)}
			for i := 1; i <= 5; i++ {
				tag := fmt.Sprintf("1.%d", i)
				steps = append(steps, s.setImage(tag), s.complete(tag, 3))
			}
			return inOrder(ctx, append(steps, s.controllerOff, s.limitHistory(2))...)
		},
	},
	{
		file: "after-undo.json",
		shows: "After `kubectl rollout undo` from revision 3 to 2, complete: revision 2 has become 4, as its `revision-history` annotation tells. " +
			"Nothing to do.",
		flags: managedFields,
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.cause("first release"), s.complete("1.0", 4),
				s.setImage("1.1"), s.cause("faster search"), s.complete("1.1", 4),
				s.setImage("1.2"), s.cause("new checkout"), s.complete("1.2", 4),
				s.undo, s.complete("1.1", 4), s.controllerOff)
		},
	},
	{
		file:  "adopt-orphan.json",
		shows: "The Deployment was deleted with `--cascade=orphan` and created again: the ReplicaSet with the pods has no owner and must be adopted.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3}), s.complete("1.0", 3),
				s.controllerOff, s.orphan, s.apply(deployment{replicas: 3}))
		},
	},
}
