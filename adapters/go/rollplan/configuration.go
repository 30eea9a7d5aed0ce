package rollplan

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Kinds of configurations.
var (
	// ConfigMap is the kind of ConfigMaps.
	ConfigMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	// Secret is the kind of Secrets.
	Secret = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	// SecretProviderClassPodStatus is the kind in which the Secrets Store CSI driver reports the mounted objects of a pod.
	SecretProviderClassPodStatus = schema.GroupVersionKind{Group: "secrets-store.csi.x-k8s.io", Version: "v1", Kind: "SecretProviderClassPodStatus"}
)

// Checksums computes the checksums of configurations: for the profile of rollplan SHA-256 for each key, and for the other
// profiles also the checksum of their controllers.
type Checksums struct {
	// Profile determines the checksum of a whole configuration.
	Profile rollplanv1.RestartProfile
	// Key is the key of HMAC-SHA-256. Without it, checksums are plain hashes, and anyone who may read workloads can verify
	// guesses of secret values.
	Key []byte
}

// entry is a key of a configuration with its value.
type entry struct {
	key   string
	value []byte
	// text is the value in the form that Reloader hashes.
	text string
}

// summarize replaces the content of a configuration by its checksums. It skips values that cannot be decoded, which the API
// server never stores.
func (c Checksums) summarize(o *Object) {
	if o.Configuration != nil {
		return
	}
	summary := &rollplanv1.Configuration{Namespace: o.Namespace, Name: o.Name, KeyChecksums: map[string]string{}}
	var entries []entry
	switch o.GVK() {
	case SecretProviderClassPodStatus:
		summary.Kind = rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET_PROVIDER_CLASS
		summary.Name = strings.Clone(o.field("status.secretProviderClassName").String())
		entries = classEntries(o)
	case Secret:
		summary.Kind = rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET
		entries = dataEntries(o, "data", true)
	default:
		summary.Kind = rollplanv1.ConfigurationKind_CONFIGURATION_KIND_CONFIG_MAP
		binary := dataEntries(o, "binaryData", true)
		for _, entry := range binary {
			summary.BinaryKeys = append(summary.BinaryKeys, strings.Clone(entry.key))
		}
		entries = append(dataEntries(o, "data", false), binary...)
	}
	for _, entry := range entries {
		summary.KeyChecksums[strings.Clone(entry.key)] = c.hex(entry.value)
	}
	switch {
	case c.Profile == rollplanv1.RestartProfile_RESTART_PROFILE_XING && o.GVK() != SecretProviderClassPodStatus:
		summary.Checksum = c.xing(o.field("data"))
	case c.Profile == rollplanv1.RestartProfile_RESTART_PROFILE_RELOADER:
		summary.Checksum = c.reloader(summary, entries)
	}
	summary.Annotations = planned(o.field("metadata.annotations"))
	created := o.createdAt()
	if at := o.dataChangedAt(); !at.IsZero() {
		summary.ChangedAt, summary.ChangeUncertain = timestamppb.New(at), o.dataWriteUncertain
	}
	if o.GVK() == SecretProviderClassPodStatus {
		// The status of a new pod is not a change.
		summary.ChangeUncertain = !o.dataWrite.After(created)
	} else if !created.IsZero() {
		summary.CreatedAt, summary.ResourceVersion = timestamppb.New(created), o.version()
	}
	o.Configuration, o.JSON, o.Labels = summary, "", nil
}

// dataEntries decodes a field of a ConfigMap or Secret.
func dataEntries(o *Object, field string, isBase64 bool) (entries []entry) {
	o.field(field).ForEach(func(key, value gjson.Result) bool {
		found := entry{key: key.String(), value: []byte(value.String()), text: value.String()}
		if isBase64 {
			decoded, err := base64.StdEncoding.DecodeString(found.text)
			if err != nil {
				return true
			}
			found.value = decoded
		}
		if isBase64 && field == "data" {
			found.text = string(found.value)
		}
		entries = append(entries, found)
		return true
	})
	return entries
}

