sh -eu -c '
# Deployment shop/web: 4 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, also when a call failed.

# 1. scale down ReplicaSet web-78767d77cc from 1 to 0
kubectl patch replicaset.apps/web-78767d77cc -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF || echo "step 1 failed; the steps after it are still carried out" >&2
[{"op":"test","path":"/metadata/uid","value":"52a7fc00-df24-41c1-afc5-69494d28cf80"},
{"op":"test","path":"/metadata/generation","value":3},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1desired-replicas","value":"1"},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1max-replicas","value":"2"},
{"op":"add","path":"/spec/replicas","value":0}]
EOF

# 2. scale down ReplicaSet web-757c798d4 from 1 to 0
kubectl patch replicaset.apps/web-757c798d4 -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF || echo "step 2 failed; the steps after it are still carried out" >&2
[{"op":"test","path":"/metadata/uid","value":"823f8fc2-071b-4fcd-92c6-0d0235ded346"},
{"op":"test","path":"/metadata/generation","value":3},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1desired-replicas","value":"1"},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1max-replicas","value":"2"},
{"op":"add","path":"/spec/replicas","value":0}]
EOF

# 3. scale down ReplicaSet web-7b4966cdf5 from 2 to 1
kubectl patch replicaset.apps/web-7b4966cdf5 -n shop --type=json --patch-file=/dev/fd/3 3<<\EOF
[{"op":"test","path":"/metadata/uid","value":"e4585e3c-0a58-4656-8caa-d95b4c546314"},
{"op":"test","path":"/metadata/generation","value":3},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1desired-replicas","value":"1"},
{"op":"add","path":"/metadata/annotations/deployment.kubernetes.io~1max-replicas","value":"2"},
{"op":"add","path":"/spec/replicas","value":1}]
EOF

# 4. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"resourceVersion":"1171","uid":"3b718294-60a0-46ab-ac3e-d59e0a625f39"},
"status":{"availableReplicas":4,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-21T00:52:25Z",
"lastUpdateTime":"2026-11-21T00:52:25Z","message":"Deployment has minimum availability.",
"reason":"MinimumReplicasAvailable","status":"True","type":"Available"},{
"lastTransitionTime":"2026-11-21T00:52:25Z","lastUpdateTime":"2026-11-21T00:52:27Z",
"message":"ReplicaSet \u0022web-7b4966cdf5\u0022 is progressing.","reason":"ReplicaSetUpdated","status":"True",
"type":"Progressing"}],"observedGeneration":4,"readyReplicas":4,"replicas":4,"terminatingReplicas":0,
"unavailableReplicas":0,"updatedReplicas":2}}
EOF
'
