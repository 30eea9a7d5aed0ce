// Package rollplan is the client library of the rollplan service: what a controller or a CI job needs to carry out its
// plans on a Kubernetes cluster.
//
// The service decides, this library looks and writes. It knows no rollout arithmetic:
//
//   - [Client] asks the service, with a deadline on each call and retries where they make sense.
//   - [Rollouts] reads a Deployment with its ReplicaSets into a snapshot, asks for a plan, and makes its calls in
//     order. What the API server refused goes into the next request; what it accepted is read back at once, before
//     the cache shows it.
//
// A controller calls [Rollouts.Sync] for one key at a time, as the queue hands them out. A CI job that only wants to
// know how a rollout goes calls [Rollouts.Wait].
//
// Objects are unstructured: a typed client silently drops the fields it does not know, and a ReplicaSet made from what
// is left would lose them.
package rollplan
