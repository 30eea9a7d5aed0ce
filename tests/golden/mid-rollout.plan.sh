sh -eu -c '
# Deployment shop/web: 3 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, even if a call failed.

# 1. scale down ReplicaSet web-779f94f8fc from 8 to 6
kubectl patch replicaset.apps/web-779f94f8fc -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"bce7e507-11fb-4287-926c-9d1bc4fbe38d"},
{"op":"test","path":"/metadata/generation","value":5},
{"op":"add","path":"/spec/replicas","value":6}]
EOF

# 2. scale up ReplicaSet web-67fc9594b8 from 5 to 7
kubectl patch replicaset.apps/web-67fc9594b8 -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"a2729eb6-5e19-48c2-a74a-1be6f458a5fc"},
{"op":"test","path":"/metadata/generation","value":2},
{"op":"add","path":"/spec/replicas","value":7}]
EOF

# 3. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"resourceVersion":"501","uid":"9cae7674-60a3-47eb-ad60-f7be7fd0c2fe"},
"status":{"availableReplicas":10,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-20T23:26:11Z",
"lastUpdateTime":"2026-11-20T23:26:11Z","message":"Deployment has minimum availability.",
"reason":"MinimumReplicasAvailable","status":"True","type":"Available"},{
"lastTransitionTime":"2026-11-20T23:26:11Z","lastUpdateTime":"2026-11-20T23:26:19Z",
"message":"ReplicaSet \u0022web-67fc9594b8\u0022 is progressing.","reason":"ReplicaSetUpdated","status":"True",
"type":"Progressing"}],"observedGeneration":3,"readyReplicas":10,"replicas":13,"terminatingReplicas":0,
"unavailableReplicas":3,"updatedReplicas":5}}
EOF
'
