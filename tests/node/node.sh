#!/usr/bin/env bash
# A cluster of one real node: kubelet, containerd, runc, CNI bridge, kube-proxy and CoreDNS, with real containers.
#
#   node.sh up DIRECTORY      start it, and write DIRECTORY/kubeconfig
#   node.sh down DIRECTORY    stop it
#   node.sh ns DIRECTORY CMD  run a command inside the namespaces of the node
#
# The node runs in its own network, mount, process and other namespaces, so routes, iptables rules and mounts of the machine
# do not change, and killing one process stops everything. The script requires root, but neither systemd nor a registry: it
# imports the images in DIRECTORY/images. BIN is the directory with etcd, kube-apiserver, kube-controller-manager,
# kube-scheduler, kubelet, kube-proxy and kubectl. containerd, runc and the CNI plugins are Debian packages.
set -euo pipefail
self=$(readlink -f "$0")
run=$(readlink -f "${2:?directory}")
: "${BIN:?directory with the Kubernetes binaries}"
export BIN KUBECONFIG=$run/kubeconfig
node_ip=10.200.0.1 pods=10.244.0.0/24 services=10.97.0.0/16 dns=10.97.0.10 port=26443
# The parent of all control groups of the node.
group=rollplan-node
cgroups=/sys/fs/cgroup

