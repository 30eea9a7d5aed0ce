#!/usr/bin/env bash
# The smallest adapter, for the Deployments of a namespace: it carries out the loop of docs/guides/adapters.md, and decides nothing.
# It is not a complete controller: it polls, records no events, and can be started only once.
#
#   loop.sh NAMESPACE
#
# It requires kubectl (with KUBECONFIG as usual), curl and jq. Set PLANNER to the URL of the service and INTERVAL to the
# polling interval in seconds. It runs until it receives a signal. The native Deployment controller must be disabled.
set -euo pipefail

namespace=${1:?usage: loop.sh NAMESPACE}
planner=${PLANNER:-http://127.0.0.1:50051}/rollplan.v1.RolloutPlanner/PlanRollout
interval=${INTERVAL:-0.2}
session=$(od -An -N16 -tx8 /dev/urandom | tr -d ' \n')

# What is kept of each Deployment: its value, and its answers. They must not outlive the process.
state=$(mktemp -d)
# kubectl patch cannot send a raw body. kubectl proxy lets curl send it, and handles authentication.
coproc PROXY { exec kubectl proxy --port=0 2>&1; }
proxy_pid=$PROXY_PID
trap 'rm -rf "$state"; kill "$proxy_pid" 2>/dev/null || true; wait "$proxy_pid" 2>/dev/null || true' EXIT
trap 'exit 0' INT TERM
read -r line <&"${PROXY[0]}"
case $line in
  "Starting to serve on "*) api=http://${line##* } ;;
  *) echo "kubectl proxy: $line" >&2; exit 1 ;;
esac

# make CALL: makes an API call. The body of the answer is in the file $state/body, and its HTTP status code in $code.
declare -A methods=([VERB_CREATE]=POST [VERB_PATCH]=PATCH [VERB_DELETE]=DELETE [VERB_GET]=GET)
make() {
  : >"$state/body"
  # Without an answer, curl prints 000.
  code=$(jq -j '.bodyJson // ""' <<<"$1" |
    curl -sS -o "$state/body" -w '%{http_code}' -X "${methods[$(jq -r .verb <<<"$1")]}" --data-binary @- \
      -H "Content-Type: $(jq -r '.contentType // "application/json"' <<<"$1")" \
      "$api$(jq -r '.path + (if .query then "?" + .query else "" end)' <<<"$1")") || true
  code=$((10#$code))
}

# answer ID: prints the answer to the last call as the planner receives it.
answer() {
  local bytes=65536
  ((code / 100 != 2)) || bytes=$(stat -c %s "$state/body")
  head -c "$bytes" "$state/body" | base64 -w 0 | jq -Rs --arg id "$1" --argjson code "$code" \
    '{id: $id, made: true, httpCode: $code, body: .}'
}

# ask DIRECTORY NAME: asks for a plan. The response is in the file $state/response.
ask() {
  kubectl get deploy,rs,pods -n "$namespace" -o json >"$state/objects"
  jq -n --arg now "$(date -u +%FT%TZ)" --rawfile objects "$state/objects" --arg namespace "$namespace" --arg name "$2" \
    --rawfile value "$1/value" --arg session "$session" --slurpfile answers "$1/answers" '{
      snapshot: {now: $now, objects: [$objects], replicaSetsComplete: true, podsComplete: true,
        target: {apiVersion: "apps/v1", kind: "Deployment", namespace: $namespace, name: $name}},
      sync: {value: $value, session: $session, answers: $answers}}' |
    curl -sS --fail-with-body -o "$state/response" -H 'Content-Type: application/json' --data-binary @- "$planner" || {
    echo "no plan: $(head -c 2000 "$state/response")"
    return 1
  }
  jq -j '.sync.value // ""' "$state/response" >"$1/value"
}

# sync NAME: asks for a plan, makes the reads that are required first, and carries the plan out.
sync() {
  local directory=$state/$1 read step ended='' existing
  mkdir -p "$directory" && touch "$directory/value" "$directory/answers"
  while ask "$directory" "$1" || return 0; jq -e '.sync.reads' "$state/response" >/dev/null; do
    while read -r read; do
      make "$(jq -c .call <<<"$read")"
      echo "$code read $(jq -r .call.path <<<"$read")"
      answer "$(jq -r .id <<<"$read")" >>"$directory/answers"
    done < <(jq -c '.sync.reads[]' "$state/response")
  done
  : >"$directory/answers"
  while read -r step; do
    if [[ $ended ]]; then
      jq '{id}' <<<"$step" >>"$directory/answers"
      continue
    fi
    make "$(jq -c .call <<<"$step")"
    echo "$code $(jq -r .summary <<<"$step")"
    jq -ne --argjson step "$step" --argjson code "$code" '$code >= 200 and $code < 300
      or $step.onFailure == "ON_FAILURE_CONTINUE"
      or $step.onFailure == "ON_FAILURE_DONE_IF" and ($step.doneHttpCodes | index($code) != null)' >/dev/null || ended=yes
    answer "$(jq -r .id <<<"$step")" >"$state/answer"
    if [[ $code == 409 ]] && jq -e .readOnConflict <<<"$step" >/dev/null; then
      make "$(jq -c .readOnConflict <<<"$step")"
      ((code / 100 != 2)) || existing=$(base64 -w 0 "$state/body")
    fi
    jq --arg existing "${existing-}" '. + {existing: $existing}' "$state/answer" >>"$directory/answers"
    unset existing
  done < <(jq -c '.steps[]? | select(.call)' "$state/response")
}

while true; do
  for name in $(kubectl get deploy -n "$namespace" -o jsonpath='{.items[*].metadata.name}'); do
    sync "$name"
  done
  sleep "$interval"
done
