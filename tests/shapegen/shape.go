package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// kind is the way in which a JSON value is decoded. Its value is the name of the variant of the Rust enum Kind.
type kind string

const (
	kindBool        kind = "Bool"
	kindInteger     kind = "Integer"
	kindString      kind = "String"
	kindQuantity    kind = "Quantity"
	kindIntOrString kind = "IntOrString"
	kindTime        kind = "Time"
	kindRaw         kind = "Raw"
	kindStruct      kind = "Struct"
	kindList        kind = "List"
	kindMap         kind = "Map"
)

// shape describes how a Go type decodes JSON.
type shape struct {
	kind  kind
	of    *structShape // kindStruct
	items *shape       // kindList and kindMap
}

// structShape describes the JSON fields of a Go struct, sorted by name. Fields of embedded structs are included.
type structShape struct {
	name   string
	fields []field
}

type field struct {
	name    string
	pointer bool
	shape   shape
	// mergeKey is the field by which a strategic merge matches the items of a list. Empty if it replaces the list.
	mergeKey string
	// retainsKeys is whether a strategic merge removes the fields that the manifest does not have.
	retainsKeys bool
	// listKeys are the fields by which a server-side apply matches the items of a list, with their defaults. Empty if it replaces
	// the list.
	listKeys []listKey
	// atomic is whether a server-side apply replaces a struct or a map.
	atomic bool
}

type listKey struct{ name, defaultValue string }

// leaves are the types with a custom JSON decoder that canonical.rs implements. Any other such type is an error.
var leaves = map[reflect.Type]kind{
	reflect.TypeFor[resource.Quantity]():  kindQuantity,
	reflect.TypeFor[intstr.IntOrString](): kindIntOrString,
	reflect.TypeFor[metav1.Time]():        kindTime,
	reflect.TypeFor[metav1.FieldsV1]():    kindRaw,
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// walker converts types to shapes. It converts each struct only once.
type walker struct {
	known map[reflect.Type]*structShape
	order []*structShape
	// schema is that of server-side apply.
	schema *schema.Schema
}

func walkTemplate() (root *structShape, all []*structShape) {
	return walk(reflect.TypeFor[corev1.PodTemplateSpec](), "spec", "template")
}

func walkSpec() (root *structShape, all []*structShape) {
	return walk(reflect.TypeFor[appsv1.DeploymentSpec](), "spec")
}

// walk returns the shapes of the type of a field of Deployment, and of all types below it.
func walk(t reflect.Type, path ...string) (root *structShape, all []*structShape) {
	deployment := deploymentType()
	w := &walker{known: map[reflect.Type]*structShape{}, schema: deployment.Schema()}
	of := w.resolve(deployment.TypeRef())
	for _, name := range path {
		of = w.fieldOf(of, name)
	}
	root = w.structOf(t, of)
	return root, w.order
}

// deploymentType returns an empty Deployment with the schema by which the API server applies it.
func deploymentType() *typed.TypedValue {
	deployment := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	value, err := applyconfigurations.NewTypeConverter(scheme.Scheme).ObjectToTyped(deployment)
	if err != nil {
		panic(err)
	}
	return value
}

func (w *walker) resolve(ref schema.TypeRef) schema.Atom {
	atom, ok := w.schema.Resolve(ref)
	if !ok {
		panic(fmt.Sprintf("%v is not in the schema", ref))
	}
	return atom
}

func (w *walker) fieldOf(of schema.Atom, name string) schema.Atom {
	field, ok := of.Map.FindField(name)
	if !ok {
		panic(fmt.Sprintf("%s is not in the schema", name))
	}
	return w.resolve(field.Type)
}

// listKeys returns the fields that identify the items of a list.
func (w *walker) listKeys(list *schema.List) []listKey {
	var keys []listKey
	for _, name := range list.Keys {
		field, _ := w.resolve(list.ElementType).Map.FindField(name)
		defaultValue, _ := field.Default.(string)
		keys = append(keys, listKey{name, defaultValue})
	}
	return keys
}

func (w *walker) shapeOf(t reflect.Type, of schema.Atom) shape {
	if k, ok := leaves[t]; ok {
		return shape{kind: k}
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		panic(fmt.Sprintf("%v has a custom JSON decoder: implement it in canonical.rs, then add the type to leaves", t))
	}
	switch t.Kind() {
	case reflect.Bool:
		return shape{kind: kindBool}
	case reflect.Int32, reflect.Int64:
		return shape{kind: kindInteger}
	case reflect.String:
		return shape{kind: kindString}
	case reflect.Struct:
		return shape{kind: kindStruct, of: w.structOf(t, of)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			break // bytes are base64 in JSON; no template field uses them
		}
		items := w.elementOf(t, of.List.ElementType)
		return shape{kind: kindList, items: &items}
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			break
		}
		items := w.elementOf(t, of.Map.ElementType)
		return shape{kind: kindMap, items: &items}
	}
	panic(fmt.Sprintf("%v: unsupported kind of type", t))
}

func (w *walker) elementOf(t reflect.Type, of schema.TypeRef) shape {
	if t.Elem().Kind() == reflect.Pointer {
		panic(fmt.Sprintf("%v: elements that can be nil are not supported", t))
	}
	return w.shapeOf(t.Elem(), w.resolve(of))
}

