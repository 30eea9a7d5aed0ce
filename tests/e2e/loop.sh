#!/usr/bin/env bash
# A minimal adapter: read the cluster, get a plan from rollplan, make exactly the API calls of the plan, and repeat.
# It demonstrates that a plan leaves no decisions to its caller. It is not a complete controller: it polls, records no
# events, and repeats a rejected call without a backoff.
#
#   loop.sh NAMESPACE
#
# It requires kubectl (with KUBECONFIG as usual), curl and jq. Set ROLLPLAN_BIN to the rollplan binary and INTERVAL to the
# polling interval in seconds. It runs until it receives a signal. The native Deployment controller must be disabled.
set -euo pipefail

namespace=${1:?usage: loop.sh NAMESPACE}
rollplan=${ROLLPLAN_BIN:-rollplan}
interval=${INTERVAL:-0.2}

# kubectl patch cannot send a raw body. kubectl proxy lets curl send it, and handles authentication.
coproc PROXY { exec kubectl proxy --port=0 2>&1; }
proxy_pid=$PROXY_PID
response=$(mktemp)
trap 'rm -f "$response"; kill "$proxy_pid" 2>/dev/null || true; wait "$proxy_pid" 2>/dev/null || true' EXIT
trap 'exit 0' INT TERM
read -r line <&"${PROXY[0]}"
case $line in
  "Starting to serve on "*) api=http://${line##* } ;;
  *) echo "kubectl proxy: $line" >&2; exit 1 ;;
esac

# make_call CALL: makes an API call and prints the HTTP status code. The body of the answer is in the file $response.
make_call() {
  local call=$1 method
  case $(jq -r .verb <<<"$call") in
    VERB_CREATE) method=POST ;;
    VERB_PATCH) method=PATCH ;;
    VERB_DELETE) method=DELETE ;;
    VERB_GET) method=GET ;;
    *) echo "unknown verb in $call" >&2; return 1 ;;
  esac
  jq -j '.bodyJson // ""' <<<"$call" |
    curl -sS -o "$response" -w '%{http_code}' -X "$method" --data-binary @- \
      -H "Content-Type: $(jq -r '.contentType // "application/json"' <<<"$call")" \
      "$api$(jq -r '.path + (if .query then "?" + .query else "" end)' <<<"$call")"
}

# carry_out PLAN: makes the calls of a plan. The answers to those that failed are in the array $answers.
carry_out() {
  local step code on_failure answer
  answers=()
  while read -r step; do
    : >"$response"
    code=$(make_call "$(jq .call <<<"$step")") || code=0
    echo "$code $(jq -r '.summary // "(no summary)"' <<<"$step")"
    [[ $code != 2* ]] || continue
    answer=$(head -c 65536 "$response" | base64 -w 0 |
      jq -Rs --argjson step "$step" --argjson code "$code" '{call: $step.call, httpCode: $code, body: .}')
    if [[ $code == 409 ]] && jq -e .readOnConflict <<<"$step" >/dev/null; then
      if [[ $(make_call "$(jq .readOnConflict <<<"$step")") == 200 ]]; then
        answer=$(base64 -w 0 "$response" | jq -Rs --argjson answer "$answer" '$answer + {existingJson: .}')
      fi
    fi
    on_failure=$(jq -r --argjson code "$code" '
      if .onFailure == "ON_FAILURE_DONE_IF" and (.doneHttpCodes | index($code)) then "done" else .onFailure end' <<<"$step")
    echo "  $on_failure: $(head -c 2000 "$response")"
    answers+=("$answer")
    case $on_failure in done | ON_FAILURE_CONTINUE) ;; *) return 0 ;; esac
  done < <(jq -c '.steps[]? | select(.call)' <<<"$1")
}

declare -A last_answers
while true; do
  snapshot=$(kubectl get deploy,rs,pods -n "$namespace" -o json)
  for name in $(jq -r '.items[] | select(.kind == "Deployment") | .metadata.name' <<<"$snapshot"); do
    if plan=$("$rollplan" plan -f - --deployment "$namespace/$name" --now "$(date -u +%FT%TZ)" -o json --replica-sets-complete \
      --answers <(echo "${last_answers[$name]:-[]}") <<<"$snapshot"); then
      carry_out "$plan"
      last_answers[$name]=$(printf '%s\n' "${answers[@]}" | jq -s .)
    fi
  done
  sleep "$interval"
done