# Runs as process 1 of the new namespaces.
node() {
  [ $$ = 1 ] || { echo "node must be process 1 of new namespaces" >&2; exit 1; }
  # A bridge has the address of the node. The route leads nowhere, but programs need it to detect their address.
  ip link set lo up
  ip link add node0 type bridge
  ip addr add $node_ip/24 dev node0
  ip link set node0 up
  ip route add default via $node_ip dev node0
  sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 net.ipv4.conf.all.route_localnet=1
  # Mount a sysfs for this network namespace, and keep the control groups of the machine in it.
  mkdir -p "$run/cgroups"
  mount --rbind $cgroups "$run/cgroups"
  umount -l -R /sys
  mount -t sysfs sysfs /sys
  mount --rbind "$run/cgroups" $cgroups
  umount -l -R "$run/cgroups"
  mount -t tmpfs tmpfs /run
  mkdir -p /run/lock
  local directory setting file
  for directory in /var/log /var/lib/containerd /var/lib/kubelet /var/lib/cni; do
    mkdir -p "$run/fs$directory" $directory
    mount --bind "$run/fs$directory" $directory
  done
  # These settings apply to the whole machine. The kubelet sees files that already have its values, and changes nothing.
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
    file=$run/sysctl/${setting%=*}
    mkdir -p "$(dirname "$file")"
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
  done
  mount --make-rshared /
  hostname node

  "$BIN/etcd" --data-dir "$run/etcd" --listen-client-urls http://127.0.0.1:22379 --advertise-client-urls http://127.0.0.1:22379 \
    --listen-peer-urls http://127.0.0.1:22380 --initial-advertise-peer-urls http://127.0.0.1:22380 \
    --initial-cluster default=http://127.0.0.1:22380 --unsafe-no-fsync >"$run/etcd.log" 2>&1 &
  "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:22379 --secure-port=$port --bind-address=0.0.0.0 --advertise-address=$node_ip \
    --cert-dir="$run/certs" --service-cluster-ip-range=$services --token-auth-file="$run/tokens.csv" --authorization-mode=Node,RBAC \
    --service-account-key-file="$run/sa.pub" --service-account-signing-key-file="$run/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --allow-privileged=true \
    --kubelet-preferred-address-types=InternalIP >"$run/kube-apiserver.log" 2>&1 &
  containerd -c "$run/containerd.toml" >"$run/containerd.log" 2>&1 &
  until ctr version >/dev/null 2>&1; do sleep 0.1; done
  local image
  for image in "$run"/images/*.tar; do ctr -n k8s.io images import "$image"; done
  until "$BIN/kubectl" get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
  # The API server has created its certificate by now. Pods use it as their CA.
  "$BIN/kube-controller-manager" --kubeconfig="$KUBECONFIG" --service-account-private-key-file="$run/sa.key" \
    --root-ca-file="$run/certs/apiserver.crt" --leader-elect=false --secure-port=26257 --bind-address=127.0.0.1 \
    --cert-dir="$run/certs" >"$run/kube-controller-manager.log" 2>&1 &
  "$BIN/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false --secure-port=26259 --bind-address=127.0.0.1 \
    --cert-dir="$run/certs" >"$run/kube-scheduler.log" 2>&1 &
  "$BIN/kubelet" --config="$run/kubelet.yaml" --kubeconfig="$KUBECONFIG" --root-dir=/var/lib/kubelet --hostname-override=node \
    --node-ip=$node_ip >"$run/kubelet.log" 2>&1 &
  "$BIN/kube-proxy" --config="$run/kube-proxy.yaml" >"$run/kube-proxy.log" 2>&1 &
  # A Unix socket is reachable from other network namespaces.
  socat "UNIX-LISTEN:$run/api.sock,fork" TCP:127.0.0.1:$port &
  touch "$run/started"
  # Process 1 reaps orphaned processes.
  while :; do
    wait -n || true
    sleep 0.2
  done
}

config() {
  cd "$run"
  openssl genrsa -out sa.key 2048 2>/dev/null
  openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
  local token
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "$token,admin,admin,system:masters" >tokens.csv
  cat >kubeconfig <<K
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://127.0.0.1:$port", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
K
  cat >containerd.toml <<K
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE, runc cannot lower the OOM score.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$run/cni"
K
  mkdir -p cni
  cat >cni/10-bridge.conflist <<K
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
K
  # The kubelet accepts anonymous requests, because only this machine can reach its address.
  cat >kubelet.yaml <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /$group
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
address: $node_ip
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
resolvConf: ""
clusterDNS: [$dns]
clusterDomain: cluster.local
# Keep all images: they cannot be pulled again.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
# "0%" turns a threshold off: a disk that is nearly full has to do with the machine, and not with what is tested.
evictionHard: {memory.available: 100Mi, nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%", imagefs.inodesFree: "0%"}
enforceNodeAllocatable: [pods]
K
  cat >kube-proxy.yaml <<K
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: $pods
hostnameOverride: node
clientConnection: {kubeconfig: $KUBECONFIG}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
K
  cat >coredns.yaml <<K
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: coredns}
rules:
- {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: coredns}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        ready
        kubernetes cluster.local in-addr.arpa
        cache 5
    }
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: $dns
  selector: {k8s-app: kube-dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: coredns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      dnsPolicy: Default
      containers:
      - name: coredns
        image: localhost/coredns:1
        args: [-conf, /etc/coredns/Corefile]
        securityContext: {runAsUser: 0} # port 53
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: coredns}}]
K
}

# Waits up to a minute for a command to succeed.
await() {
  local i
  for i in $(seq 600); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "still failing after a minute: $*" >&2
  tail -n 5 "$run"/*.log >&2
  return 1
}

up() {
  [ ! -e "$run/unshare.pid" ] || { echo "already started: $run" >&2; exit 1; }
  config
  local controller directory
  for controller in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
    directory=$cgroups/$controller/$group
    mkdir -p $directory
    if [ $controller = cpuset ]; then
      cat $cgroups/cpuset/cpuset.cpus >$directory/cpuset.cpus
      cat $cgroups/cpuset/cpuset.mems >$directory/cpuset.mems
    fi
  done
  setsid unshare --net --mount --pid --ipc --uts --fork --mount-proc --kill-child \
    bash "$self" node "$run" </dev/null >"$run/node.log" 2>&1 &
  echo $! >"$run/unshare.pid"
  await test -e "$run/started"
  setsid socat TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr "UNIX-CONNECT:$run/api.sock" </dev/null >/dev/null 2>&1 &
  echo $! >"$run/socat.pid"
  await "$BIN/kubectl" wait --for=condition=Ready node/node --timeout=1s
  "$BIN/kubectl" apply -f "$run/coredns.yaml" >/dev/null
  "$BIN/kubectl" -n kube-system rollout status daemonset/coredns --timeout=60s
}

# Killing process 1 stops all processes in its namespaces, and removes the mounts and network links.
down() {
  local name pid i
  for name in socat unshare; do
    [ -e "$run/$name.pid" ] || continue
    pid=$(cat "$run/$name.pid")
    # The PID may belong to another process by now.
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$run"; then kill -9 "$pid"; fi
    rm "$run/$name.pid"
  done
  for i in $(seq 50); do
    find $cgroups -depth -type d -path "$cgroups/*/$group*" -exec rmdir {} + 2>/dev/null || true
    [ -n "$(find $cgroups -maxdepth 2 -name $group)" ] || return 0
    sleep 0.1
  done
  echo "control groups are left below $cgroups/*/$group" >&2
  return 1
}

case ${1:-} in
  up | down | node) "$1" ;;
  ns)
    shift 2
    exec nsenter -t "$(pgrep -P "$(cat "$run/unshare.pid")")" -n -m -p -u -i -- "$@"
    ;;
  *) sed -n 2,8p "$self" >&2; exit 2 ;;
esac
