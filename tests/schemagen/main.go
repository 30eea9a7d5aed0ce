// Command schemagen generates the schema of a pod specification in the CustomResourceDefinition of PlannedDeployment from the
// OpenAPI document of Kubernetes:
//
//	go run ./schemagen > ../helm/rollplan/files/pod-spec.schema.json
//	go run ./schemagen -check ../helm/rollplan/files/pod-spec.schema.json
//
// The schema has types, and keys by which server-side apply merges lists. It has no descriptions, which are nine tenths of the
// document, no defaults but the one that the key of ports needs, and keeps unknown fields.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	document = "api/openapi-spec/v3/apis__apps__v1_openapi.json"
	podSpec  = "io.k8s.api.core.v1.PodSpec"
)

func main() {
	check := flag.String("check", "", "compare with this `file` instead of printing the schema, and fail if it differs")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(check string) error {
	source, err := read()
	if err != nil {
		return err
	}
	spec, err := source.convert(podSpec)
	if err != nil {
		return err
	}
	// The templates of ReplicaSets must not have any.
	delete(spec["properties"].(schema), "ephemeralContainers")
	text, err := print(spec)
	if err != nil {
		return err
	}
	if check == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	current, err := os.ReadFile(check)
	if err == nil && !bytes.Equal(current, text) {
		err = fmt.Errorf("%s is out of date: run go run ./schemagen > %[1]s", check)
	}
	return err
}

// schema is a JSON schema.
type schema = map[string]any

// definitions are the schemas of a document, by name.
type definitions map[string]schema

// read returns the definitions in the OpenAPI document that the module of Kubernetes contains.
func read() (definitions, error) {
	// No package of the module is imported here, so it may not be on this machine yet: `go list -m` would print no directory.
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, fmt.Errorf("download the module of Kubernetes: %w", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, document))
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Components struct{ Schemas definitions }
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	return parsed.Components.Schemas, nil
}

// convert returns the structural schema of a definition.
func (d definitions) convert(name string) (schema, error) {
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		return schema{"x-kubernetes-int-or-string": true}, nil
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return schema{"x-kubernetes-preserve-unknown-fields": true}, nil // a text, an integer or a fraction
	case "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":
		return schema{"type": "object", "x-kubernetes-preserve-unknown-fields": true}, nil
	}
	definition, ok := d[name]
	if !ok {
		return nil, fmt.Errorf("%s has no schema %s", document, name)
	}
	return d.structural(definition)
}

// structural returns what a CustomResourceDefinition needs of a schema.
func (d definitions) structural(from schema) (schema, error) {
	if reference, ok := reference(from); ok {
		to, err := d.convert(reference)
		if mapType, ok := from["x-kubernetes-map-type"]; ok && err == nil {
			to["x-kubernetes-map-type"] = mapType
		}
		return to, err
	}
	to := schema{}
	for _, key := range []string{"type", "format", "x-kubernetes-map-type", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"} {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		inner, ok := from[key].(schema)
		if !ok {
			continue
		}
		converted, err := d.structural(inner)
		if err != nil {
			return nil, err
		}
		to[key] = converted
	}
	if to["type"] == "object" && to["additionalProperties"] == nil {
		to["x-kubernetes-preserve-unknown-fields"] = true
	}
	if properties, ok := from["properties"].(schema); ok {
		converted := schema{}
		for name, property := range properties {
			inner, err := d.structural(property.(schema))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			converted[name] = inner
		}
		to["properties"] = converted
	}
	return to, withKeys(to)
}

// reference returns the name of the definition that a schema refers to.
func reference(from schema) (string, bool) {
	if all, ok := from["allOf"].([]any); ok && len(all) == 1 {
		from, _ = all[0].(schema)
	}
	reference, ok := from["$ref"].(string)
	return reference[strings.LastIndexByte(reference, '/')+1:], ok
}

// withKeys completes the items of a list that is merged by keys: each item needs them.
func withKeys(list schema) error {
	keys, ok := list["x-kubernetes-list-map-keys"].([]any)
	if !ok {
		return nil
	}
	items := list["items"].(schema)
	var required []any
	for _, key := range keys {
		property, ok := items["properties"].(schema)[key.(string)].(schema)
		switch {
		case !ok:
			return fmt.Errorf("the items have no key %s", key)
		case key == "protocol":
			property["default"] = "TCP"
		default:
			required = append(required, key)
		}
	}
	items["required"] = required
	return nil
}

// print returns the schema with one line for each field of a pod specification.
func print(spec schema) ([]byte, error) {
	fields := spec["properties"].(schema)
	var out bytes.Buffer
	out.WriteString(`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{`)
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		text, err := json.Marshal(fields[name])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "\n%q:%s", name, text)
	}
	out.WriteString("}}\n")
	return out.Bytes(), nil
}
