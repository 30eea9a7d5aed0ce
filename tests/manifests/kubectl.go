// Package manifests compares how rollplan and kubectl read manifests.
package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// documents reads the documents of a file, as kubectl's StreamVisitor and FileVisitor do (cli-runtime, resource/visitor.go).
func documents(text []byte) ([]string, error) {
	decoded := transform.NewReader(bytes.NewReader(text), unicode.BOMOverride(unicode.UTF8.NewDecoder()))
	decoder := yaml.NewYAMLOrJSONDecoder(decoded, 4096)
	var read []string
	for {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil {
			return nil, err
		}
		raw := bytes.TrimSpace(document.Raw)
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			read = append(read, flat(raw)...)
		}
	}
}

// flat returns a document, or the items of an array, which rollplan reads as documents.
func flat(document []byte) []string {
	var items []json.RawMessage
	if document[0] != '[' || json.Unmarshal(document, &items) != nil {
		return []string{string(document)}
	}
	var all []string
	for _, item := range items {
		all = append(all, flat(item)...)
	}
	return all
}