// classEntries returns the versions of the objects of a SecretProviderClass.
func classEntries(o *Object) (entries []entry) {
	o.field("status.objects").ForEach(func(_, object gjson.Result) bool {
		version := object.Get("version").String()
		entries = append(entries, entry{key: object.Get("id").String(), value: []byte(version), text: version})
		return true
	})
	return entries
}

func (c Checksums) hex(text []byte) string {
	if len(c.Key) == 0 {
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	mac := hmac.New(sha256.New, c.Key)
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}

// goEscapes are the escapes that encoding/json did not have yet in the version of the xing controller.
var goEscapes = strings.NewReplacer(`\\`, `\\`, `\b`, `\u0008`, `\f`, `\u000c`)

// xing is the checksum of the xing controller: the first 8 bytes of the SHA-256 of Go's JSON of `.data`. Its Secrets are
// in base64.
func (c Checksums) xing(data gjson.Result) string {
	var values map[string]string
	if data.IsObject() {
		values = stringMap(data)
	}
	text, _ := json.Marshal(values) // strings can always be marshaled
	return c.hex([]byte(goEscapes.Replace(string(text))))[:16]
}

// reloader is the checksum of Reloader: the SHA-1 of the sorted entries. With a key, an HMAC of the same length.
func (c Checksums) reloader(summary *rollplanv1.Configuration, entries []entry) string {
	lines := make([][]byte, 0, len(entries)+1)
	for _, entry := range entries {
		lines = append(lines, []byte(entry.key+"="+entry.text))
	}
	if summary.GetKind() == rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET_PROVIDER_CLASS {
		lines = append(lines, []byte("SecretProviderClassName="+summary.GetName()))
	}
	slices.SortFunc(lines, bytes.Compare)
	all := bytes.Join(lines, []byte(";"))
	if len(c.Key) > 0 {
		return c.hex(all)[:40]
	}
	sum := sha1.Sum(all)
	return hex.EncodeToString(sum[:])
}

// dataChangedAt returns the time of the last write that may have changed a configuration's data, or zero if it is unknown.
func (o *Object) dataChangedAt() time.Time {
	if o.field("immutable").Bool() {
		return o.createdAt()
	}
	return o.dataWrite
}

func (o *Object) createdAt() time.Time {
	created, _ := time.Parse(time.RFC3339, o.field("metadata.creationTimestamp").String())
	return created
}

// dataFields are the fields with the data of each kind of configuration.
var dataFields = map[schema.GroupVersionKind][]string{
	ConfigMap:                    {"f:data", "f:binaryData"},
	Secret:                       {"f:data"},
	SecretProviderClassPodStatus: {"f:status"},
}

// lastAppliedOnly is the metadata of a manager that has set no other label or annotation than that of kubectl apply.
const lastAppliedOnly = `{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}}`

// readDataWrites reads the times of the latest writes of a configuration from its managed fields. The time of a manager is that
// of its last change of any field: if it owns other fields than data, it is uncertain what it has changed. After the last key is
// removed, no entry owns data, so the latest write of any field counts.
func (o *Object) readDataWrites(kind schema.GroupVersionKind, managedFields gjson.Result) {
	data, ok := dataFields[kind]
	if !ok {
		return
	}
	o.dataWriteUncertain = true
	managedFields.ForEach(func(_, manager gjson.Result) bool {
		at, err := time.Parse(time.RFC3339, manager.Get("time").String())
		if err != nil {
			return true
		}
		if o.lastWrite.Before(at) {
			o.lastWrite = at
		}
		isOwner, isOnlyData := false, true
		manager.Get("fieldsV1").ForEach(func(field, owned gjson.Result) bool {
			switch {
			case slices.Contains(data, field.String()):
				isOwner = true
			case field.String() == "f:metadata" && owned.Raw == lastAppliedOnly, field.String() == "f:type":
			default:
				isOnlyData = false
			}
			return true
		})
		if isOwner && !at.Before(o.dataWrite) {
			o.dataWriteUncertain = !isOnlyData && (o.dataWriteUncertain || o.dataWrite.Before(at))
			o.dataWrite = at
		}
		return true
	})
	if o.dataWrite.IsZero() {
		o.dataWrite = o.lastWrite
	}
}
