#!/usr/bin/env bash
# Releases a changed manifest to a few pods first, runs a test, and promotes or aborts the canary.
#
#   canary.sh MANIFEST NAMESPACE DEPLOYMENT [TEST [ARGUMENT...]]
#
# It requires kubectl (with KUBECONFIG as usual) and rollplan. TEST is a command that fails if the canary must not be promoted.
# Optional variables: PODS, the number or percentage of canary pods (1); BAKE, how long they must be ready (2m); SURGE,
# additional surge during the canary, required for a Deployment with maxSurge 0; TIMEOUT, after which the canary is aborted
# (15m). The exit code is that of `rollplan canary`: docs/canary.md.
set -euo pipefail

manifest=${1:?usage: canary.sh MANIFEST NAMESPACE DEPLOYMENT [TEST...]} namespace=$2 name=$3
shift 3
interval=(--interval "${INTERVAL:-2s}")
canary() { rollplan canary "$1" "deploy/$name" -n "$namespace" "${@:2}"; }

canary start -f "$manifest" --watch "${interval[@]}" --pods "${PODS:-1}" --bake "${BAKE:-2m}" ${SURGE:+--surge "$SURGE"} \
  --timeout "${TIMEOUT:-15m}" --on-timeout abort
# If the template has not changed, `canary start` does not start a canary.
case $(canary status || true) in *": no canary"*) has_canary= ;; *) has_canary=1 ;; esac
if [ -n "$has_canary" ]; then
  if [ $# -gt 0 ] && ! "$@"; then
    echo "The test has failed: aborting the canary."
    canary abort "${interval[@]}"
    exit 1
  fi
  canary promote "${interval[@]}" --on-rollout-failure roll-back
fi
# So far, only the pod template has been released. Apply the rest of the manifest.
kubectl apply -n "$namespace" -f "$manifest"
