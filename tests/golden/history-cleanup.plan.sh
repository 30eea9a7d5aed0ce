sh -eu -c '
# Deployment shop/web: 4 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, even if a call failed.

# tolerate REASON COMMAND...: succeeds if the command does, or if kubectl reports REASON.
tolerate() {
  report="^Error from server [(]($1)[)]"
  shift
  outcome=$({
    { "$@" 2>&1 >&4 && echo succeeded >&6; } | tee /dev/fd/5 5>&1 >&2 | grep -E -c "$report" >&6
  } 6>&1) || :
  case $outcome in
  succeeded* | [1-9]*) ;;
  *) return 1 ;;
  esac
} 4>&1

# 1. delete ReplicaSet web-5dc4f4f9bb
tolerate "NotFound" kubectl delete --raw /apis/apps/v1/namespaces/shop/replicasets/web-5dc4f4f9bb -f /dev/fd/3 3<<\EOF
{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"1400",
"uid":"0b25cf4e-53fc-4440-a536-8cc090690bc1"},
"propagationPolicy":"Background"}
EOF

# 2. delete ReplicaSet web-67fc9594b8
tolerate "NotFound" kubectl delete --raw /apis/apps/v1/namespaces/shop/replicasets/web-67fc9594b8 -f /dev/fd/3 3<<\EOF
{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"1534",
"uid":"fa3c185a-c306-4bda-b297-d32b914b8971"},
"propagationPolicy":"Background"}
EOF

# 3. delete ReplicaSet web-779f94f8fc
tolerate "NotFound" kubectl delete --raw /apis/apps/v1/namespaces/shop/replicasets/web-779f94f8fc -f /dev/fd/3 3<<\EOF
{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"1468",
"uid":"a6c97810-84b0-405f-90bf-803cbfe8768c"},
"propagationPolicy":"Background"}
EOF

# 4. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"resourceVersion":"1667","uid":"cfb56611-df6e-4782-bb18-aa67df80d52b"},
"status":{"availableReplicas":3,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-20T23:26:44Z",
"lastUpdateTime":"2026-11-20T23:26:44Z","message":"Deployment has minimum availability.",
"reason":"MinimumReplicasAvailable","status":"True","type":"Available"},{
"lastTransitionTime":"2026-11-20T23:26:44Z","lastUpdateTime":"2026-11-20T23:26:48Z",
"message":"ReplicaSet \u0022web-c994f5bbf\u0022 has successfully progressed.","reason":"NewReplicaSetAvailable",
"status":"True","type":"Progressing"}],"observedGeneration":7,"readyReplicas":3,"replicas":3,
"terminatingReplicas":0,"unavailableReplicas":0,"updatedReplicas":3}}
EOF
'
