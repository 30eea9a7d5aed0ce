sh -eu -c '
# Deployment shop/web: 3 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, also when a call failed.

# 1. scale up ReplicaSet web-5dc4f4f9bb from 6 to 12
kubectl patch replicaset.apps/web-5dc4f4f9bb -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"008d22ac-fc15-4357-a608-61b9d0253793"},
{"op":"test","path":"/metadata/generation","value":4},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1desired-replicas","value":"20"},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1max-replicas","value":"25"},
{"op":"add","path":"/spec/replicas","value":12}]
EOF

# 2. scale up ReplicaSet web-779f94f8fc from 7 to 13
kubectl patch replicaset.apps/web-779f94f8fc -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"2f4d5385-815d-4525-882c-82a7b7061f89"},
{"op":"test","path":"/metadata/generation","value":4},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1desired-replicas","value":"20"},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1max-replicas","value":"25"},
{"op":"add","path":"/spec/replicas","value":13}]
EOF

# 3. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"resourceVersion":"1183","uid":"286e7d47-dc9b-44f7-a586-3f81f135e391"},
"status":{"availableReplicas":8,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-20T23:26:40Z",
"lastUpdateTime":"2026-11-20T23:26:40Z","message":"Deployment is paused","reason":"DeploymentPaused",
"status":"Unknown","type":"Progressing"},{"lastTransitionTime":"2026-11-20T23:26:45Z",
"lastUpdateTime":"2026-11-20T23:26:45Z","message":"Deployment does not have minimum availability.",
"reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}],"observedGeneration":4,
"readyReplicas":8,"replicas":13,"terminatingReplicas":0,"unavailableReplicas":17,"updatedReplicas":7}}
EOF
'