func (w *walker) structOf(t reflect.Type, of schema.Atom) *structShape {
	if s, ok := w.known[t]; ok {
		return s
	}
	s := &structShape{name: t.Name()}
	for _, other := range w.order {
		if other.name == s.name {
			panic(fmt.Sprintf("two types have the name %s", s.name))
		}
	}
	w.known[t] = s // before the fields are added, because types may be recursive
	w.order = append(w.order, s)
	w.addFields(s, t, of)
	slices.SortFunc(s.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(s.fields); i++ {
		if s.fields[i-1].name == s.fields[i].name {
			panic(fmt.Sprintf("%v has two fields with the JSON name %q", t, s.fields[i].name))
		}
	}
	return s
}

func (w *walker) addFields(s *structShape, t reflect.Type, of schema.Atom) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if !f.IsExported() {
			panic(fmt.Sprintf("%v.%s is not exported, so the comparison would panic", t, f.Name))
		}
		if options != "" && options != "omitempty" && options != "inline" && options != "omitempty,omitzero" {
			panic(fmt.Sprintf("%v.%s: unknown JSON option in %q", t, f.Name, options))
		}
		if name == "" && f.Anonymous {
			w.addFields(s, f.Type, of) // no embedded type is a pointer
			continue
		}
		if name == "" {
			panic(fmt.Sprintf("%v.%s has no JSON name", t, f.Name))
		}
		inner, pointer := f.Type, false
		if inner.Kind() == reflect.Pointer {
			inner, pointer = inner.Elem(), true
		}
		strategies := strings.Split(f.Tag.Get("patchStrategy"), ",")
		mergeKey := f.Tag.Get("patchMergeKey")
		if !slices.Contains(strategies, "merge") {
			mergeKey = ""
		}
		of := w.fieldOf(of, name)
		field := field{
			name: name, pointer: pointer, shape: w.shapeOf(inner, of),
			mergeKey: mergeKey, retainsKeys: slices.Contains(strategies, "retainKeys"),
		}
		switch field.shape.kind {
		case kindList:
			field.listKeys = w.listKeys(of.List)
		case kindStruct, kindMap:
			field.atomic = of.Map.ElementRelationship == schema.Atomic
		}
		s.fields = append(s.fields, field)
	}
}

// apiVersion returns the version of k8s.io/api that this program is built with.
func apiVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		panic("built without module information")
	}
	for _, dep := range info.Deps {
		if dep.Path != "k8s.io/api" {
			continue
		}
		if dep.Replace != nil {
			return dep.Replace.Version
		}
		return dep.Version
	}
	panic("k8s.io/api is not a dependency")
}

// writeRust writes the content of src/core/template/shape.rs.
func writeRust(out io.Writer) {
	spec, all := walkSpec()
	template, _ := walkTemplate()
	slices.SortFunc(all, func(a, b *structShape) int { return strings.Compare(a.name, b.name) })

	fmt.Fprintf(out, "// @generated by tests/shapegen from k8s.io/api %s. Do not edit.\n", apiVersion())
	fmt.Fprintf(out, "// Regenerate: cd tests && go run ./shapegen > ../src/core/template/shape.rs\n\n")
	fmt.Fprintf(out, "//! The shape of a Deployment and its pod template: what Kubernetes' Go types make of each JSON field.\n\n")
	fmt.Fprintf(out, "use super::kind::{Field, Kind, Struct};\n\n")
	fmt.Fprintf(out, "/// The version of `k8s.io/api` that the shapes were read from.\n")
	fmt.Fprintf(out, "pub const API_VERSION: &str = %q;\n\n", apiVersion())
	fmt.Fprintf(out, "/// The shape of a PodTemplateSpec.\npub static TEMPLATE: Kind = Kind::Struct(&%s);\n\n", rustName(template.name))
	fmt.Fprintf(out, "/// The shape of the spec of a Deployment.\npub static SPEC: Kind = Kind::Struct(&%s);\n\n", rustName(spec.name))
	fmt.Fprintf(out, "/// The shape of the metadata of an object.\npub static METADATA: Kind = Kind::Struct(&%s);\n", rustName("ObjectMeta"))
	for _, s := range all {
		fmt.Fprintf(out, "\nstatic %s: Struct = Struct {\n    name: %q,\n    fields: &[\n", rustName(s.name), s.name)
		for _, f := range s.fields {
			constructor := "value"
			if f.pointer {
				constructor = "pointer"
			}
			merge := ""
			if f.mergeKey != "" {
				merge = fmt.Sprintf(".merged_by(%q)", f.mergeKey)
			}
			if f.retainsKeys {
				merge += ".retaining_keys()"
			}
			if len(f.listKeys) > 0 {
				keys := make([]string, len(f.listKeys))
				for i, key := range f.listKeys {
					keys[i] = fmt.Sprintf("(%q, %q)", key.name, key.defaultValue)
				}
				merge += fmt.Sprintf(".keyed_by(&[%s])", strings.Join(keys, ", "))
			}
			if f.atomic {
				merge += ".atomic()"
			}
			fmt.Fprintf(out, "        Field::%s(%q, %s)%s,\n", constructor, f.name, rustKind(f.shape), merge)
		}
		fmt.Fprintf(out, "    ],\n};\n")
	}
}

func rustKind(s shape) string {
	switch s.kind {
	case kindStruct:
		return fmt.Sprintf("Kind::Struct(&%s)", rustName(s.of.name))
	case kindList, kindMap:
		return fmt.Sprintf("Kind::%s(&%s)", s.kind, rustKind(*s.items))
	default:
		return "Kind::" + string(s.kind)
	}
}

// rustName converts the name of a Go type to that of a Rust static, for example AWSElasticBlockStore to
// AWS_ELASTIC_BLOCK_STORE.
func rustName(goName string) string {
	var name strings.Builder
	upper := func(i int) bool { return i < len(goName) && goName[i] >= 'A' && goName[i] <= 'Z' }
	for i := range len(goName) {
		if i > 0 && upper(i) && (!upper(i-1) || (i+1 < len(goName) && !upper(i+1))) {
			name.WriteByte('_')
		}
		name.WriteByte(goName[i])
	}
	return strings.ToUpper(name.String())
}
