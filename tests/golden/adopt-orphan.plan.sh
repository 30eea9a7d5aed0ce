sh -eu -c '
# Deployment shop/web: 3 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, even if a call failed.

# 1. check that Deployment web is unchanged
kubectl patch deployment.apps/web -n shop --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"resourceVersion":"2049","uid":"1be646bf-80bd-4f32-9088-0e5901863f33"}}
EOF

# 2. adopt ReplicaSet web-5dc4f4f9bb
kubectl patch replicaset.apps/web-5dc4f4f9bb -n shop --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,
"kind":"Deployment","name":"web","uid":"1be646bf-80bd-4f32-9088-0e5901863f33"}],"resourceVersion":"2047",
"uid":"c24fa6d6-d342-4acc-95e4-b7da64f9b424"}}
EOF

# 3. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"},"resourceVersion":"2049",
"uid":"1be646bf-80bd-4f32-9088-0e5901863f33"},
"status":{"availableReplicas":0,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-20T23:27:00Z",
"lastUpdateTime":"2026-11-20T23:27:00Z","message":"Found new replica set \u0022web-5dc4f4f9bb\u0022",
"reason":"FoundNewReplicaSet","status":"True","type":"Progressing"}],"observedGeneration":0,"readyReplicas":0,
"replicas":0,"terminatingReplicas":null,"unavailableReplicas":0,"updatedReplicas":0}}
EOF
'
