sh -eu -c '
# Deployment shop/web: 2 steps
# Each call has its preconditions. If one fails, the calls after it are not made. Events are not
# recorded. Plan again afterwards, even if a call failed.

# 1. create ReplicaSet web-6d755848ff with 3 replicas
kubectl create -n shop -f /dev/fd/3 3<<\EOF
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"annotations":{
"deployment.kubernetes.io/desired-replicas":"3","deployment.kubernetes.io/max-replicas":"4",
"deployment.kubernetes.io/revision":"1"},"labels":{"app.kubernetes.io/name":"web","pod-template-hash":"6d755848ff"},
"name":"web-6d755848ff","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,
"controller":true,"kind":"Deployment","name":"web","uid":"ea587d66-68d7-4294-99b4-f209293bd97c"}]},
"spec":{"minReadySeconds":0,"replicas":3,"selector":{"matchLabels":{"app.kubernetes.io/name":"web",
"pod-template-hash":"6d755848ff"}},"template":{"metadata":{"labels":{"app.kubernetes.io/name":"web",
"pod-template-hash":"6d755848ff"}},"spec":{"containers":[{"image":"registry.example/web:1.0",
"imagePullPolicy":"IfNotPresent","name":"web","ports":[{"containerPort":8080,"name":"http","protocol":"TCP"}],
"readinessProbe":{"failureThreshold":3,"httpGet":{"path":"/readyz","port":"http","scheme":"HTTP"},"periodSeconds":5,
"successThreshold":1,"timeoutSeconds":1},"resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m",
"memory":"128Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},
"terminationGracePeriodSeconds":30}}}}
EOF

# 2. update status of Deployment web
kubectl patch deployment.apps/web -n shop --subresource=status --type=merge --patch-file=/dev/fd/3 3<<\EOF
{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"},"resourceVersion":"228",
"uid":"ea587d66-68d7-4294-99b4-f209293bd97c"},
"status":{"availableReplicas":0,"collisionCount":null,"conditions":[{"lastTransitionTime":"2026-11-20T23:26:15Z",
"lastUpdateTime":"2026-11-20T23:26:15Z","message":"Created new replica set \u0022web-6d755848ff\u0022",
"reason":"NewReplicaSetCreated","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-11-20T23:26:15Z",
"lastUpdateTime":"2026-11-20T23:26:15Z","message":"Deployment does not have minimum availability.",
"reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}],"observedGeneration":1,
"readyReplicas":0,"replicas":0,"terminatingReplicas":0,"unavailableReplicas":3,"updatedReplicas":0}}
EOF
'
