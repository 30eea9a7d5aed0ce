#!/usr/bin/env bash
# Uses curl and jq to apply a manifest, wait for the rollout, print why it is stalled, and roll back if the failure is certain.
#
#   deploy-curl.sh MANIFEST NAMESPACE DEPLOYMENT
#
# The manifest must contain only the Deployment. Optional variables: KUBE_API, the URL of the API server; KUBE_TOKEN, a token;
# KUBE_CA, a file with the CA certificate of the API server (in a pod, the defaults are those of its service account);
# ROLLPLAN_SERVER, the URL of the service; TIMEOUT, how long to wait, in seconds (600); IMAGE_PULL, how long an image may be
# missing, in seconds. The exit codes are those of `rollplan wait`: docs/reference/command.md.
set -euo pipefail

manifest=${1:?usage: deploy-curl.sh MANIFEST NAMESPACE DEPLOYMENT} namespace=$2 name=$3
account=/var/run/secrets/kubernetes.io/serviceaccount
api=${KUBE_API:-https://kubernetes.default.svc} ca=${KUBE_CA:-$account/ca.crt} token=${KUBE_TOKEN:-$(cat $account/token)}
planner=${ROLLPLAN_SERVER:-http://127.0.0.1:50051}/rollplan.v1.RolloutPlanner
apps=/apis/apps/v1/namespaces/$namespace core=/api/v1/namespaces/$namespace
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# kube METHOD PATH [CURL-OPTION...]: calls the API server. The token is not an argument, which other processes could see.
kube() {
  curl -sS --fail-with-body --max-time 60 --cacert "$ca" -H @<(echo "Authorization: Bearer $token") -X "$1" "$api$2" "${@:3}"
}

# ask METHOD FIELDS: calls the service with the current state of the Deployment, and with the events that may explain the last
# verdict. Objects are sent as the text that the API server printed: jq would round large integers.
ask() {
  local selector events count=3
  kube GET "$apps/deployments/$name" -o "$directory/0"
  selector=$(jq -r '[.spec.selector.matchLabels | to_entries[] | "\(.key)=\(.value)"] | join(",")' "$directory/0")
  kube GET "$apps/replicasets" -G --data-urlencode "labelSelector=$selector" -o "$directory/1"
  kube GET "$core/pods" -G --data-urlencode "labelSelector=$selector" -o "$directory/2"
  for events in $(jq -r '.eventSelectors[]?' <<<"$verdict"); do
    kube GET "$core/events" -G --data-urlencode "fieldSelector=$events" -o "$directory/$count"
    count=$((count + 1))
  done
  for object in $(seq 0 $((count - 1))); do jq -Rs . "$directory/$object"; done |
    jq -cn --argjson fields "$2" '{snapshot: {now: (now | todate), objects: [inputs], replicaSetsComplete: true,
      podsComplete: true}} * $fields' |
    curl -sS --fail-with-body --max-time 30 -H 'content-type: application/json' --data-binary @- "$planner/$1"
}

kube PATCH "$apps/deployments/$name?fieldManager=pipeline&force=true" -H 'content-type: application/apply-patch+yaml' \
  --data-binary @"$manifest" -o /dev/null

fields=${IMAGE_PULL:+$(jq -nc --arg grace "${IMAGE_PULL}s" '{failOn: [{failure: "image-pull", grace: $grace}]}')}
verdict={} last='' code=3
end=$((SECONDS + ${TIMEOUT:-600}))
while [ $SECONDS -lt $end ]; do
  answer=$(ask ComputeStatus "$(jq -nc --argjson fields "${fields:-"{}"}" --argjson verdict "$verdict" '$fields + {previousVerdict: $verdict}')")
  verdict=$(jq -c '.report.verdict // {}' <<<"$answer")
  # A line whenever the numbers or the causes change. Messages also contain ages, which change all the time.
  state=$(jq -c '.report | [.phase, .counts, (.blockers[]? | .reason, .podCount)]' <<<"$answer")
  [ "$state" = "$last" ] || jq -r '.report.message' <<<"$answer"
  last=$state
  case $(jq -r 'if .final | not then "waiting" elif .outlook == "OUTLOOK_COMPLETE" then "complete"
      elif .certain then "certain" else "stalled" end' <<<"$verdict") in
    complete) exit 0 ;;
    certain) code=1 undo=yes && break ;;
    stalled) code=1 && break ;;
  esac
  sleep "${INTERVAL:-2}"
done

jq -r '.report | (.verdict.message // empty), (.blockers[]? | "\(.message) → \(.remedy // "wait")")' <<<"$answer"
# Roll back only if the failure is certain: after a deadline or a transient failure, the rollout may still complete.
if [ "${undo:-}" ]; then
  echo "The failure is certain: rolling back."
  ask Rollback '{}' | jq -c '.steps[]?.call | select(.)' | while read -r call; do
    jq -j .bodyJson <<<"$call" |
      kube PATCH "$(jq -r '"\(.path)?\(.query)"' <<<"$call")" -H "content-type: $(jq -r .contentType <<<"$call")" \
        --data-binary @- -o /dev/null
  done
fi
exit $code
