// Package rollplan is the client library of the rollplan service. A controller or a CI job uses it to get plans and to
// carry them out on a Kubernetes cluster.
//
// The service makes the decisions. This library only reads and writes the cluster, and contains no rollout arithmetic:
//
//   - The client of package planner calls the service, with a deadline on each attempt, and retries temporary errors.
//   - [Rollouts] reads a Deployment and its ReplicaSets into a snapshot, requests a plan, and makes the API calls of
//     the plan in order. The next request has the answers to these calls, so that the planner knows what the cache does
//     not show yet.
//
// A controller calls [Rollouts.Sync] for each key of its work queue. A CI job that only needs to know how a rollout
// ends calls [Rollouts.Wait].
//
// Objects are the JSON of the API server: a typed client silently drops the fields that it does not know, and a ReplicaSet created
// from such an object would lose them.
package rollplan
