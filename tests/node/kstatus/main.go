// Command kstatus reads an object from standard input as JSON, and prints its status as kstatus computes it.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	var object unstructured.Unstructured
	decoder := json.NewDecoder(os.Stdin)
	// The input is the output of `kubectl get --watch -o json`: one line for each version of the object.
	for decoder.More() {
		var text json.RawMessage
		if err := decoder.Decode(&text); err != nil {
			log.Fatal(err)
		}
		// Decodes integers as integers. encoding/json decodes them as floating-point numbers.
		if err := object.UnmarshalJSON(text); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(&object)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", result.Status, result.Message)
	}
}
