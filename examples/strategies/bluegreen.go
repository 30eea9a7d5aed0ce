// Command bluegreen releases a change to a complete second set of pods, and then switches a Service to them:
//
//	go run bluegreen.go pdeploy/web service/web '{"spec":{"template":…}}'
//
// The owner has maxSurge 100%. It uses your kubectl, and its namespace.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	owner, service, change := os.Args[1], os.Args[2], os.Args[3]
	replicas := field(owner, "{.spec.replicas}")
	// Only the pods that run now get requests, until the Service is switched.
	sets := field("replicasets", `{range .items[?(@.spec.replicas>0)]}{.metadata.ownerReferences[0].name}/{.metadata.labels.pod-template-hash} {end}`)
	name := owner[strings.Index(owner, "/")+1:]
	for _, set := range strings.Fields(sets) {
		if hash, ok := strings.CutPrefix(set, name+"/"); ok {
			selectPods(service, hash)
		}
	}
	// All new pods, and every old one.
	kubectl("annotate", "--overwrite", owner, "rollplan.dev/new-max="+replicas, "rollplan.dev/old-min="+replicas)
	kubectl("patch", owner, "--type=merge", "-p", change)
	message := ""
	for field(owner, "{.status.updatedReplicas}") != replicas || !strings.Contains(message, "held by its caps") {
		time.Sleep(time.Second)
		message = field(owner, `{.status.conditions[?(@.type=="Progressing")].message}`)
	}
	// Test the new pods here, before they get requests. The message names their ReplicaSet.
	set := strings.Split(message, `"`)[1]
	selectPods(service, field("replicaset/"+set, "{.metadata.labels.pod-template-hash}"))
	time.Sleep(10 * time.Second) // until every node sends new connections to the new pods
	kubectl("annotate", owner, "rollplan.dev/new-max-", "rollplan.dev/old-min-")
	fmt.Println(service, "selects the pods of", set)
}

func selectPods(service, hash string) {
	kubectl("patch", service, "-p", `{"spec":{"selector":{"pod-template-hash":"`+hash+`"}}}`)
}

func field(object, path string) string { return kubectl("get", object, "-o", "jsonpath="+path) }

func kubectl(args ...string) string {
	out, err := exec.Command("kubectl", args...).Output()
	if err != nil {
		log.Fatalf("kubectl %q: %v", args, err)
	}
	return string(out)
}
