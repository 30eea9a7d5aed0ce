sh -eu -c '
# Deployment shop/web: 3 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, also when a call failed.

# 1. scale down ReplicaSet web-5dc4f4f9bb from 5 to 3
kubectl patch replicaset.apps/web-5dc4f4f9bb -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"cb9426da-1bb4-4749-9118-96047545f4cb"},
{"op":"test","path":"/metadata/generation","value":5},
{"op":"add","path":"/spec/replicas","value":3}]
EOF

# 2. scale up ReplicaSet web-67fc9594b8 from 5 to 7
kubectl patch replicaset.apps/web-67fc9594b8 -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"a26363b4-eade-488a-b1ba-4dde933d6660"},
{"op":"test","path":"/metadata/generation","value":2},
{"op":"add","path":"/spec/replicas","value":7}]
EOF

# 3. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"resourceVersion":"929","uid":"8d924a12-b534-4d09-9589-1a7c6e5a6758"},
"status":{"availableReplicas":10,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-20T23:26:34Z",
"lastUpdateTime":"2026-11-20T23:26:34Z","message":"Deployment has minimum availability.",
"reason":"MinimumReplicasAvailable","status":"True","type":"Available"},{
"lastTransitionTime":"2026-11-20T23:26:34Z","lastUpdateTime":"2026-11-20T23:26:42Z",
"message":"ReplicaSet \u0022web-67fc9594b8\u0022 is progressing.","reason":"ReplicaSetUpdated","status":"True",
"type":"Progressing"}],"observedGeneration":3,"readyReplicas":10,"replicas":13,"terminatingReplicas":0,
"unavailableReplicas":3,"updatedReplicas":5}}
EOF
'
