#!/usr/bin/env bash
# The smallest adapter that there can be: look, ask rollplan, make exactly the calls of the plan, look again.
# It shows that a plan leaves its caller no choice. It is no controller: it polls, records no events, and does not
# report refused calls back, so a name that is taken already keeps it from going on.
#
#   loop.sh NAMESPACE
#
# Needs kubectl (with KUBECONFIG as usual), curl and jq. ROLLPLAN_BIN is the binary to ask, INTERVAL the seconds between
# two looks. Runs until it gets a signal. Kubernetes' own Deployment controller must be off.
set -euo pipefail

namespace=${1:?usage: loop.sh NAMESPACE}
rollplan=${ROLLPLAN_BIN:-rollplan}
interval=${INTERVAL:-0.2}

# kubectl can send any body with create, replace and delete, but not with patch; its proxy lets curl do so, and logs in
# for us.
coproc PROXY { exec kubectl proxy --port=0 2>&1; }
proxy_pid=$PROXY_PID
answer=$(mktemp)
trap 'rm -f "$answer"; kill "$proxy_pid" 2>/dev/null || true; wait "$proxy_pid" 2>/dev/null || true' EXIT
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

# Makes the call of one step. Prints the HTTP status; the answer's body is in the file $answer.
make_call() {
  local step=$1 verb version kind ns name subresource content method
  # A line each, since a subresource may be empty.
  { read -r verb; read -r version; read -r kind; read -r ns; read -r name; read -r subresource; read -r content; } < <(
    jq -r '.call | .verb, .apiVersion, .kind, .namespace, .name, .subresource // "", .contentType // "application/json"' <<<"$step")
  case $verb in
    VERB_CREATE) method=POST name= ;;
    VERB_PATCH) method=PATCH ;;
    VERB_DELETE) method=DELETE ;;
    *) echo "unknown verb $verb" >&2; return 1 ;;
  esac
  jq -j '.call.bodyJson // ""' <<<"$step" |
    curl -sS -o "$answer" -w '%{http_code}' -X "$method" -H "Content-Type: $content" --data-binary @- \
      "$(url "$version" "$kind" "$ns" "$name" "$subresource")"
}

# Whether the plan goes on after this answer: done, go on or stop.
judge() {
  jq -r --argjson code "$2" '
    (.toleratedHttpCodes // []) as $tolerated
    | if $code >= 200 and $code < 300 then "done"
      elif $tolerated | index($code) then "done"
      elif .call.verb == "VERB_DELETE" and $code == 404 then "done"
      elif .continueOnFailure and ($tolerated | length) == 0 then "go on"
      else "stop" end' <<<"$1"
}

carry_out() {
  local step code verdict
  while read -r step; do
    code=$(make_call "$step") || code=0
    verdict=$(judge "$step" "$code")
    echo "$code $(jq -r '.summary // "(no summary)"' <<<"$step")"
    [[ $verdict == done ]] || echo "  $verdict: $(head -c 2000 "$answer")"
    # The rest of the plan rests on what has just failed: look again.
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
