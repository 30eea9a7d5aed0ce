#!/usr/bin/env bash
# Applies a manifest, waits for the rollout, prints why it is stalled, and rolls back if the failure is certain.
#
#   deploy.sh MANIFEST NAMESPACE DEPLOYMENT
#
# It requires kubectl (with KUBECONFIG as usual), rollplan and jq. Optional variables: TIMEOUT, how long to wait (10m);
# FAIL_ON, how long a class of failures must last to be certain, for example image-pull=30s; JUNIT, a file for a report;
# UNDO=never, to leave a failed rollout as it is, or UNDO=once, to roll each template back only once, with
# `rollplan wait --on-failure` (docs/guides/canary.md). In GitHub Actions and GitLab CI/CD, the log has annotations or sections.
# The exit code is that of `rollplan wait`: docs/reference/command.md.
set -euo pipefail

manifest=${1:?usage: deploy.sh MANIFEST NAMESPACE DEPLOYMENT} namespace=$2 name=$3
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
wait=(rollplan wait "deploy/$name" -n "$namespace" --interval "${INTERVAL:-2s}" --timeout "${TIMEOUT:-10m}")
reports=(--report "json=$answer" ${JUNIT:+--report "junit=$JUNIT"} ${GITLAB_CI:+--ci gitlab})
reports+=(${GITHUB_ACTIONS:+--ci github} ${GITHUB_STEP_SUMMARY:+--report "markdown=$GITHUB_STEP_SUMMARY"})

kubectl apply -n "$namespace" -f "$manifest"

code=0 once=()
[ "${UNDO:-}" != once ] || once=(--on-failure roll-back)
"${wait[@]}" "${once[@]}" ${FAIL_ON:+--fail-on "$FAIL_ON"} "${reports[@]}" || code=$?
if [ $code -ne 1 ] || [[ "${UNDO:-}" =~ ^(never|once)$ ]]; then exit $code; fi

# Roll back only if the failure is certain: after a deadline or a transient failure, the rollout may still complete.
if jq -e '.report.verdict | .final and .certain' "$answer" >/dev/null; then
  echo "The failure is certain: rolling back."
  rollplan undo "deploy/$name" -n "$namespace" -o kubectl | sh
  "${wait[@]}" || true
else
  echo "The failure is not certain, so the rollout may still complete, and is left as it is. To roll it back:"
  echo "  rollplan undo deploy/$name -n $namespace -o kubectl | sh"
fi
exit $code
