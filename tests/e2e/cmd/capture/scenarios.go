package main

import (
	"context"
	"fmt"
	"time"
)

// scenario is a sequence of steps that ends with a snapshot.
type scenario struct {
	file  string
	shows string
	// flags are additional flags of kubectl for the snapshot.
	flags []string
	play  func(context.Context, *stage) error
}

var managedFields = []string{"--show-managed-fields"}

var scenarios = []scenario{
	{
		file:  "fresh-create.json",
		shows: "A new Deployment that no controller has processed yet: it has no ReplicaSet and no status.",
		flags: managedFields,
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.controllerOff, s.apply(deployment{replicas: 3}))
		},
	},
	{
		file: "mid-rollout.json",
		shows: "10 replicas, maxSurge 25% and maxUnavailable 25%: 3 ReplicaSets have 13 pods, the maximum. " +
			"8 old pods are available, the minimum. 2 of the 5 new pods have also become available, so old pods can be removed.",
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
			"No action is possible until the template changes.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4, progressDeadlineSeconds: 15}), s.complete("1.0", 4),
				s.setImage("404"), s.sets(set{"1.0", 3, 3}, set{"404", 2, 0}), s.stalled, s.controllerOff)
		},
	},
	{
		file: "rollover.json",
		shows: "A third template was applied while the second one was still rolling out: two old ReplicaSets have pods, " +
			"and 2 pods of the new ReplicaSet have just become available.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.holdNewPods, s.setImage("1.1"), s.sets(set{"1.0", 8, 8}, set{"1.1", 5, 0}),
				// Three more pods are available, so three old ones are replaced with pods of the second template.
				s.makeReady("1.1", 3), s.sets(set{"1.0", 5, 5}, set{"1.1", 8, 3}),
				// The second ReplicaSet is now an old one. Its pods that never became ready are removed first.
				s.setImage("1.2"), s.sets(set{"1.0", 5, 5}, set{"1.1", 3, 3}, set{"1.2", 5, 0}),
				s.controllerOff, s.makeReady("1.2", 2), s.sets(set{"1.0", 5, 5}, set{"1.1", 3, 3}, set{"1.2", 5, 2}))
		},
	},
	{
		file: "paused-scaled.json",
		shows: "The rollout was paused midway, and the Deployment was then scaled from 10 to 20, which no controller has processed yet: " +
			"both ReplicaSets must be scaled proportionally even though the rollout is paused.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.holdNewPods, s.setImage("1.1"), s.makeReady("1.1", 2), s.sets(set{"1.0", 6, 6}, set{"1.1", 7, 2}),
				s.pause, s.controllerOff, s.scale(20))
		},
	},
	{
		file: "recreate-waiting.json",
		shows: "Strategy Recreate: the old ReplicaSet has size 0, but its pods are still terminating. " +
			"The new ReplicaSet must not be created until they are deleted.",
		flags: managedFields,
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3, recreate: true}), s.complete("1.0", 3),
				s.holdPods, s.setImage("1.1"), s.sets(set{"1.0", 0, 0}), s.terminating(3), s.controllerOff)
		},
	},
	{
		file: "history-cleanup.json",
		shows: "The rollout is complete, with 5 old ReplicaSets. revisionHistoryLimit was then lowered from 10 to 2, " +
			"which no controller has processed yet: the 3 oldest ReplicaSets must be deleted.",
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
		shows: "After `kubectl rollout undo` from revision 3 to 2: the rollback is complete, and revision 2 has become revision 4, as the " +
			"`revision-history` annotation shows. There is nothing to do.",
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
		shows: "The Deployment was deleted with `--cascade=orphan` and created again: the ReplicaSet is an orphan and must be adopted.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3}), s.complete("1.0", 3),
				s.controllerOff, s.orphan, s.apply(deployment{replicas: 3}))
		},
	},
	{
		file: "stuck-crash-loop.json",
		shows: "The new pods are in CrashLoopBackOff after two restarts, and the progress deadline is exceeded. " +
			"The status contains the last output of the container.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4, progressDeadlineSeconds: 40}), s.complete("1.0", 4),
				s.holdNewPods, s.setImage("1.1"), s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 0}),
				s.stalled, s.crash("1.1", 2), s.controllerOff)
		},
	},
	{
		file:  "stuck-unschedulable.json",
		shows: "The new template requests more CPU than any node has: the scheduler reports why it cannot schedule the new pods.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.complete("1.0", 4),
				s.apply(deployment{replicas: 4, tag: "1.1", cpu: "2000"}),
				s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 0}), s.controllerOff)
		},
	},
	{
		file:  "stuck-quota.json",
		shows: "A ResourceQuota allows only 3 pods: the API server rejects new pods, and the Deployment has the condition ReplicaFailure.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.complete("1.0", 4),
				s.limitPods(3), s.setImage("1.1"), s.quotaExceeded(3), s.controllerOff)
		},
	},
	{
		file:  "stuck-readiness.json",
		shows: "The new pods are running but their readiness probe never succeeds, and the progress deadline is exceeded.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4, progressDeadlineSeconds: 15}), s.complete("1.0", 4),
				s.holdNewPods, s.setImage("1.1"), s.runUnready("1.1", 2), s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 0}),
				s.stalled, s.controllerOff)
		},
	},
	{
		file:  "paused-midway.json",
		shows: "The rollout was paused midway: there is nothing to do until it is resumed.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 10}), s.complete("1.0", 10),
				s.holdNewPods, s.setImage("1.1"), s.makeReady("1.1", 2), s.sets(set{"1.0", 6, 6}, set{"1.1", 7, 2}),
				s.pause, s.makeReady("1.1", 5), s.sets(set{"1.0", 6, 6}, set{"1.1", 7, 7}), s.controllerOff)
		},
	},
	{
		file: "recreate-old-pods-terminating.json",
		shows: "Strategy Recreate, with old pods that still exist after their grace period, for example because their node is lost. " +
			"The new ReplicaSet must wait for them.",
		flags: managedFields, // they contain the time of the latest change
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3, recreate: true, terminationGracePeriodSeconds: 2}), s.complete("1.0", 3),
				s.holdPods, s.setImage("1.1"), s.sets(set{"1.0", 0, 0}), s.terminating(3),
				s.overdue(10*time.Second), s.cause("new checkout"), s.controllerOff)
		},
	},
	{
		file:  "min-ready-seconds.json",
		shows: "The new pods are ready but not yet available, because minReadySeconds is 120.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 4}), s.complete("1.0", 4),
				s.apply(deployment{replicas: 4, tag: "1.1", minReadySeconds: 120}),
				s.sets(set{"1.0", 3, 3}, set{"1.1", 2, 2}), s.controllerOff)
		},
	},
	{
		file: "scale-down-clamped.json",
		shows: "3 ReplicaSets have the sizes 1, 1 and 2, and all pods are available. The Deployment was then scaled from 3 to 1, " +
			"with maxSurge 1 and maxUnavailable 0, which no controller has processed yet. One pod stays available at every step of the plan.",
		play: func(ctx context.Context, s *stage) error {
			return inOrder(ctx, s.apply(deployment{replicas: 3, limits: "maxSurge: 1, maxUnavailable: 0"}), s.complete("1.0", 3),
				s.holdNewPods, s.setImage("1.1"), s.makeReady("1.1", 1), s.sets(set{"1.0", 2, 2}, set{"1.1", 2, 1}),
				s.setImage("1.2"), s.makeReady("1.2", 1), s.sets(set{"1.0", 1, 1}, set{"1.1", 1, 1}, set{"1.2", 2, 1}),
				s.controllerOff, s.makeReady("1.2", 1), s.sets(set{"1.0", 1, 1}, set{"1.1", 1, 1}, set{"1.2", 2, 2}),
				s.scale(1))
		},
	},
}
