package main

import (
	"context"
	"fmt"
	"time"
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
	{
		file: "stuck-crash-loop.json",
		shows: "The new pods end with an error and are in CrashLoopBackOff after two restarts; the progress deadline is exceeded. " +
			"What the container wrote last is in its status.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4, progressDeadlineSeconds: 40}), s.complete("1.0", 4),
				s.holdNewPods, s.setImage("1.1"), s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 0}),
				s.stalled, s.crash("1.1", 2), s.controllerOff)
		},
	},
	{
		file:  "stuck-unschedulable.json",
		shows: "The new template asks for more cpu than a node has: the scheduler says why it places none of the new pods.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.complete("1.0", 4),
				s.apply(deployment{replicas: 4, tag: "1.1", cpu: "2000"}),
				s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 0}), s.controllerOff)
		},
	},
	{
		file:  "stuck-quota.json",
		shows: "A ResourceQuota of 3 pods: the API server refuses the new ones, and the Deployment has the condition ReplicaFailure.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.complete("1.0", 4),
				s.limitPods(3), s.setImage("1.1"), s.refused(3), s.controllerOff)
		},
	},
	{
		file:  "stuck-readiness.json",
		shows: "The new pods run and their readiness check never succeeds; the progress deadline is exceeded.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4, progressDeadlineSeconds: 15}), s.complete("1.0", 4),
				s.holdNewPods, s.setImage("1.1"), s.runUnready("1.1", 2), s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 0}),
				s.stalled, s.controllerOff)
		},
	},
	{
		file:  "paused-midway.json",
		shows: "A rollout paused half way: nothing is to be done before somebody resumes it.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.holdNewPods, s.setImage("1.1"), s.makeReady("1.1", 2), s.sets(set{"1.0", 6, 6}, set{"1.1", 7, 2}),
				s.pause, s.makeReady("1.1", 5), s.sets(set{"1.0", 6, 6}, set{"1.1", 7, 7}), s.controllerOff)
		},
	},
	{
		file: "recreate-old-pods-terminating.json",
		shows: "Strategy Recreate, and old pods whose grace period is over although no kubelet has ended them, " +
			"as on a node that is gone. The new ReplicaSet waits for them.",
		flags: managedFields, // their times tell how late it is
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3, recreate: true, terminationGracePeriodSeconds: 2}), s.complete("1.0", 3),
				s.holdPods, s.setImage("1.1"), s.sets(set{"1.0", 0, 0}), s.terminating(3),
				s.overdue(10*time.Second), s.cause("new checkout"), s.controllerOff)
		},
	},
	{
		file:  "min-ready-seconds.json",
		shows: "The new pods are ready and not yet available: minReadySeconds of 120 has only begun.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.complete("1.0", 4),
				s.apply(deployment{replicas: 4, tag: "1.1", minReadySeconds: 120}),
				s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 2}), s.controllerOff)
		},
	},
	{
		file: "scale-down-clamped.json",
		shows: "3 ReplicaSets of sizes 1, 1 and 2, all available, and the Deployment scaled from 3 to 1 with maxSurge 1 and maxUnavailable 0, " +
			"which no controller has acted on: one plan, and whatever part of it is carried out, one pod stays available.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3, limits: "maxSurge: 1, maxUnavailable: 0"}), s.complete("1.0", 3),
				s.holdNewPods, s.setImage("1.1"), s.makeReady("1.1", 1), s.sets(set{"1.0", 2, 2}, set{"1.1", 2, 1}),
				s.setImage("1.2"), s.makeReady("1.2", 1), s.sets(set{"1.0", 1, 1}, set{"1.1", 1, 1}, set{"1.2", 2, 1}),
				s.controllerOff, s.makeReady("1.2", 1), s.sets(set{"1.0", 1, 1}, set{"1.1", 1, 1}, set{"1.2", 2, 2}),
				s.scale(1))
		},
	},
}
