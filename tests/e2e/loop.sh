#!/usr/bin/env bash
# A minimal adapter: read the cluster, get a plan from rollplan, make exactly the API calls of the plan, and repeat.
# It demonstrates that a plan leaves no decisions to its caller. It is not a complete controller: it polls, records no
# events, and does not report rejected calls to the planner, so it cannot continue if the name of a ReplicaSet is in use.
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

# url API_VERSION KIND NAMESPACE NAME SUBRESOURCE
url() {
  local group=apis
  [[ $1 == */* ]] || group=api
  echo "$api/$group/$1/namespaces/$3/${2,,}s${4:+/$4}${5:+/$5}"
}

# make_call STEP: makes the API call of a step and prints the HTTP status code. The response body is in the file $response.
make_call() {
  local step=$1 verb version kind ns name subresource content method
  # One value per line, because a subresource may be empty.
  { read -r verb; read -r version; read -r kind; read -r ns; read -r name; read -r subresource; read -r content; } < <(
    jq -r '.call | .verb, .apiVersion, .kind, .namespace, .name, .subresource // "", .contentType // "application/json"' <<<"$step")
  case $verb in
    VERB_CREATE) method=POST name= ;;
    VERB_PATCH) method=PATCH ;;
    VERB_DELETE) method=DELETE ;;
    *) echo "unknown verb $verb" >&2; return 1 ;;
  esac
  jq -j '.call.bodyJson // ""' <<<"$step" |
    curl -sS -o "$response" -w '%{http_code}' -X "$method" -H "Content-Type: $content" --data-binary @- \
      "$(url "$version" "$kind" "$ns" "$name" "$subresource")"
}

# judge STEP CODE: prints whether the step succeeded, failed but lets the plan continue, or failed and stops the plan.
judge() {
  jq -r --argjson code "$2" '
    (.toleratedHttpCodes // []) as $tolerated
    | if $code >= 200 and $code < 300 then "succeeded"
      elif $tolerated | index($code) then "succeeded"
      elif .call.verb == "VERB_DELETE" and $code == 404 then "succeeded"
      elif .continueOnFailure and ($tolerated | length) == 0 then "continue"
      else "stop" end' <<<"$1"
}

carry_out() {
  local step code verdict
  while read -r step; do
    code=$(make_call "$step") || code=0
    verdict=$(judge "$step" "$code")
    echo "$code $(jq -r '.summary // "(no summary)"' <<<"$step")"
    [[ $verdict == succeeded ]] || echo "  $verdict: $(head -c 2000 "$response")"
    # The remaining steps depend on this one: get a new plan.
    [[ $verdict != stop ]] || return 0
  done < <(jq -c '.steps[]? | select(.call)' <<<"$1")
}

while true; do
  snapshot=$(kubectl get deploy,rs,pods -n "$namespace" -o json)
  for name in $(jq -r '.items[] | select(.kind == "Deployment") | .metadata.name' <<<"$snapshot"); do
    if plan=$("$rollplan" plan -f - --deployment "$namespace/$name" --now "$(date -u +%FT%TZ)" -o json <<<"$snapshot"); then
      carry_out "$plan"
    fi
  done
  sleep "$interval"
done
