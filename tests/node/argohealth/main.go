// Command argohealth reads an object from standard input as JSON, and prints its health as Argo CD computes it.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var object unstructured.Unstructured
	// Decodes integers as integers. encoding/json decodes them as floating-point numbers.
	if err := object.UnmarshalJSON(text); err != nil {
		log.Fatal(err)
	}
	result, err := health.GetResourceHealth(&object, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s\n", result.Status, result.Message)
}
