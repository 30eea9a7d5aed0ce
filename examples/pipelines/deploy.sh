#!/usr/bin/env bash
# Applies a manifest, waits for the rollout, prints why it is stuck, and undoes it if the failure is certain.
#
#   deploy.sh MANIFEST NAMESPACE DEPLOYMENT
#
# It requires kubectl (with KUBECONFIG as usual), rollplan and jq. Set TIMEOUT to how long to wait (10m), and FAIL_ON to change
# when failures are certain, for example image-pull=30s. The exit code is that of `rollplan wait`: docs/ci.md.
set -euo pipefail

manifest=${1:?usage: deploy.sh MANIFEST NAMESPACE DEPLOYMENT} namespace=$2 name=$3
options=(-n "$namespace" --interval "${INTERVAL:-2s}")
answers=$(mktemp)
trap 'rm -f "$answers"' EXIT

kubectl apply -n "$namespace" -f "$manifest"

code=0
rollplan wait "deploy/$name" "${options[@]}" --timeout "${TIMEOUT:-10m}" ${FAIL_ON:+--fail-on "$FAIL_ON"} -o json |
  tee "$answers" | jq -r --unbuffered '.report.message' || code=$?
[ $code -ne 0 ] || exit 0

tail -n 1 "$answers" | jq -r '.report | (.verdict.message // empty), (.blockers[]? | "\(.message) → \(.remedy // "wait")")'
# A failure that may pass by itself, a deadline, or a controller that does not answer is not undone.
if tail -n 1 "$answers" | jq -e '.report.verdict | .certain and .outlook == "OUTLOOK_NEEDS_CHANGE"' >/dev/null; then
  echo "The failure is certain: rolling back."
  rollplan undo "deploy/$name" -n "$namespace" -o kubectl | sh
  rollplan wait "deploy/$name" "${options[@]}" --timeout "${TIMEOUT:-10m}" || true
fi
exit $code
