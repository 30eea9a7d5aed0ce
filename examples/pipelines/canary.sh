#!/usr/bin/env bash
# Releases a changed manifest to a few pods first, runs a test, and promotes or aborts the canary.
#
#   canary.sh MANIFEST NAMESPACE DEPLOYMENT [TEST [ARGUMENT...]]
#
# It requires kubectl (with KUBECONFIG as usual) and rollplan. TEST is a command that fails if the canary must not be promoted.
# Optional variables: STEPS, the numbers or percentages of canary pods, for example 1,10%,25% (PODS, or 1); BAKE, how long they must
# be ready at each step (2m); SURGE, additional surge during the canary, required for a Deployment with maxSurge 0; TIMEOUT, after
# which a step is aborted (15m); PIPELINE, the name by which a run recognizes the canary of an earlier one (project and workflow); APPLY_OPTIONS, for
# example "--server-side --field-manager=ci", if that is how the manifest is applied. A run that was cancelled at any time is
# completed by the next one. The exit code is that of `rollplan canary`: docs/reference/canary.md.
set -euo pipefail

manifest=${1:?usage: canary.sh MANIFEST NAMESPACE DEPLOYMENT [TEST...]} namespace=$2 name=$3
shift 3
project=${CI_PROJECT_PATH:-${GITHUB_REPOSITORY:-}}
pipeline=${PIPELINE:-${project:-canary.sh}${GITHUB_WORKFLOW:+ $GITHUB_WORKFLOW}}
interval=(--interval "${INTERVAL:-2s}")
read -ra apply <<<"${APPLY_OPTIONS:-}"
canary() { rollplan canary "$1" "deploy/$name" -n "$namespace" "${interval[@]}" "${@:2}"; }

# There is nothing to compare a first release with.
deployment=$(kubectl get deployment "$name" -n "$namespace" --ignore-not-found -o name)
if [ -z "$deployment" ]; then
  kubectl apply -n "$namespace" -f "$manifest" "${apply[@]}"
  exec rollplan wait "deploy/$name" -n "$namespace" "${interval[@]}"
fi
# The canary may need objects that do not exist yet, for example a ConfigMap. Changed objects are applied at the end.
errors=$({ kubectl create --save-config -n "$namespace" -f "$manifest" 2>&1 >/dev/null || true; } |
  grep -v '(AlreadyExists)\|^Warning: ' || true)
if [ -n "$errors" ]; then
  printf '%s\n' "$errors" >&2
  exit 2
fi
# The digest of the template that is held, or nothing if the template has not changed.
template=$(canary start -f "$manifest" "${apply[@]}" --template-only -o digest --watch --pipeline "$pipeline" --replace \
  --steps "${STEPS:-${PODS:-1}}" --bake "${BAKE:-2m}" ${SURGE:+--surge "$SURGE"} --timeout "${TIMEOUT:-15m}" --on-timeout abort \
  --on-rollout-failure roll-back)
if [ -z "$template" ]; then
  exec kubectl apply -n "$namespace" -f "$manifest" "${apply[@]}"
fi
if [ $# -gt 0 ] && ! "$@"; then
  echo "The test has failed: aborting the canary."
  canary abort --template "$template"
  exit 1
fi
# At the end, it also applies the manifest: until then, only the pod template is released, and new objects are created.
canary promote -f "$manifest" "${apply[@]}" --template "$template" --on-rollout-failure roll-back || {
  exit=$?
  # It is not good anymore. The canary of a newer run is left alone.
  [ $exit != 2 ] || canary abort --template "$template" || true
  exit $exit
}
